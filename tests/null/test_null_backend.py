"""Shapes, dtypes, placement and plans on a backend that computes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.testing import _kit, cases, null_backend

CASES = cases()


def test_it_is_small() -> None:
    assert len(Path(null_backend.__file__).read_text().splitlines()) < 100


@pytest.mark.parametrize("planned", [False, True], ids=["eager", "plan"])
def test_every_case_has_the_shape_and_dtype_of_its_rule(null: Any, planned: bool) -> None:
    for case in CASES:
        inferred = _kit.inferred(case)
        open_sizes = any(size is None for shape, _ in inferred for size in shape)
        if planned and open_sizes:  # the values say the size, and a recording has none
            with pytest.raises(crt.UnsupportedError, match="depends on the values"):
                _kit.call(case, "null", planned)
            continue
        results, _ = _kit.call(case, "null", planned)
        for result, (shape, dtype) in zip(results, inferred, strict=True):
            assert result.dtype.name == dtype and len(result.shape) == len(shape), str(case)
            for found, size in zip(result.shape, shape, strict=True):
                assert size is None or found == size, str(case)
        assert all(result.device == crt.Device("null") for result in results), str(case)


def test_kernels_are_called_and_views_are_not(null: Any) -> None:
    x = crt.tensor(np.ones((2, 3), np.float32), device="null")
    y = x.transpose(0, 1).unsqueeze(0).expand(4, 3, 2).narrow(0, 1, 2)
    assert null.calls == {}
    assert tuple(y.shape) == (2, 3, 2)
    y.exp()
    assert null.calls == {"exp": 1}


def test_operands_are_converted_before_the_kernel(null: Any) -> None:
    x = crt.tensor(np.ones(3, np.int64), device="null")
    y = crt.tensor(np.ones(3, np.float32), device="null")
    assert (x + y).dtype is crt.float32
    assert null.calls == {"cast": 1, "add": 1}


def test_devices_do_not_mix(null: Any) -> None:
    here = crt.tensor(np.ones(3, np.float32))
    there = here.to("null")
    assert str(there.device) == "null:0" and str(there.to("null:1").device) == "null:1"
    assert there.to("cpu").tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(crt.InvalidArgumentError, match=r"add: inputs are on different devices"):
        here + there
    with pytest.raises(crt.InternalError, match=r"cannot allocate on device Null:2"):
        crt.zeros(2, device="null:2")


def test_a_scope_counts_although_the_call_was_seen_before(null: Any) -> None:
    from clika_runtime._native._core import device_scope

    for _ in range(2):
        assert str(crt.zeros(2, 3).device) == "cpu"
        assert str(crt.full((2,), 1.5).device) == "cpu"
        with device_scope(crt.Device("null")):
            assert str(crt.zeros(2, 3).device) == "null:0"
            assert str(crt.full((2,), 1.5).device) == "null:0"
            assert str(crt.zeros(2, 3, device="cpu").device) == "cpu"


def block(recorder: Any, tokens: Any, blocks: int) -> Any:
    """A transformer block with a paged cache, over a symbolic number of tokens and sequences."""

    def take(name: str, *shape: Any, dtype: Any = crt.float32) -> Any:
        return recorder.input(name, shape, dtype, "null")

    def weight(rows: int, columns: int) -> Any:
        return crt.zeros(rows, columns, device="null")

    batch = recorder.symbol("batch", 1, 64)
    x = take("x", tokens, 64)
    positions = take("positions", tokens, dtype=crt.int32)
    slots = take("slots", tokens, dtype=crt.int32)
    table = take("table", batch, blocks, dtype=crt.int32)
    starts = take("starts", batch + 1, dtype=crt.int32)
    lengths = take("lengths", batch, dtype=crt.int32)
    pools = [recorder.state(crt.zeros(blocks, 8, 2, 16, device="null")) for _ in range(2)]
    table_of_angles = crt.zeros(8, device="null")
    normed = crt.rms_norm(x, 64, crt.ones(64, device="null"))
    q, k, v = crt.split_with_sizes(crt.linear(normed, weight(128, 64)), [64, 32, 32], -1)
    q = crt.rotary(q.reshape(tokens, 4, 16), positions, table_of_angles)
    k = crt.rotary(k.reshape(tokens, 2, 16), positions, table_of_angles)
    keys = crt.kv_append(pools[0], k, slots)
    values = crt.kv_append(pools[1], v.reshape(tokens, 2, 16), slots)
    seen = crt.paged_attention(q, keys, values, table, starts, lengths, scale=0.25)
    assert tuple(seen.shape) == (tokens, 4, 16)
    out = crt.linear(seen.reshape(tokens, 64), weight(64, 64))
    normed, x = crt.add_rms_norm(out, x, weight=crt.ones(64, device="null"))
    gate, up = crt.chunk(crt.linear(normed, weight(256, 64)), 2, -1)
    return x + crt.linear(crt.swiglu(gate, up), weight(64, 128))


def test_a_block_with_symbolic_sizes_becomes_one_plan(null: Any) -> None:
    from clika_runtime._native._core import GraphRecorder

    recorder = GraphRecorder()
    tokens = recorder.symbol("tokens", 1, 512)
    result = block(recorder, tokens, 5)
    assert tuple(result.shape) == (tokens, 64)
    plan = recorder.compile({"y": result})
    for t, b in ((1, 1), (7, 3), (2, 2)):
        shapes = {"x": (t, 64), "positions": (t,), "slots": (t,), "table": (b, 5)}
        shapes.update(starts=(b + 1,), lengths=(b,))
        null.calls.clear()
        given = {
            name: crt.zeros(*shape, dtype=crt.float32 if name == "x" else crt.int32, device="null")
            for name, shape in shapes.items()
        }
        null.calls.clear()
        assert tuple(plan.run(given)["y"].shape) == (t, 64)
        assert null.calls["linear"] == 4 and null.calls["paged_attention"] == 1
        assert null.calls["kv_append"] == 2 and "reshape" not in null.calls


def test_composed_forms_run_where_there_is_no_kernel() -> None:
    from clika_runtime._native._core import register_backend

    backend = null_backend.NullBackend(composed=True)
    register_backend("metal", backend)  # a name that this test process has no use for
    x = crt.tensor(np.ones((2, 4), np.float32)).to("metal")
    crt.softmax(x, -1)
    assert set(backend.calls) == {"amax", "sub", "exp", "sum", "div"}
