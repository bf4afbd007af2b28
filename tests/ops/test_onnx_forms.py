"""Forms of the table of ONNX's operators that are not one operator of ours, made as it says and
compared with ONNX's reference. Float results: 1e-5 relative, a few roundings of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.ops._onnx_table import OPSET, TABLE

onnx = pytest.importorskip("onnx")

RNG = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def reference(name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> list[Any]:
    """What ONNX's own evaluator gives for one node; None is an absent input."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = ["" if value is None else f"i{k}" for k, value in enumerate(inputs)]
    results = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(name, names, results, **attributes)
    known = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for key, value in zip(names, inputs, strict=True)
        if value is not None
    ]
    made = [helper.make_tensor_value_info(key, 1, None) for key in results]
    graph = helper.make_graph([node], "one", known, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    given = {key: value for key, value in zip(names, inputs, strict=True) if value is not None}
    found: list[Any] = ReferenceEvaluator(model).run(None, given)
    return found


def t(value: Any) -> Any:
    return crt.from_numpy(np.ascontiguousarray(value))


def check(want: list[Any], *got: Any) -> None:
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- places
def gather_nd(data: Any, indices: Any) -> Any:
    return ops.index(data, list(ops.unbind(indices, -1)))


def test_gather_nd() -> None:
    data, indices = normal(3, 4, 5), RNG.integers(0, 3, (2, 6, 2))
    check(reference("GatherND", data, indices), gather_nd(t(data), t(indices)))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd(reduction: str) -> None:
    data = normal(4, 3)
    indices = np.array([[1], [3]] if reduction == "none" else [[1], [3], [1]])
    updates = normal(len(indices), 3)
    places = list(ops.unbind(t(indices), -1))
    if reduction in ("none", "add"):
        got = ops.index_put(t(data), places, t(updates), reduction == "add")
    else:
        index = ops.expand(ops.unsqueeze(places[0], -1), updates.shape)
        ours = {"mul": "prod", "max": "amax", "min": "amin"}[reduction]
        got = ops.scatter_reduce(t(data), 0, index, t(updates), ours)
    check(reference("ScatterND", data, indices, updates, reduction=reduction), got)


def test_reverse_sequence() -> None:
    data, lengths = normal(5, 3, 2), np.array([1, 4, 5])
    at = ops.unsqueeze(ops.arange(5), -1)
    place = ops.where(ops.lt(at, t(lengths)), ops.sub(t(lengths - 1), at), at)
    index = ops.expand(ops.unsqueeze(place, -1), data.shape)
    want = reference("ReverseSequence", data, lengths, time_axis=0, batch_axis=1)
    check(want, ops.gather(t(data), 0, index))


def test_center_crop_pad() -> None:
    data = normal(7, 3)
    want = reference("CenterCropPad", data, np.array([4, 6]))
    check(want, ops.pad(ops.slice(t(data), 0, 1, 5), (1, 2)))


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode: str) -> None:
    cache, update = normal(2, 6, 3), normal(2, 2, 3)
    starts = np.array([1, 5 if mode == "circular" else 3])
    at = ops.add(ops.unsqueeze(t(starts), -1), ops.arange(2))
    at = ops.remainder(at, 6) if mode == "circular" else at
    got = ops.index_put(t(cache), [ops.unsqueeze(ops.arange(2), -1), at], t(update))
    check(reference("TensorScatter", cache, update, starts, axis=1, mode=mode), got)


def test_compress_and_hardmax_and_one_hot() -> None:
    data = normal(4, 3)
    condition = np.array([True, False, True, True])
    kept = ops.index_select(t(data), 0, ops.squeeze(ops.nonzero(t(condition)), -1))
    check(reference("Compress", data, condition, axis=0), kept)
    best = ops.one_hot(ops.argmax(t(data), -1), 3)
    check(reference("Hardmax", data, axis=-1), ops.cast(best, crt.float32))


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums_and_products(reverse: int, exclusive: int) -> None:
    data = normal(3, 5)
    for name, call, first in (("CumSum", ops.cumsum, 0.0), ("CumProd", ops.cumprod, 1.0)):
        x = ops.flip(t(data), [1]) if reverse else t(data)
        x = call(x, 1)
        if exclusive:
            x = ops.cat([crt.full((3, 1), first), ops.narrow(x, 1, 0, 4)], 1)
        x = ops.flip(x, [1]) if reverse else x
        check(reference(name, data, np.array(1), reverse=reverse, exclusive=exclusive), x)


# ---------------------------------------------------------------- element by element
def test_activations() -> None:
    a, b = normal(3, 4), normal(3, 4)
    check(reference("Swish", a, alpha=1.5), ops.mul(t(a), ops.sigmoid(ops.mul(t(a), 1.5))))
    x = ops.add(ops.mul(t(a), 0.3), 0.4)
    check(reference("HardSigmoid", a, alpha=0.3, beta=0.4), ops.clamp(x, 0.0, 1.0))
    check(reference("ThresholdedRelu", a, alpha=0.2), ops.threshold(t(a), 0.2, 0.0))
    want = reference("Selu", a, alpha=1.5, gamma=1.1)
    check(want, ops.mul(ops.elu(t(a), 1.5), 1.1))
    low, high = ops.add(t(a), 0.1), ops.sub(t(a), 0.1)
    got = ops.where(ops.lt(t(a), -0.5), low, ops.where(ops.gt(t(a), 0.5), high, 0.0))
    check(reference("Shrink", a, lambd=0.5, bias=0.1), got)
    x = ops.sub(t(a), ops.mean(t(a), (0, 1), True))
    scale = ops.sqrt(ops.add(ops.var(t(a), (0, 1), correction=0, keepdim=True), 1e-9))
    want = reference("MeanVarianceNormalization", a, axes=[0, 1])
    check(want, ops.div(x, scale))
    check(reference("PRelu", a, b), ops.where(ops.lt(t(a), 0.0), ops.mul(t(a), t(b)), t(a)))


def test_integer_products() -> None:
    a, b = RNG.integers(0, 255, (3, 4), np.uint8), RNG.integers(-99, 99, (4, 2), np.int8)
    whole = [ops.cast(t(x), crt.int32) for x in (a, b)]
    got = ops.matmul(ops.sub(whole[0], 120), whole[1])
    check(reference("MatMulInteger", a, b, np.array(120, np.uint8)), got)
    image, kernel = RNG.integers(0, 255, (1, 2, 5, 4), np.uint8), RNG.integers(0, 9, (3, 2, 2, 2))
    x = ops.sub(ops.permute(ops.cast(t(image), crt.int32), (0, 2, 3, 1)), 7)
    w = ops.permute(ops.cast(t(kernel), crt.int32), (0, 2, 3, 1))
    want = reference("ConvInteger", image, kernel.astype(np.uint8), np.array(7, np.uint8))
    check(want, ops.permute(ops.conv2d(x, w), (0, 3, 1, 2)))


# ---------------------------------------------------------------- recurrences: bodies of a Scan
def gates(x: Any, h: Any, w: Any, r: Any, wb: Any, rb: Any, count: int) -> list[Any]:
    both = ops.add(ops.add(ops.linear(x, w), wb), ops.add(ops.linear(h, r), rb))
    return list(ops.chunk(both, count, -1))


def recurrence(name: str, count: int) -> tuple[Any, ...]:
    size = 3
    x, w = normal(4, 2, 5), normal(1, count * size, 5)
    return x, w, normal(1, count * size, size), normal(1, 2 * count * size), size


def test_rnn() -> None:
    x, w, r, b, size = recurrence("RNN", 1)
    h = crt.zeros(2, size)
    wb, rb = ops.chunk(t(b[0]), 2, 0)
    seen = []
    for step in ops.unbind(t(x), 0):
        h = ops.tanh(gates(step, h, t(w[0]), t(r[0]), wb, rb, 1)[0])
        seen.append(h)
    want = reference("RNN", x, w, r, b, outputs=2, hidden_size=size)
    check(want, ops.unsqueeze(ops.stack(seen, 0), 1), ops.unsqueeze(h, 0))


def test_gru() -> None:
    x, w, r, b, size = recurrence("GRU", 3)
    h = crt.zeros(2, size)
    wz, wr, wh, rz, rr, rh = ops.chunk(t(b[0]), 6, 0)
    inward, inner = ops.chunk(t(w[0]), 3, 0), ops.chunk(t(r[0]), 3, 0)
    for step in ops.unbind(t(x), 0):
        z = ops.sigmoid(gates(step, h, inward[0], inner[0], wz, rz, 1)[0])
        reset = ops.sigmoid(gates(step, h, inward[1], inner[1], wr, rr, 1)[0])
        kept = ops.mul(reset, ops.add(ops.linear(h, inner[2]), rh))
        new = ops.tanh(ops.add(ops.add(ops.linear(step, inward[2]), wh), kept))
        h = ops.add(ops.mul(ops.sub(1.0, z), new), ops.mul(z, h))
    options = {"hidden_size": size, "linear_before_reset": 1}
    want = reference("GRU", x, w, r, b, outputs=2, **options)
    check(want[1:], ops.unsqueeze(h, 0))


def test_lstm() -> None:
    x, w, r, b, size = recurrence("LSTM", 4)
    h = c = crt.zeros(2, size)
    wb, rb = ops.chunk(t(b[0]), 2, 0)
    for step in ops.unbind(t(x), 0):
        i, o, f, g = gates(step, h, t(w[0]), t(r[0]), wb, rb, 4)
        c = ops.add(ops.mul(ops.sigmoid(f), c), ops.mul(ops.sigmoid(i), ops.tanh(g)))
        h = ops.mul(ops.sigmoid(o), ops.tanh(c))
    want = reference("LSTM", x, w, r, b, outputs=3, hidden_size=size)
    check(want[1:], ops.unsqueeze(h, 0), ops.unsqueeze(c, 0))


def test_linear_attention() -> None:
    q, k, v = (normal(1, 4, 6) for _ in range(3))
    decay, beta = -np.abs(normal(1, 4, 2)), np.abs(normal(1, 4, 2))
    state = crt.zeros(1, 2, 3, 3)
    seen = []
    for i in range(4):
        step = [ops.reshape(t(x[:, i]), (1, 2, 3, 1)) for x in (q, k, v)]
        row, key, value = step
        state = ops.mul(state, ops.exp(ops.reshape(t(decay[:, i]), (1, 2, 1, 1))))
        told = ops.sub(value.mT, ops.matmul(key.mT, state))
        rate = ops.reshape(t(beta[:, i]), (1, 2, 1, 1))
        state = ops.add(state, ops.matmul(ops.mul(key, rate), told))
        seen.append(ops.reshape(ops.matmul(row.mT, state), (1, 6)))
    options = {"q_num_heads": 2, "kv_num_heads": 2, "scale": 1.0, "update_rule": "gated_delta"}
    want = reference("LinearAttention", q, k, v, None, decay, beta, outputs=2, **options)
    check(want, ops.stack(seen, 1), state)


def test_causal_convolution_with_state() -> None:
    x, w, b, past = normal(2, 3, 5), normal(3, 1, 4), normal(3), normal(2, 3, 3)
    whole = ops.permute(ops.cat([t(past), t(x)], 2), (0, 2, 1))
    made = ops.conv1d(whole, ops.permute(t(w), (0, 2, 1)), t(b), groups=3)
    got = ops.permute(ops.silu(made), (0, 2, 1))
    want = reference("CausalConvWithState", x, w, b, past, outputs=2, activation="silu")
    check(want, got, ops.narrow(ops.permute(whole, (0, 2, 1)), 2, 5, 3))


# ---------------------------------------------------------------- images
def last(x: Any) -> Any:
    return ops.permute(t(x), (0, 2, 3, 1))


def first(x: Any) -> Any:
    return ops.permute(x, (0, 3, 1, 2))


def at_pixels(image: Any, rows: Any, columns: Any, padding: str) -> Any:
    """`grid_sample` at places that count pixels; rows and columns [N, h, w]."""
    height, width = image.shape[1:3]
    grid = [
        ops.sub(ops.div(ops.mul(ops.add(at, 0.5), 2.0), size), 1.0)
        for at, size in ((columns, width), (rows, height))
    ]
    return ops.grid_sample(image, ops.stack(grid, -1), "bilinear", padding, False)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str) -> None:
    image = normal(2, 3, 6, 7)
    rois = np.array([[0.5, 1.0, 5.0, 4.5], [1.0, 0.5, 3.0, 5.0]], np.float32)
    where, bins, ratio = np.array([1, 0]), 2, 2
    picked = ops.index_select(last(image), 0, t(where))
    x1, y1, x2, y2 = (ops.reshape(ops.sub(v, 0.5), (2, 1)) for v in ops.unbind(t(rois), 1))
    steps = ops.div(ops.add(ops.arange(bins * ratio, dtype=crt.float32), 0.5), bins * ratio)
    rows = ops.add(y1, ops.mul(ops.sub(y2, y1), steps))
    columns = ops.add(x1, ops.mul(ops.sub(x2, x1), steps))
    rows, columns = ops.unsqueeze(rows, 2), ops.unsqueeze(columns, 1)
    options = {"output_height": bins, "output_width": bins, "sampling_ratio": ratio}
    want = reference("RoiAlign", image, rois, where, mode=mode, **options)
    if mode == "avg":
        side = (2, bins * ratio, bins * ratio)
        seen = at_pixels(picked, ops.expand(rows, side), ops.expand(columns, side), "border")
        parts = ops.reshape(seen, (2, bins, ratio, bins, ratio, 3))
        check(want, first(ops.mean(parts, (2, 4))))
        return
    corners = []  # the largest of the four corners of each sample, each with its weight
    number = ops.reshape(ops.arange(2), (2, 1, 1))
    for down in (0.0, 1.0):
        for right in (0.0, 1.0):
            place, weight = [], 1.0
            for at, size, further in ((rows, 6, down), (columns, 7, right)):
                inside = ops.clamp(at, 0.0, size - 1.0)
                low = ops.floor(inside)
                part = ops.sub(inside, low)
                weight = ops.mul(part if further else ops.sub(1.0, part), weight)
                place.append(ops.cast(ops.clamp(ops.add(low, further), max=size - 1.0), crt.int64))
            corner = ops.index(picked, [number, *place])
            corners.append(ops.mul(corner, ops.unsqueeze(weight, -1)))
    largest = ops.amax(ops.stack(corners, 0), 0)
    parts = ops.reshape(largest, (2, bins, ratio, bins, ratio, 3))
    check(want, first(ops.amax(parts, (2, 4))))


def test_maximum_of_regions() -> None:
    """ONNX's evaluator has no `MaxRoiPool`: against the definition, a bin at a time."""
    image = normal(2, 3, 6, 7)
    rois = np.array([[1, 1, 0, 5, 4], [0, 2, 1, 3, 5]])  # batch, x1, y1, x2, y2; both ends belong
    bins = 2
    want = np.zeros((2, 3, bins, bins), np.float32)
    masks = np.zeros((2, 2, bins, 7), bool)  # of rows and of columns: [axis, region, bin, place]
    for n, (batch, x1, y1, x2, y2) in enumerate(rois):
        for axis, (low, high, size) in enumerate(((y1, y2, 6), (x1, x2, 7))):
            step = (high - low + 1) / bins
            for k in range(bins):
                start, end = low + int(np.floor(k * step)), low + int(np.ceil((k + 1) * step))
                masks[axis, n, k, start : min(end, size)] = True
        for i, j in np.ndindex(bins, bins):
            rows, columns = masks[0, n, i, :6], masks[1, n, j]
            want[n, :, i, j] = image[batch][:, rows][:, :, columns].max((1, 2))
    picked = ops.index_select(last(image), 0, t(rois[:, 0]))
    lowest = -np.inf
    rows = t(masks[0, :, :, :6]).reshape(2, bins, 6, 1, 1)
    high = ops.amax(ops.where(rows, ops.unsqueeze(picked, 1), lowest), 2)  # [N, bins, W, C]
    columns = t(masks[1]).reshape(2, 1, bins, 7, 1)
    got = ops.amax(ops.where(columns, ops.unsqueeze(high, 2), lowest), 3)
    check([want], first(got))


def test_deformable_convolution() -> None:
    x, w, offset = normal(1, 2, 5, 5), normal(3, 2, 2, 2), normal(1, 8, 4, 4) * 0.6
    mask, b = np.abs(normal(1, 4, 4, 4)), normal(3)
    image, moved, weighed = last(x), last(offset), last(mask)
    grid = [ops.arange(4, dtype=crt.float32).reshape(shape) for shape in ((4, 1), (1, 4))]
    columns = []
    for k in range(4):
        rows = ops.add(ops.add(grid[0], float(k // 2)), ops.select(moved, -1, 2 * k))
        across = ops.add(ops.add(grid[1], float(k % 2)), ops.select(moved, -1, 2 * k + 1))
        seen = at_pixels(image, rows, across, "zeros")
        columns.append(ops.mul(seen, ops.unsqueeze(ops.select(weighed, -1, k), -1)))
    flat = ops.stack(columns, -2).reshape(1, 4, 4, 8)
    weight = ops.permute(t(w), (0, 2, 3, 1)).reshape(3, 8)
    got = ops.add(ops.matmul(flat, ops.transpose(weight, 0, 1)), t(b))
    options = {"kernel_shape": [2, 2], "pads": [0, 0, 0, 0]}
    check(reference("DeformConv", x, w, offset, b, mask, **options), first(got))


def test_spectra() -> None:
    x = normal(2, 16)
    window = np.hanning(8).astype(np.float32)
    want = reference("STFT", x[..., None], np.array(4), window, np.array(8), onesided=1)
    got = ops.stft(t(x), 8, 4, window=t(window), center=False)
    check(want, ops.transpose(got, 1, 2))
    check(reference("DFT", x[..., None], None, np.array(1), onesided=1), ops.rfft(t(x), None, 1))


def test_what_stands_here_is_in_the_table() -> None:
    assert {"grid_sample", "mean"} <= set(TABLE["RoiAlign"].operators)
    assert {"index_put", "scatter_reduce"} <= set(TABLE["ScatterND"].operators)
