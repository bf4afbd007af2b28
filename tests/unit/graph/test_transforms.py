"""The runtime's transforms: what each changes and what it leaves, with equal results to the bit.

The reference is the graph as it was recorded, run; `test_traced_is_eager` ties that to the
operators themselves, whose own tests compare with other libraries.
"""

from __future__ import annotations

import random

import gguf
import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import nn, ops
from clika_runtime.graph import DefaultsOptions, transforms
from clika_runtime.graph.legal import check_legal
from clika_runtime.io import make_quantized
from clika_runtime.testing import _numpy as kit

from .traced_graphs import applied, bits, codes, draw, form, optimized, results, trace

FLOATS = [crt.float32, crt.float16, crt.bfloat16, crt.float64]


def check(name, fn, *inputs, leaves, times=1):
    """One transform alone: how often it changes the graph, and the operators it leaves."""
    graph, changed = optimized(fn, *inputs, only=[name])
    assert changed == ({name: times} if times else {})
    assert codes(graph)[len(inputs) :] == leaves.split()
    return graph


def keeps(name, fn, *inputs):
    """One transform alone that finds nothing."""
    before = codes(trace(fn, *inputs))
    graph, changed = optimized(fn, *inputs, only=[name])
    assert changed == {} and codes(graph) == before
    return graph


def neg(x, times=2):
    for _ in range(times):
        x = crt.neg(x)
    return x


@pytest.fixture
def x():
    return draw(1, 4, 6, special=True)


# ---------------------------------------------------------------- cleanup
def test_cleanup_drops_what_nothing_reads(x):
    def fn(x):
        crt.relu(crt.exp(x)) * crt.ones(6)
        return crt.neg(x)

    graph = check("cleanup_graph", fn, x, leaves="Neg")
    assert graph.constants() == []


def test_cleanup_keeps_inputs_and_writes(x):
    held = crt.zeros(4, 6)

    def fn(x, unread):
        held.add_(x)
        return crt.neg(x)

    graph = trace(fn, x, x)
    graph.optimize([transforms.cleanup_graph()])
    assert graph.input_names() == ["x", "unread"]
    results(graph, [draw(3, 4, 6), x])
    assert bits(held) == bits(draw(3, 4, 6))


# ---------------------------------------------------------------- pairs
def test_double_neg(x):
    name = "remove_double_neg"
    check(name, lambda x: crt.relu(crt.neg(crt.neg(x))), x, leaves="Relu")
    check(name, lambda x: crt.relu(neg(x, 5)), x, leaves="Neg Relu")
    check(name, lambda x: (lambda n: [crt.exp(-n), crt.tanh(n)])(-x), x, leaves="Neg Exp Tanh")
    keeps(name, lambda x: -crt.relu(-x), x)


def test_an_output_keeps_bytes_of_its_own(x):
    name = "remove_double_neg"
    keeps(name, lambda x: neg(x), x)
    keeps(name, lambda x: (lambda y: [y, neg(y)])(crt.relu(x)), x)
    keeps(name, lambda x: neg(x).reshape(24), x)
    check(name, lambda x: neg(crt.relu(x)), x, leaves="Relu")


def test_written_bytes_keep_their_reads():
    def fn(x):
        y = crt.exp(x)
        z = neg(y)
        z.add_(1.0)
        return y + z

    keeps("remove_double_neg", fn, draw(1, 5))

    held = crt.ones(5)

    def later(x):
        before = neg(held)
        held.add_(x)
        return before * 2.0 + held

    graph = trace(later, draw(1, 5))
    assert not graph.optimize([transforms.remove_double_neg()]).changed


def test_redundant_relu(x):
    name = "remove_redundant_relu"
    check(name, lambda x: crt.relu(crt.relu(crt.relu(x))) + 1.0, x, leaves="Relu Add")
    for fn in (crt.sigmoid, crt.exp, crt.abs, crt.square, ops.relu6, ops.hardsigmoid):
        check(name, lambda x, fn=fn: crt.relu(fn(x)), x, leaves=codes(trace(fn, x))[1])
    check(name, lambda x: crt.relu(crt.softmax(x, -1)), draw(1, 4, 6), leaves="Softmax")
    keeps(name, lambda x: crt.relu(crt.tanh(x)), x)
    keeps(name, lambda x: crt.relu(crt.sqrt(x)), x)


def test_redundant_relu_of_a_carried_activation(x):
    graph, _ = optimized(lambda x: crt.relu(crt.relu(x + 1.0)).exp(), x)
    assert codes(graph) == ["x", "Add", "Exp"]
    graph = trace(lambda x: crt.relu(crt.relu(x + 1.0)).exp(), x)
    graph.optimize([transforms.fold_activation(), transforms.remove_redundant_relu()])
    assert codes(graph) == ["x", "Add", "Exp"]


def test_clamp_to_relu(x):
    name = "clamp_to_relu"
    for floor in (0, 0.0, -0.0):
        graph = check(name, lambda x, f=floor: crt.clamp(x, f) * 2.0, x, leaves="Relu Mul")
    assert [node.name for node in graph.nodes()] == ["x", "Clamp_1", "Mul_2"]
    keeps(name, lambda x: crt.clamp(x, 0.0, 6.0), x)
    keeps(name, lambda x: crt.clamp(x, 0.5), x)
    keeps(name, lambda x: crt.clamp(x, None, 0.0), x)
    keeps(name, lambda x: crt.clamp(x, crt.zeros(6)), x)
    whole = crt.tensor(np.arange(-3, 3, dtype=np.int32))
    check(name, lambda x: crt.clamp(x, 0), whole, leaves="Relu")
    keeps(name, lambda x: crt.clamp(x, 0.0), whole)  # gives float32


# ---------------------------------------------------------------- identities
@pytest.mark.parametrize("dtype", FLOATS)
def test_neutral_numbers(dtype):
    name = "fold_neutral_numbers"
    x = draw(1, 4, 6, dtype=dtype, special=True)
    one, pair, row, deep = (crt.ones(*s, dtype=dtype) for s in [(1,), (1, 1), (6,), (2, 1, 1)])
    for fn in (
        lambda x: x * 1,
        lambda x: 1.0 * x,
        lambda x: x / 1.0,
        lambda x: x - 0,
        lambda x: x + -0.0,
        lambda x: x * one,
        lambda x: x * pair,
        lambda x: x * 1 * 1.0 / 1,
    ):
        check(name, lambda x, fn=fn: crt.relu(fn(x)), x, leaves="Relu")
    for fn in (
        lambda x: x + 0.0,  # of -0.0 it is 0.0
        lambda x: x - -0.0,
        lambda x: x * 2.0,
        lambda x: 1.0 / x,
        lambda x: 0.0 - x,
        lambda x: crt.add(x, x, alpha=1),
        lambda x: crt.div(x, 1.0, rounding_mode="floor"),
        lambda x: x * row,
        lambda x: x * deep,  # another shape
    ):
        keeps(name, lambda x, fn=fn: crt.relu(fn(x)), x)


def test_neutral_numbers_of_integers():
    name = "fold_neutral_numbers"
    x = crt.tensor(np.array([-7, 0, 3], np.int32))
    check(name, lambda x: (x + 0).relu(), x, leaves="Relu")
    check(name, lambda x: (0 + x * 1 - 0).relu(), x, leaves="Relu")
    keeps(name, lambda x: (x + 0.0).relu(), x)  # float32
    keeps(name, lambda x: (x / 1).relu(), x)
    mask = crt.tensor(np.array([True, False]))
    keeps(name, lambda m: crt.relu((m * 1) + 0.5), mask)  # int64


def test_identity_views(x):
    name = "remove_identity_views"
    for fn in (
        lambda x: x.reshape(4, 6),
        lambda x: x.reshape(-1, 6),
        lambda x: x.permute(0, 1),
        lambda x: x.transpose(1, 1),
        lambda x: x.expand(4, 6),
        lambda x: x[:, 0:6],
        lambda x: crt.flatten(x, 1),
        lambda x: crt.squeeze(x, 0),
    ):
        check(name, lambda x, fn=fn: crt.relu(fn(x)), x, leaves="Relu")
    square = draw(1, 5, 5)
    keeps(name, lambda x: crt.relu(x.t()), square)
    keeps(name, lambda x: crt.relu(x.permute(1, 0)), square)
    keeps(name, lambda x: crt.relu(x.reshape(6, 4)), x)
    check(name, lambda x: crt.relu(x.t().reshape(5, 5)), square, leaves="T Relu")
    keeps(name, lambda x: crt.relu(x.t().reshape(25)), square)  # a copy


def test_identity_casts(x):
    name = "remove_identity_casts"
    check(name, lambda x: crt.relu(ops.cast(x, crt.float32)), x, leaves="Relu")
    keeps(name, lambda x: crt.relu(ops.cast(x, crt.float16)), x)
    keeps(name, lambda x: ops.cast(x, crt.float32), x)  # returned: bytes of its own


# ---------------------------------------------------------------- layout
def test_double_permute():
    name = "remove_double_permute"
    x = draw(1, 2, 3, 4)
    check(name, lambda x: crt.relu(x.permute(1, 2, 0).permute(2, 0, 1)), x, leaves="Relu")
    check(name, lambda x: crt.relu(x.transpose(0, 2).transpose(-1, -3)), x, leaves="Relu")
    graph = check(
        name, lambda x: crt.relu(x.permute(1, 2, 0).transpose(0, 1)), x, leaves="Permute Relu"
    )
    (node,) = graph.find_nodes(crt.graph.OpCode.Permute)
    assert node.attribute("dims") == (2, 1, 0) and node.name == "Transpose_2"
    check(name, lambda x: crt.relu(x.t().permute(1, 0)), draw(1, 3, 4), leaves="Relu")
    check(name, lambda x: crt.relu(x.movedim(0, 2).movedim(-1, 0)), x, leaves="Relu")
    check(
        name,
        lambda x: crt.relu(crt.movedim(x, (0, 1), (1, 2)).movedim((2, 1), (1, 0))),
        x,
        leaves="Relu",
    )
    three = lambda x: crt.relu(x.permute(1, 2, 0).permute(1, 2, 0).permute(1, 2, 0))  # noqa: E731
    check(name, three, x, leaves="Relu")
    keeps(name, lambda x: crt.relu(crt.exp(x.permute(1, 2, 0)).permute(2, 0, 1)), x)
    keeps(name, lambda x: crt.relu(x.permute(1, 2, 0).reshape(4, 6).permute(1, 0)), x)


def test_collapse_reshapes(x):
    name = "collapse_reshapes"
    check(name, lambda x: crt.relu(x.reshape(24).reshape(2, 12)), x, leaves="Reshape Relu")
    graph = check(
        name,
        lambda x: crt.relu(crt.flatten(x.reshape(2, 3, 4)).view(3, -1).reshape(8, 3)),
        x,
        leaves="Reshape Relu",
    )
    assert graph.node("Reshape_4").attribute("shape") == (8, 3)
    both = lambda x: (lambda y: [y.reshape(12, 2).exp(), y.exp()])(x.reshape(24))  # noqa: E731
    check(name, both, x, leaves="Reshape Reshape Exp Exp")
    keeps(name, lambda x: crt.relu(x.t().reshape(24).reshape(2, 12)), x)  # a copy, then a view
    keeps(name, lambda x: crt.relu(x.reshape(4, 3, 2).permute(2, 0, 1).reshape(6, 4)), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul_absorbs_a_transposition(dtype):
    name = "matmul_absorb_transpose"
    w = draw(2, 17, 33, dtype=dtype)
    for shape in ((1, 33), (5, 33), (70, 33), (2, 3, 33)):
        x = draw(1, *shape, dtype=dtype)
        for turn in (lambda w: w.t(), lambda w: w.transpose(0, 1), lambda w: w.permute(1, 0)):
            graph = check(name, lambda x, t=turn: crt.matmul(x, t(w)), x, leaves="Linear")
        assert graph.nodes()[-1].name == "MatMul_2"
    wide = draw(3, 40, 700, dtype=dtype)
    check(name, lambda x: crt.matmul(x, wide.t()), draw(1, 3, 700, dtype=dtype), leaves="Linear")


def test_what_is_no_transposed_weight(x):
    name = "matmul_absorb_transpose"
    keeps(name, lambda x: crt.matmul(x.t(), x), x)
    keeps(name, lambda x: crt.matmul(x[0], draw(2, 5, 6).t()), x)
    batch = draw(2, 3, 5, 6)
    keeps(name, lambda x: crt.matmul(x, batch.transpose(1, 2)), x)
    other = draw(2, 6, 6)
    keeps(name, lambda x: crt.matmul(x, other.permute(0, 1)), x)


def _conv(x):
    w = draw(2, 3, 1, 1, 2)
    y = ops.conv2d(x.permute(0, 2, 3, 1), w)
    return crt.relu(y).permute(0, 3, 1, 2)


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("outputs", [False, True])
def test_boundary_permutes(inputs, outputs):
    x = draw(1, 1, 2, 4, 5)
    (wanted,) = [bits(_conv(x))]
    graph = trace(_conv, x)
    choices = DefaultsOptions(channels_last_inputs=inputs, channels_last_outputs=outputs)
    graph.optimize(defaults=choices)
    check_legal(graph)
    assert graph.inputs()[0][2] == ([1, 4, 5, 2] if inputs else [1, 2, 4, 5])
    assert graph.outputs()[0][2] == ([1, 4, 5, 3] if outputs else [1, 3, 4, 5])
    assert codes(graph).count("Permute") == 2 - inputs - outputs
    graph.finalize()
    (found,) = graph.run([x.permute(0, 2, 3, 1).contiguous() if inputs else x])
    assert bits(found.permute(0, 3, 1, 2) if outputs else found) == wanted


def test_boundary_permutes_stay_where_the_input_is_read_otherwise():
    x = draw(1, 1, 2, 4, 5)
    for fn in (
        lambda x: [_conv(x), crt.exp(x)],
        lambda x: x.permute(0, 2, 3, 1).exp() + x.permute(0, 3, 2, 1).transpose(1, 2).exp(),
        lambda x: x.permute(0, 2, 3, 1).reshape(40),
        lambda x: [x.permute(0, 2, 3, 1)],
    ):
        graph = trace(fn, x)
        graph.optimize(
            [transforms.drop_boundary_permutes()],
            defaults=DefaultsOptions(channels_last_inputs=True),
        )
        check_legal(graph)
        assert graph.inputs()[0][2] == [1, 2, 4, 5]


class Channels(nn.Module):
    """Convolutions behind conversions of layout, as models that are channels-first have them."""

    def __init__(self):
        super().__init__()
        self.weights = [nn.Parameter(draw(40 + i, 3, 3, 3, 3) * 0.2) for i in range(3)]
        self.slope = nn.Parameter(draw(50, 1).reshape(()))

    def conv(self, x, at):
        y = ops.conv2d(x.permute(0, 2, 3, 1), self.weights[at], padding=1)
        return y.permute(0, 3, 1, 2)

    def forward(self, x):
        x = crt.relu(self.conv(x, 0))
        y = crt.tanh(self.conv(x, 1) * 0.5) * self.slope
        return self.conv(crt.relu(x + y), 2) + y


def test_conversions_between_spatial_operators():
    name = "sink_channels_first"
    model, x = Channels(), draw(1, 2, 3, 5, 4)
    graph, changed = optimized(model, x)
    assert changed[name] >= 1
    assert codes(graph).count("Permute") == 3  # of the input, and of both terms of the output
    assert codes(trace(model, x)).count("Permute") == 6
    graph = trace(model, x)
    graph.optimize(defaults=DefaultsOptions(channels_last_inputs=True, channels_last_outputs=True))
    check_legal(graph)
    assert "Permute" not in codes(graph)
    graph.finalize()
    (found,) = graph.run([x.permute(0, 2, 3, 1).contiguous()])
    assert bits(found.permute(0, 3, 1, 2)) == bits(model(x))


def test_what_does_not_sink():
    name = "sink_channels_first"
    x = draw(1, 2, 3, 4, 5)
    row = draw(2, 5, 1, 1)
    for fn in (
        lambda x: crt.relu(x.permute(0, 3, 1, 2)),  # returned
        lambda x: crt.relu(x.permute(0, 3, 2, 1)).exp().sum(),
        lambda x: (x.permute(0, 3, 1, 2) * row).sum(),
        lambda x: crt.relu(x.permute(0, 3, 1, 2)).reshape(10, 12).sum(),
        lambda x: ops.glu(crt.cat([x, x], -1).permute(0, 3, 1, 2), 1).sum(),
        lambda x: ops.prelu(x.permute(0, 3, 1, 2), row.reshape(5)).sum(),
        lambda x: crt.softmax(x.permute(0, 3, 1, 2), 1).sum(),
    ):
        graph = trace(fn, x)
        graph.optimize([getattr(transforms, name)()])
        assert codes(graph)[:2] == ["x", codes(trace(fn, x))[1]]
        check_legal(graph)
    keeps(name, lambda x: crt.relu(x.permute(0, 3, 1, 2)).sum(), x)  # in the order of the bytes
    two, columns = crt.ones(()), draw(3, 4, 2)
    check(
        name,
        lambda x: crt.matmul(crt.relu(x.permute(0, 3, 1, 2)) * two * 2.0, columns),
        x,
        leaves="Relu Mul Mul Permute MatMul",
    )
    check(
        name,
        lambda x: crt.relu(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1).transpose(0, 1).exp(),
        x,
        leaves="Relu Permute Permute Transpose Exp",
    )


def test_a_border_is_converted_once():
    x = draw(1, 2, 3, 3, 3)
    first, last = (0, 3, 1, 2), (0, 2, 3, 1)

    def fn(x):
        y = crt.exp(x.permute(*last).permute(*last))
        return crt.tanh(y.permute(*first)).permute(*first).permute(*first)

    graph = trace(fn, x)
    choices = DefaultsOptions(channels_last_inputs=True, channels_last_outputs=True)
    for _ in range(2):
        graph.optimize([transforms.drop_boundary_permutes()], defaults=choices)
        check_legal(graph)
    assert codes(graph) == ["x", "Permute", "Exp", "Permute", "Tanh", "Permute"]
    graph.finalize()
    (found,) = graph.run([x.permute(*last).contiguous()])
    assert bits(found.permute(*first)) == bits(fn(x))


# ---------------------------------------------------------------- equal nodes
def test_equal_nodes(x):
    name = "merge_equal_nodes"
    check(name, lambda x: crt.exp(x) * crt.exp(x), x, leaves="Exp Mul")
    check(name, lambda x: (x + x.exp()) * (x.exp() + x), x, leaves="Exp Add Mul", times=1)
    check(
        name,
        lambda x: x.t().exp() + x.permute(1, 0).exp() * x.t().exp(),
        x,
        leaves="T Exp Permute Exp Mul Add",
    )
    check(name, lambda x: x + crt.zeros(6) * crt.zeros(6), x, leaves="Zeros Mul Add")
    for fn in (
        lambda x: (x + 1) * (x + 1.0),
        lambda x: (x + 0.0) * (x + -0.0),
        lambda x: crt.sub(x, x.exp()) * crt.sub(x.exp(), x),
        lambda x: crt.add(x, x[0], alpha=2) * crt.add(x[0], x, alpha=2),
        lambda x: crt.softmax(x, 0) + crt.softmax(x, 1),
        lambda x: crt.rand(4, 6, seed=1) * crt.rand(4, 6, seed=2),
        lambda x: [crt.exp(x), crt.exp(x)],
    ):
        graph = trace(fn, x)
        before = codes(graph)
        graph.optimize([transforms.merge_equal_nodes()])
        check_legal(graph)
        # A read of the same part of x is merged, what is made of it is not.
        assert [code for code in codes(graph) if code not in ("Select", "Exp")] == [
            code for code in before if code not in ("Select", "Exp")
        ]
    keeps(name, lambda x: [crt.exp(x), crt.exp(x)], x)


def test_equal_nodes_of_which_one_is_written():
    def fn(x):
        a, b = crt.exp(x), crt.exp(x)
        a.add_(1.0)
        return a * b

    keeps("merge_equal_nodes", fn, draw(1, 5))


# ---------------------------------------------------------------- fusion
@pytest.mark.parametrize("dtype", FLOATS)
def test_bias(dtype):
    name = "fold_bias"
    x, w, b = (draw(i, *s, dtype=dtype) for i, s in enumerate([(5, 33), (33, 17), (17,)]))
    graph = check(name, lambda x: crt.matmul(x, w) + b, x, leaves="MatMul")
    (node,) = graph.find_nodes(crt.graph.OpCode.MatMul)
    assert node.name == "MatMul_1" and len(node.inputs) == 3 and "bias" not in node.attributes
    check(name, lambda x: b + crt.matmul(x, w), x, leaves="MatMul")
    check(name, lambda x, b: crt.matmul(x, w) + b.exp(), x, b, leaves="Exp MatMul")
    check(name, lambda x: crt.matmul(x, w) + b[0], x, leaves="Select MatMul")
    rows = w.t().contiguous()
    check(name, lambda x: ops.linear(x, rows) + b, x, leaves="Linear")
    image, kernel = draw(1, 2, 6, 6, 4, dtype=dtype), draw(2, 17, 3, 3, 4, dtype=dtype)
    check(name, lambda x: ops.conv2d(x, kernel) + b, image, leaves="Conv2d")


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_bias_of_a_packed_weight(mode, rows):
    values = np.random.default_rng(0).standard_normal((48, 256)).astype(np.float32)
    payload = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q4_0)
    weight = make_quantized(crt.tensor(payload), "GGUF_Q4_0", [256, 48]).tensor
    bias, x = draw(1, 48), draw(2, rows, 256)
    graph = check(
        "fold_bias", lambda x: ops.linear(x, weight, None, mode) + bias, x, leaves="Linear"
    )
    (node,) = graph.find_nodes(crt.graph.OpCode.Linear)
    assert len(node.inputs) == 3


def test_a_bias_comes_before_the_activation():
    x, w, b = draw(0, 5, 33), draw(1, 33, 17), draw(2, 17)
    graph = trace(lambda x: crt.relu(crt.matmul(x, w) + b) + b, x)
    wanted = results(trace(lambda x: crt.relu(crt.matmul(x, w) + b) + b, x), [x])
    graph.optimize([transforms.fold_activation()])
    assert graph.node("Add_2").attribute("activation") == "Relu"
    graph.optimize([transforms.fold_bias()])
    check_legal(graph)
    assert codes(graph) == ["x", "MatMul", "Add"]  # the second sum comes after the activation
    assert graph.node("MatMul_1").attribute("activation") == "Relu"
    assert results(graph, [x]) == wanted


def test_what_is_no_bias():
    name = "fold_bias"
    x, w, b = draw(0, 5, 33), draw(1, 33, 17), draw(2, 17)
    column, full, rows = draw(3, 5, 1), draw(4, 5, 17), w.t().contiguous()
    for fn in (
        lambda x: crt.matmul(x, w) + column,
        lambda x: crt.matmul(x, w) + full,
        lambda x: crt.add(crt.matmul(x, w), b, alpha=2),
        lambda x: crt.matmul(x, w) + 1.0,
        lambda x: (lambda y: [y + b, y.exp()])(crt.matmul(x, w)),
        lambda x: (lambda y: [y + b, y])(crt.matmul(x, w)),
        lambda x: ops.linear(x, rows, b) + b,
        lambda x: crt.matmul(x[0], w) + full,  # a larger result
        lambda x: crt.exp(x) + draw(5, 33),
    ):
        keeps(name, fn, x)
    twice = lambda x: crt.matmul(x, w) + b + b  # noqa: E731
    check(name, twice, x, leaves="MatMul Add")


ACTIVATIONS = [
    (crt.relu, "Relu"),
    (ops.relu6, "Relu6"),
    (crt.sigmoid, "Sigmoid"),
    (crt.tanh, "Tanh"),
    (crt.silu, "Silu"),
    (crt.gelu, "Gelu"),
    (lambda x: crt.gelu(x, "tanh"), "GeluTanh"),
    (ops.hardsigmoid, "HardSigmoid"),
    (ops.hardswish, "HardSwish"),
    (ops.mish, "Mish"),
    (ops.selu, "Selu"),
    (ops.softsign, "Softsign"),
]


@pytest.mark.parametrize(("fn", "name"), ACTIVATIONS, ids=[name for _, name in ACTIVATIONS])
def test_activation(fn, name):
    x, w = draw(0, 5, 9, special=True), draw(1, 9, 7)
    graph = check("fold_activation", lambda x: fn(crt.matmul(x, w)), x, leaves="MatMul")
    (node,) = graph.find_nodes(crt.graph.OpCode.MatMul)
    assert node.name == "MatMul_1" and node.attribute("activation") == name
    for op in (crt.add, crt.sub, crt.mul, crt.div):
        check("fold_activation", lambda x, op=op: fn(op(x, 2.0)), x, leaves=op.__name__.title())


def test_what_is_no_activation_of_a_carrier():
    name = "fold_activation"
    x = draw(0, 5, 9)
    whole = crt.tensor(np.arange(6, dtype=np.int32))
    for fn, given in (
        (lambda x: crt.relu(crt.exp(x)), x),
        (lambda x: crt.tanh(x + 1), whole),  # another dtype
        (lambda x: (lambda y: [crt.relu(y), y.exp()])(x + 1.0), x),
        (lambda x: (lambda y: [crt.relu(y), y])(x + 1.0), x),
        (lambda x: crt.exp(x + 1.0), x),
        (lambda x: ops.leaky_relu(x + 1.0), x),
    ):
        keeps(name, fn, given)
    check(name, lambda x: crt.tanh(crt.relu(x + 1.0)), x, leaves="Add Tanh")


def test_swiglu():
    name = "fold_silu_mul"
    for dtype in (crt.float32, crt.float64):
        gate, up = (draw(i, 5, 33, dtype=dtype, special=True) for i in range(2))
        check(name, lambda g, u: crt.silu(g) * u, gate, up, leaves="Swiglu")
        check(name, lambda g, u: u * crt.silu(g), gate, up, leaves="Swiglu")
    half = draw(1, 5, 33, dtype=crt.float16)
    for fn, given in (
        (lambda g: crt.silu(g) * g, half),  # rounds twice, the one operator once
        (lambda g: crt.silu(g) * 2.0, gate),
        (lambda g: crt.silu(g) * g[0], gate),
        (lambda g: (lambda s: [s * g, s.exp()])(crt.silu(g)), gate),
        (lambda g: crt.sigmoid(g) * g, gate),
    ):
        keeps(name, fn, given)


@pytest.mark.parametrize("dtype", FLOATS)
def test_add_rms_norm(dtype):
    name = "fold_add_rms_norm"
    a, b = (draw(i, 5, 33, dtype=dtype) for i in range(2))
    weight = draw(2, 33, dtype=dtype)
    check(name, lambda a, b: ops.rms_norm(a + b, 33), a, b, leaves="AddRmsNorm")
    graph = check(
        name,
        lambda a, b: (lambda s: [ops.rms_norm(s, 33, weight, 1e-5, 1.0), s * 2.0, s])(a + b),
        a,
        b,
        leaves="AddRmsNorm Mul",
    )
    assert graph.node("RmsNorm_2").op_code.name == "AddRmsNorm"
    for fn in (
        lambda a, b: ops.rms_norm(crt.add(a, b, alpha=2), 33),
        lambda a, b: ops.rms_norm(a + b[0], 33),
        lambda a, b: ops.rms_norm(a + 1.0, 33),
        lambda a, b: ops.rms_norm(a - b, 33),
        lambda a, b: ops.rms_norm(a + b, (5, 33)),
        lambda a, b: (lambda s: ops.rms_norm(s, 33, s[0].exp()))(a + b),
    ):
        keeps(name, fn, a, b)


def packed_weights(*rows):
    """Weights in Q4_0 and Q8_0, turn by turn, over 64 columns."""
    rng = np.random.default_rng(5)
    weights = []
    for at, count in enumerate(rows):
        name = ("Q4_0", "Q8_0")[at % 2]
        blocks = kit.random_blocks(rng, name, count, 64)
        weights.append(
            crt.Tensor.from_buffer(
                blocks, (count, 64), crt.float32, scheme=kit.scheme_number(name), mapped=False
            )
        )
    return weights


def test_gated_linear():
    name = "fold_gated_linear"
    gate, up = packed_weights(40, 40)
    bias = draw(3, 40)
    x = draw(1, 5, 64)
    fast = {"mode": "fast"}
    check(
        name, lambda x: crt.swiglu(crt.linear(x, gate), crt.linear(x, up)), x, leaves="GatedLinear"
    )
    for approximate in ("none", "tanh"):
        check(
            name,
            lambda x, kind=approximate: crt.geglu(
                crt.linear(x, gate, bias, **fast), crt.linear(x, up, **fast), kind
            ),
            x,
            leaves="GatedLinear",
        )
    half = draw(2, 5, 64, dtype=crt.bfloat16)
    for fn, given in (
        (lambda x: crt.swiglu(crt.linear(x, gate), crt.linear(x, up)), half),
        (lambda x: crt.swiglu(crt.linear(x, gate), crt.linear(x, up, **fast)), x),
        (lambda x: crt.swiglu(crt.linear(x, gate), crt.linear(x + 1.0, up)), x),
        (lambda x: crt.swiglu(crt.linear(x, gate), crt.linear(x, draw(4, 40, 64))), x),
        (lambda x: (lambda g: [crt.swiglu(g, crt.linear(x, up)), g])(crt.linear(x, gate)), x),
    ):
        keeps(name, fn, given)


@pytest.mark.parametrize("dtype", [crt.float32, crt.bfloat16])
def test_join_linears(dtype):
    name = "join_linears"
    q, k, v = packed_weights(48, 16, 17)
    biases = [draw(at, count, dtype=dtype) for at, count in enumerate((48, 16, 17))]
    x = draw(1, 5, 64, dtype=dtype)
    for mode in ("exact", "fast"):
        check(
            name,
            lambda x, mode=mode: [crt.linear(x, w, mode=mode) for w in (q, k, v)],
            x,
            leaves="Linears",
        )
        check(
            name,
            lambda x, mode=mode: [
                crt.exp(crt.linear(x, w, b, mode=mode))
                for w, b in zip((q, k, v), biases, strict=True)
            ],
            x,
            leaves="Linears Exp Exp Exp",
        )
    check(
        name,
        lambda x: [crt.linear(x, q), crt.linear(x, k, biases[1]), crt.linear(x, v)],
        x,
        leaves="Linear Linears",
    )
    for fn in (
        lambda x: crt.linear(x, q),
        lambda x: [crt.linear(x, q), crt.linear(x + 1.0, k)],
        lambda x: [crt.linear(x, q), crt.linear(x, k, mode="fast")],
        lambda x: [crt.linear(x, q), crt.linear(x, k, biases[1])],
        lambda x: [crt.linear(x, w) for w in (draw(2, 3, 64), draw(3, 4, 64))],
    ):
        keeps(name, fn, x)


# ---------------------------------------------------------------- shapes
def test_fixation():
    x = draw(1, 4, 6)

    def fn(x):
        y = x.reshape(x.shape[0] * 2, -1).t()
        return [crt.relu(y).reshape(-1, x.shape[0]), crt.sum(x, 0), x[1:].exp()]

    graph = trace(fn, x, dynamic_axes={"x": {0: "batch"}})
    assert graph.inputs()[0][2] == [-1, 6]
    wanted = [bits(tensor) for tensor in fn(x)]
    other = draw(2, 5, 6)
    free = trace(fn, x, dynamic_axes={"x": {0: "batch"}})
    free.optimize()
    check_legal(free)
    assert results(free, [other]) == [bits(tensor) for tensor in fn(other)]
    report = graph.optimize(defaults=DefaultsOptions(shape_fixation=True))
    check_legal(graph)
    assert applied(report)["fixate_dyn_shape_queues"] == 1
    sizes = [size for value in graph.alive_values() for size in graph._shape(value)]
    assert all(type(size) is int for size in sizes)
    assert all(
        "Sym" not in repr(node.attributes) and "batch" not in repr(node.attributes)
        for node in graph.nodes()
    )
    assert graph.inputs()[0][2] == [4, 6]
    assert results(graph, [x]) == wanted
    with pytest.raises(crt.InvalidArgumentError):
        graph.run([other])


def test_fixation_needs_the_sizes():
    spec = crt.TensorSpec("x", crt.float32, [-1, 6])
    graph = crt.trace(lambda x: [crt.relu(x[0])], [spec]).graph
    graph.optimize(defaults=DefaultsOptions(shape_fixation=True))
    assert graph.inputs()[0][2] == [-1, 6]


# ---------------------------------------------------------------- strides
_CALLS = {
    "matmul": lambda a, b: crt.matmul(a, b),
    "matmul of matrices": lambda a, b: crt.matmul(a[0, 0], b[0, 0]),
    "linear": lambda a, b: ops.linear(a, b),
    "conv1d": lambda a, b: ops.conv1d(a[0], b[0, :2, :3]),
    "conv2d": lambda a, b: ops.conv2d(a, b[:, :3, :3]),
    "conv_transpose2d": lambda a, b: ops.conv_transpose2d(a, b[:, :3, :3]),
    "conv_transpose1d": lambda a, b: ops.conv_transpose1d(a[0], b[0, :, :3]),
    "max_pool1d": lambda a, b: ops.max_pool1d(a[0], 2),
    "max_pool2d": lambda a, b: ops.max_pool2d(a, 2),
    "cat": lambda a, b: crt.cat([a, b], 1),
    "stack": lambda a, b: crt.stack([a, b]),
    "copy": lambda a, b: ops.copy(a),
    "pad": lambda a, b: ops.pad(a, (1, 2)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", _CALLS)
def test_what_ignores_strides(name, dtype):
    call = _CALLS[name]
    shape = (1, 1, 130, 130) if name == "matmul of matrices" else (9, 9, 9, 9)
    a, b = (draw(seed, *shape, dtype=dtype) for seed in range(2))
    if name == "linear":
        b = b[0, 0]
    turned = [t.permute(*reversed(range(t.ndim))).contiguous() for t in (a, b)]
    views = [t.permute(*reversed(range(t.ndim))) for t in turned]
    assert not views[0].is_contiguous()
    assert bits(call(*views)) == bits(call(a, b))


def test_elementwise_operators_ignore_strides():
    a, b = draw(1, 37, 41, special=True), draw(2, 37, 41)
    views = [t.t().contiguous().t() for t in (a, b)]
    compared = 0
    for name, record in ops.records().items():
        needed = [arg for arg in record.args if arg.required]
        plain = all(arg.kind == "tensor" and not arg.sequence for arg in needed)
        if "elementwise" not in record.traits or "random" in record.traits or not plain:
            continue
        call = getattr(ops, name)
        try:
            wanted = call(*(a, b, b)[: len(needed)])
        except crt.ClikaRTError:
            continue  # of integers, or of other shapes
        found = call(*(views[0], views[1], views[1])[: len(needed)])
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        assert all(bits(one) == bits(other) for one, other in pairs), name
        compared += 1
    assert compared > 100


def test_strides_of_readers_that_mind_are_kept():
    x = draw(1, 33, 47)
    keeps("remove_double_neg", lambda x: neg(x.t()).sum(), x)
    keeps("fold_neutral_numbers", lambda x: crt.softmax(x.t() * 1.0, -1), x)
    check("fold_neutral_numbers", lambda x: crt.exp(x.t() * 1.0), x, leaves="T Exp")


# ---------------------------------------------------------------- all of them
class Block(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm and with a residual."""

    def __init__(self, heads=2, size=16):
        super().__init__()
        self.heads, self.size = heads, size
        weight = iter(range(10, 30))
        self.q, self.k, self.v, self.o = (
            nn.Parameter(draw(next(weight), size, size) * 0.3) for _ in range(4)
        )
        self.bias = nn.Parameter(draw(next(weight), size))
        self.gate, self.up = (nn.Parameter(draw(next(weight), 24, size) * 0.3) for _ in range(2))
        self.down = nn.Parameter(draw(next(weight), size, 24) * 0.3)
        self.norm = nn.Parameter(draw(next(weight), size))

    def forward(self, x):
        batch, tokens, size = x.shape
        y = ops.rms_norm(x, size, self.norm)

        def heads(w):
            made = crt.matmul(y, w.t()) + self.bias
            return made.reshape(batch, tokens, self.heads, -1).transpose(1, 2)

        q, k, v = heads(self.q), heads(self.k), heads(self.v)
        weights = crt.softmax(crt.matmul(q, k.transpose(-2, -1)) * 0.35, dim=-1)
        y = crt.matmul(weights, v).transpose(1, 2).reshape(batch, tokens, size)
        x = x + crt.matmul(y, self.o.t())
        y = ops.rms_norm(x, size, self.norm)
        gated = crt.silu(crt.matmul(y, self.gate.t())) * crt.matmul(y, self.up.t())
        return x + crt.matmul(gated, self.down.t())


def test_attention_block():
    block, x = Block(), draw(1, 2, 5, 16)
    graph, changed = optimized(block, x)
    assert changed == {
        "remove_double_permute": 1,
        "matmul_absorb_transpose": 1,
        "fold_bias": 1,
        "fold_silu_mul": 1,
        "fold_add_rms_norm": 1,
    }
    graph = trace(block, x)
    graph.optimize()
    assert results(graph, [x]) == [bits(block(x))]


def test_mlp():
    w, b = (draw(2, 6, 6), draw(3, 6, 6)), (draw(4, 6), draw(5, 6))

    def mlp(x):
        for weight, bias in zip(w, b, strict=True):
            x = crt.relu(crt.add(crt.matmul(x, weight), bias))
        return crt.softmax(x, dim=-1)

    x = draw(1, 4, 6)
    graph, changed = optimized(mlp, x)
    assert codes(graph) == ["x", "MatMul", "MatMul", "Softmax"]
    assert changed == {"fold_bias": 1, "fold_activation": 1}
    graph = trace(mlp, x)
    graph.optimize()
    assert results(graph, [x]) == [bits(mlp(x))]


def test_traced_is_eager(x):
    fn = lambda x: crt.relu(crt.matmul(x, x.t()) * 1.0).reshape(-1) + 0.5  # noqa: E731
    assert results(trace(fn, x), [x]) == [bits(fn(x))]


def _random_model(seed):
    """A function of [4, 4] tensors made of what transforms look for."""
    steps = []
    rng = random.Random(seed)
    weights = [draw(100 + i, 4, 4) for i in range(3)]
    biases = [draw(200 + i, 4) for i in range(2)]
    unary = [
        crt.neg,
        crt.relu,
        crt.tanh,
        crt.silu,
        crt.sigmoid,
        crt.abs,
        lambda a: crt.clamp(a, 0.0),
        lambda a: a * 1.0,
        lambda a: a + 0.0,
        lambda a: a - 0.0,
        lambda a: a.t(),
        lambda a: a.permute(1, 0),
        lambda a: a.permute(0, 1),
        lambda a: a.reshape(4, 4),
        lambda a: a.reshape(2, 8).reshape(16).reshape(4, 4),
        lambda a: crt.flatten(a).reshape(4, 4),
        lambda a: ops.cast(a, crt.float32),
        lambda a: ops.rms_norm(a, 4),
        lambda a: ops.rms_norm(a, 4, biases[0]),
        *(lambda a, w=w: crt.matmul(a, w) for w in weights),
        *(lambda a, w=w: crt.matmul(a, w.t()) for w in weights),
        *(lambda a, b=b: a + b for b in biases),
    ]
    binary = [crt.add, crt.mul, crt.sub, crt.matmul, lambda a, b: crt.silu(a) * b]
    count = rng.randint(4, 24)
    for at in range(count):
        if rng.random() < 0.7:
            steps.append((rng.choice(unary), [rng.randint(max(0, at - 2), at)]))
        else:
            steps.append((rng.choice(binary), [rng.randint(0, at), rng.randint(0, at)]))
    writes = rng.random() < 0.2
    kept = sorted({count, *(rng.randint(1, count) for _ in range(rng.randint(0, 3)))})

    def fn(x):
        values = [x]
        for at, (step, reads) in enumerate(steps):
            values.append(step(*(values[read] for read in reads)))
            if writes and at == count // 2:
                values[-1].add_(1.0)
        return [values[at] for at in kept]

    return fn


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_random_graphs(start):
    for seed in range(start, start + 50):
        fn = _random_model(seed)
        x = draw(seed, 4, 4)
        before, graph = trace(fn, x), trace(fn, x)
        check_legal(before)
        report = graph.optimize()
        check_legal(graph)
        assert report.converged and not any(row.failed for row in report.transforms), seed
        settled = form(graph)
        assert not graph.optimize().changed, seed
        assert form(graph) == settled, seed
        assert len(codes(graph)) <= len(codes(before))
        signed_zero = "clamp_to_relu" not in applied(report)
        wanted = results(before, [x.clone()], signed_zero)
        assert results(graph, [x.clone()], signed_zero) == wanted, seed


def _random_writes(seed, held):
    """A function of a [4, 4] tensor that writes in place: to results, to views of them, and to a
    tensor from outside."""
    rng = random.Random(seed)
    unary = [
        crt.relu,
        crt.exp,
        neg,
        lambda a: a * 1.0,
        lambda a: a - 0.0,
        lambda a: a.t(),
        lambda a: a.permute(1, 0),
        lambda a: a.permute(0, 1),
        lambda a: a.reshape(4, 4),
        lambda a: a.reshape(16).reshape(4, 4),
        lambda a: a[:, 0:4],
        lambda a: ops.cast(a, crt.float32),
    ]
    writes = [
        lambda a: a.add_(1.0),
        lambda a: a.mul_(0.5),
        lambda a: a[1].add_(1.0),
        lambda a: a.t()[2:].mul_(2.0),
    ]
    steps = []
    count = rng.randint(4, 16)
    for at in range(count):
        kind = rng.random()
        if kind < 0.5:
            steps.append((rng.choice(unary), [rng.randint(max(0, at - 3), at + 1)]))
        elif kind < 0.75:
            step = rng.choice([crt.add, crt.mul])
            steps.append((step, [rng.randint(0, at + 1), rng.randint(0, at + 1)]))
        else:
            steps.append((rng.choice(writes), [rng.randint(1, at + 1)]))
    kept = sorted({count + 1, rng.randint(1, count + 1)})

    def fn(x):
        values = [x, held]
        for step, reads in steps:
            read = [values[at] for at in reads]
            made = step(*read)
            values.append(read[0] * 0.5 if step in writes else made)
        return [values[at] + 0.0 for at in kept]

    return fn


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_writes(start):
    """Results and the written tensor are those of the function itself, too."""
    for seed in range(start, start + 20):
        x = draw(seed, 4, 4)
        held = [draw(seed + 5, 4, 4) for _ in range(3)]
        before, graph = (trace(_random_writes(seed, item), x) for item in held[:2])
        report = graph.optimize()
        check_legal(graph)
        assert applied(report) is not None and not graph.optimize().changed, seed
        wanted = [bits(tensor) for tensor in _random_writes(seed, held[2])(x.clone())]
        assert results(before, [x.clone()])[: len(wanted)] == wanted, seed
        assert results(graph, [x.clone()])[: len(wanted)] == wanted, seed
        assert len({bits(item) for item in held}) == 1, seed


def _random_layouts(seed):
    """A function of [n, 3, 3, 3] tensors that convert between layouts; n may be dynamic."""
    rng = random.Random(seed)
    kernel, row = draw(300, 3, 2, 2, 3), draw(301, 3, 1, 1)
    orders = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 2, 3), (0, 1, 3, 2)]

    def conv(a):
        y = ops.pad(ops.conv2d(a.permute(0, 2, 3, 1), kernel), (0, 0, 0, 1, 0, 1))
        return y.permute(0, 3, 1, 2)

    unary = [
        conv,
        conv,
        crt.relu,
        crt.tanh,
        lambda a: a * 0.5,
        lambda a: a * row,
        lambda a: neg(a),
        lambda a: a * 1.0,
        lambda a: crt.softmax(a, 1),
        lambda a: a.reshape(a.shape[0], 27).reshape(a.shape[0], 3, 3, 3),
        lambda a: crt.flatten(a, 1).reshape(-1, 3, 3, 3),
        lambda a: crt.sum(a, 1, keepdim=True) + a,
        *(lambda a, order=order: a.permute(*order) for order in orders),
    ]
    binary = [crt.add, crt.mul, lambda a, b: crt.cat([a, b], 1)[:, 1:4]]
    steps = []
    for at in range(rng.randint(4, 18)):
        step = rng.choice(unary if rng.random() < 0.75 else binary)
        reads = 1 if step in unary else 2
        steps.append((step, [rng.randint(max(0, at - 3), at) for _ in range(reads)]))

    def fn(x):
        values = [x]
        for step, reads in steps:
            values.append(step(*(values[read] for read in reads)))
        return [values[-1], values[len(values) // 2] + 1.0]

    return fn


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_layouts(start):
    for seed in range(start, start + 20):
        fn, x = _random_layouts(seed), draw(seed, 2, 3, 3, 3)
        axes = {"x": {0: "n"}} if seed % 2 else {}
        before, graph = (trace(fn, x, dynamic_axes=axes) for _ in range(2))
        choices = DefaultsOptions(shape_fixation=seed % 3 == 0, channels_last_outputs=seed % 5 == 0)
        check_legal(before)
        last = [name for name, value in graph.output_list()]
        report = graph.optimize(defaults=choices)
        check_legal(graph)
        assert report.converged and applied(report) is not None, seed
        assert not graph.optimize(defaults=choices).changed, seed
        wanted = fn(x)
        before.finalize()
        assert [bits(t) for t in before.run([x])] == [bits(t) for t in wanted], seed
        graph.finalize()
        for name, found, want in zip(last, graph.run([x]), wanted, strict=True):
            turned = {item: dims for item, _, dims in graph.outputs()}[name]
            if turned[1:] != list(want.shape)[1:] or bits(found) != bits(want):
                found = found.permute(0, 3, 1, 2)
                assert choices.channels_last_outputs, seed
            assert bits(found) == bits(want), (seed, name)


def _edit(graph, seed):
    """Some edits of a random graph; refused ones change nothing."""
    rng = random.Random(seed)
    done = 0
    for at in range(12):
        nodes = [node for node in graph.nodes() if node.op_code is not None]
        values = [value for node in graph.nodes() for value in node.outputs]
        node, value, other = rng.choice(nodes), rng.choice(values), rng.choice(values)
        kind = rng.randrange(7)
        before = form(graph)
        try:
            if kind == 0:
                graph.bypass_node(node)
            elif kind == 1:
                graph.replace_all_uses_with(value, other)
            elif kind == 2:
                graph.set_input(node, rng.randrange(len(node.inputs)), value)
            elif kind == 3:
                graph.rename_node(node, f"renamed_{at}")
            elif kind == 4:
                graph.set_constant_input(node, 0, draw(at, 4, 4))
            elif kind == 5:
                graph.replace([value], lambda t: crt.relu(crt.neg(crt.neg(t[0]))), [other])
            else:
                (made,) = graph.insert(lambda t: crt.matmul(t[0], t[1].t()) * 1.0, [value, other])
                graph.add_output(made, f"added_{at}")
            done += 1
        except crt.InvalidArgumentError:
            assert form(graph) == before
        check_legal(graph, strides=False)
    return done


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_graphs_after_edits(start):
    done = 0
    for seed in range(start, start + 20):
        fn, x = _random_model(seed), draw(seed, 4, 4)
        before, graph = trace(fn, x), trace(fn, x)
        done += _edit(before, seed)
        _edit(graph, seed)
        assert form(graph) == form(before)
        report = graph.optimize()
        check_legal(graph)
        signed_zero = "clamp_to_relu" not in applied(report)
        wanted = results(before, [x.clone()], signed_zero)
        assert results(graph, [x.clone()], signed_zero) == wanted, seed
    assert done > 60


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_runs_are_undone(start):
    """A run that fails leaves the graph that it found, whatever its transforms did before."""

    class Refusal(Exception):
        pass

    def fails(graph):
        raise Refusal

    for seed in range(start, start + 20):
        fn, x = _random_model(seed), draw(seed, 4, 4)
        graph = trace(fn, x)
        before = form(graph)
        edits = transforms.transform("edits")(lambda graph, seed=seed: _edit(graph, seed) and None)
        listed = [*graph.default_transforms(), edits, transforms.transform("fails")(fails)]
        with pytest.raises(Refusal):
            graph.optimize(listed)
        assert form(graph) == before, seed
        check_legal(graph)
    assert results(graph, [x.clone()]) == results(trace(fn, x), [x.clone()])


def test_bodies():
    w, b = draw(2, 6, 6), draw(3, 6)

    def then(a):
        return crt.relu(crt.matmul(neg(a), w) + b) * 1.0

    def fn(x):
        y = neg(x)
        crt.exp(y)
        (chosen,) = crt.graph.cond(x.sum() > 0.0, then, lambda a: neg(crt.exp(a)) + w[0], [y])
        return crt.relu(crt.relu(chosen) * 1.0)

    for seed in (3, 4):
        given = draw(seed, 4, 6)
        before, graph = trace(fn, given), trace(fn, given)
        check_legal(before)
        report = graph.optimize()
        check_legal(graph)
        assert applied(report) and codes(graph)[-2:] == ["If", "Relu"] and "Exp" not in codes(graph)
        (bodies,) = [found for node, found in graph._bodies.items() if graph.is_alive(node)]
        for body in bodies:
            check_legal(body)
            assert "Neg" not in codes(body)
        assert not graph.optimize().changed
        assert results(graph, [given]) == results(before, [given]) == [bits(fn(given))]


def test_bodies_of_loops():
    w = draw(2, 4, 4)

    def fn(x):
        def turn(i, go, total, other):
            (inner,) = crt.graph.cond(
                total.sum() > 0.0,
                lambda a: crt.tanh(neg(a)) * 1.0,
                lambda a: crt.relu(crt.matmul(a, w.t())) + x,
                [total],
            )
            return go, neg(inner), crt.relu(crt.relu(other)) + 1.0, crt.exp(inner * 1.0)

        total, other, seen = crt.graph.loop(3, None, turn, [neg(x), x])
        last, sums = crt.graph.scan(
            lambda state, row: (neg(state) + row, crt.relu(crt.relu(state + row))),
            [x[0]],
            [seen[0]],
        )
        return [total, other, seen, last, sums]

    for seed in (3, 4):
        x = draw(seed, 4, 4)
        before, graph = trace(fn, x), trace(fn, x)
        report = graph.optimize()
        check_legal(graph)
        assert applied(report) and not graph.optimize().changed
        work = [body for bodies in graph._bodies.values() for body in bodies]
        assert work
        while work:
            body = work.pop()
            check_legal(body)
            assert "Neg" not in codes(body)
            work += [inner for bodies in body._bodies.values() for inner in bodies]
        assert results(graph, [x]) == results(before, [x]) == [bits(tensor) for tensor in fn(x)]


def test_every_transform_is_seen_to_work():
    """The list of the factories is the list of the tests above."""
    tested = """cleanup_graph fixate_dyn_shape_queues drop_boundary_permutes remove_identity_casts
        fold_neutral_numbers remove_identity_views remove_double_neg clamp_to_relu
        remove_redundant_relu sink_channels_first remove_double_permute collapse_reshapes
        merge_equal_nodes matmul_absorb_transpose fold_bias fold_silu_mul fold_add_rms_norm
        fold_gated_linear join_linears fold_activation""".split()
    everything = DefaultsOptions(
        shape_fixation=True, channels_last_inputs=True, channels_last_outputs=True
    )
    assert [item.name for item in transforms.defaults(everything)] == tested
    for name in tested:
        factory = getattr(transforms, name)
        assert factory() is factory() and factory().name == name and factory.__doc__
