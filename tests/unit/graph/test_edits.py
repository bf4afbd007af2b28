"""Edits of a graph: what each changes, what it refuses, and that a refusal changes nothing. What
edited graphs compute is compared with NumPy, which walks the graph by its views; negation, maximum,
sums and products of float32 are exact in both, so every comparison is for equal bits."""

from __future__ import annotations

import doctest
import inspect
import random
import threading

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.graph import OpCode, Transform, edits
from clika_runtime.graph.legal import check_legal

from .traced_graphs import codes, form

NUMPY = {
    "neg": np.negative,
    "relu": lambda a: np.maximum(a, np.float32(0)),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
}


def spec(name, dims=(2, 3), dtype=crt.float32):
    return crt.TensorSpec(name, dtype, list(dims))


def sum_model(inputs):
    return [crt.relu(inputs[0]) + crt.neg(inputs[0])]


def traced(fn=sum_model, *specs, outputs=("y",)):
    return crt.trace(fn, list(specs or [spec("x")]), output_names=list(outputs)).graph


def array(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def evaluate(graph, feeds):
    """The outputs by NumPy, which follows the graph's views."""

    def value(item):
        node = item.producer()
        if node is None:
            return graph._constants[graph.constant_id(item.name)].numpy()
        if node.op_code is None:
            return feeds[node.name]
        return NUMPY[node.op_code.value](*(value(read) for read in node.inputs))

    found = {name: value(graph.value_view(item)) for name, item in graph.output_list()}
    return [found[name] for name in graph.output_names()]


def check_run(graph, feeds):
    expected = evaluate(graph, feeds)
    check_legal(graph)
    graph.finalize()
    results = graph.run({name: crt.tensor(feeds[name]) for name in graph.input_names()})
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.numpy(), wanted)


def refused(graph, call, message=None, code="INVALID_ARGUMENT", error=InvalidArgumentError):
    """The call is refused, and the graph is what it was, byte for byte."""
    before = form(graph)
    with pytest.raises(error, match=message) as found:
        call()
    if error is InvalidArgumentError:
        assert found.value.code_name == code
    assert form(graph) == before
    assert graph.mark() == 0  # no open undo is left
    graph.commit()


# ------------------------------------------------------------------ examples
@pytest.mark.parametrize(
    "test", doctest.DocTestFinder().find(edits.Edits), ids=lambda test: test.name
)
def test_examples(test):
    graph = traced()
    x, relu, neg, add = graph.nodes()
    names = {"x": x, "relu": relu, "neg": neg, "add": add}
    test.globs.update(crt=crt, graph=graph, OpCode=OpCode, **names)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_every_edit_has_an_example():
    public = [item for name, item in vars(edits.Edits).items() if not name.startswith("_")]
    functions = [item for item in public if inspect.isfunction(item)]
    assert len(functions) == 16
    assert all(">>> " in item.__doc__ for item in functions)


# ------------------------------------------------------------------ reads
def test_replaced_uses_move_outputs_under_their_names():
    graph = traced(lambda t: [crt.relu(t[0]), crt.relu(t[0]) + t[0]], outputs=("a", "b"))
    _x, first, second, _add = graph.nodes()
    graph.replace_all_uses_with(first.output(0), second.output(0))
    assert graph.output_names() == ["a", "b"]
    assert second.output(0).is_graph_output() and not first.output(0).is_graph_output()
    graph.remove_node(first)
    check_run(graph, {"x": array(0, 2, 3)})


def test_replaced_uses_refusals():
    def model(t):
        return [crt.relu(t[0]) + crt.neg(t[0]), crt.sum(t[0], [1], True), t[1] + 1]

    graph = traced(model, spec("x"), spec("i", dtype=crt.int32), outputs=("y", "s", "j"))
    other = traced()
    (relu,) = graph.find_nodes(OpCode.Relu)
    (neg,) = graph.find_nodes(OpCode.Neg)
    (add,) = (node for node in graph.find_nodes(OpCode.Add) if node.name == "Add_3")
    (total,) = graph.find_nodes(OpCode.Sum)
    move = graph.replace_all_uses_with
    y = relu.output(0)
    refused(graph, lambda: move(y, total.output(0)), r"Sum_4_0' \(float32 \[2, 1\]\).*\[2, 3\]")
    refused(graph, lambda: move(y, graph.node("i").output(0)), "int32")
    refused(graph, lambda: move(neg.output(0), add.output(0)), "computed from it")
    refused(graph, lambda: move(y, other.nodes()[1].output(0)), "^replace_all_.* another graph")
    refused(graph, lambda: move(other.nodes()[1].output(0), y), "of another graph")
    refused(graph, lambda: move(relu, y), "expected a Value, got Node", error=TypeError)
    refused(graph, lambda: move(y, None), "expected a Value", error=TypeError)
    spare = graph.add_node(OpCode.Tanh, [y])
    gone = spare.output(0)
    graph.remove_node(spare)
    refused(
        graph, lambda: move(y, gone), "^replace_all_uses_with: the value 'Tanh_6_0' is no longer"
    )
    refused(graph, lambda: move(gone, y), "no longer in its graph: an edit removed")


def test_replaced_uses_compare_symbolic_sizes():
    specs = spec("a", (-1, 3)), spec("b", (-1, 3))
    graph = traced(lambda t: [crt.relu(t[0]), crt.neg(t[1])], *specs, outputs=("r", "n"))
    _a, b, relu, neg = graph.nodes()
    refused(
        graph,
        lambda: graph.replace_all_uses_with(relu.output(0), neg.output(0)),
        r"\[b_dim0, 3\].*\[a_dim0, 3\]",
    )
    graph.set_input(neg, 0, b.output(0))  # what it reads already
    assert neg.inputs == [b.output(0)]


def test_set_input_and_its_refusals():
    graph = traced()
    x, relu, neg, add = graph.nodes()
    refused(graph, lambda: graph.set_input(add, 2, relu.output(0)), "reads at the ports")
    refused(graph, lambda: graph.set_input(add, -1, relu.output(0)), "input port -1")
    refused(graph, lambda: graph.set_input(add, "0", relu.output(0)), "input port '0'")
    refused(graph, lambda: graph.set_input(x, 0, relu.output(0)), "'x' is a graph input")
    refused(graph, lambda: graph.set_input(relu, 0, add.output(0)), "'Relu_1' would read")
    refused(graph, lambda: graph.set_input(relu, 0, relu.output(0)), "'Relu_1' would read")
    graph.set_input(add, 1, relu.output(0))
    assert [value.producer() for value in add.inputs] == [relu, relu]
    graph.remove_node(neg)
    check_run(graph, {"x": array(1, 2, 3)})


def test_constants_are_handles_and_go_with_their_last_read():
    graph = traced()
    x, _relu, _neg, add = graph.nodes()
    ones = crt.ones(2, 3)
    graph.set_constant_input(add, 1, ones)
    (constant,) = graph.constants()
    held = graph._constants[graph.constant_id(constant.name)]
    assert held.data_ptr() == ones.data_ptr()
    half = graph.add_constant(crt.full((2, 3), 0.5))
    assert not half.uses() and len(graph.constants()) == 2
    assert graph.add_constant(ones) == constant  # the same tensor is the same constant
    graph.set_input(add, 1, half)
    assert graph.constants() == [half]
    with pytest.raises(InvalidArgumentError, match="no longer in its graph"):
        constant.check()
    graph.set_input(add, 1, x.output(0))
    assert graph.constants() == [] and graph._constants == {}  # and their bytes are let go
    graph.set_constant_input(add, 1, ones)  # the same tensor again
    assert len(graph.constants()) == 1
    check_run(graph, {"x": array(2, 2, 3)})


def test_constant_refusals():
    graph = traced()
    x, _relu, _neg, add = graph.nodes()
    put = graph.set_constant_input
    refused(graph, lambda: put(add, 1, crt.ones(3)), r"cannot take the place of 'Neg_2_0'")
    refused(graph, lambda: put(add, 1, crt.ones(2, 3, dtype=crt.int32)), "int32")
    refused(graph, lambda: put(add, 5, crt.ones(2, 3)), "input port 5")
    refused(graph, lambda: put(x, 0, crt.ones(2, 3)), "graph input")
    refused(graph, lambda: put(add, 1, np.ones((2, 3))), "takes a Tensor", error=TypeError)
    leaked = []
    graph.insert(lambda t: leaked.append(t[0]) or t[0] * 2, [x.output(0)])
    refused(graph, lambda: put(add, 1, leaked[0]), "has no bytes")
    refused(graph, lambda: graph.add_constant(leaked[0]), "has no bytes")
    refused(graph, lambda: graph.add_constant(1.0), "takes a Tensor", error=TypeError)


# ------------------------------------------------------------------ nodes
def test_remove_node_names_its_reader():
    graph = traced()
    x, _relu, neg, add = graph.nodes()
    refused(
        graph, lambda: graph.remove_node(neg), "'Add_3' still reads 'Neg_2' at its input port 1"
    )
    refused(graph, lambda: graph.remove_node(add), "returns a value of 'Add_3' as 'y'")
    refused(graph, lambda: graph.remove_node(x), "'x' is a graph input")
    refused(graph, lambda: graph.remove_node(traced().nodes()[1]), "another graph")
    graph.remove_output("y")
    graph.remove_node(add)
    refused(graph, lambda: graph.remove_node(add), "^remove_node: the node 'Add_3' is no longer")
    assert codes(graph) == ["x", "Relu", "Neg"]


def test_bypass_node_takes_ports():
    def model(t):
        return [crt.sub(crt.neg(t[0]), crt.relu(t[0])) + t[0]]

    graph = traced(model)
    x, _neg, relu, sub, add = graph.nodes()
    refused(graph, lambda: graph.bypass_node(sub, 2), "input port 2")
    refused(graph, lambda: graph.bypass_node(sub, 0, 1), "no output port 1")
    refused(graph, lambda: graph.bypass_node(x), "graph input")
    graph.bypass_node(sub, in_port=1)
    assert add.input(0).producer() == relu
    check_run(graph, {"x": array(3, 2, 3)})


def test_bypass_node_refuses_other_dims_and_reads_of_other_outputs():
    def model(t):
        values, at = crt.sort(t[0], dim=1)
        return [values + t[0], crt.sum(t[0], [1], True), at]

    graph = traced(model, outputs=("v", "s", "i"))
    (sort,) = graph.find_nodes(OpCode.Sort)
    (total,) = graph.find_nodes(OpCode.Sum)
    refused(graph, lambda: graph.bypass_node(total), "dtype and dims must be the same")
    refused(graph, lambda: graph.bypass_node(sort), "returns a value of 'Sort_1' as 'i'")
    graph.remove_output("i")
    graph.bypass_node(sort)
    assert codes(graph) == ["x", "Add", "Sum"]


def test_an_output_may_become_an_input():
    graph = traced(lambda t: [crt.relu(t[0])])
    graph.bypass_node(graph.node("Relu_1"))
    graph.finalize()
    x = crt.tensor(array(4, 2, 3))
    np.testing.assert_array_equal(graph.run([x])[0].numpy(), x.numpy())


def test_rename_node_keeps_the_names_of_values():
    graph = traced()
    _x, relu, _neg, add = graph.nodes()
    graph.rename_node(add, "total")
    with pytest.raises(
        InvalidArgumentError, match="no longer in its graph: an edit removed or ren"
    ):
        add.check()
    total = graph.node("total")
    assert total.output(0).name == "Add_3_0" and repr(add).startswith("Node(gone: ")
    graph.rename_node(total, "total")
    refused(graph, lambda: graph.rename_node(total, "Relu_1"), "has a node 'Relu_1' already")
    refused(graph, lambda: graph.rename_node(total, "x"), "has an input 'x' already")
    refused(graph, lambda: graph.rename_node(total, ""), "must not be empty")
    refused(graph, lambda: graph.rename_node(total, 3), "a name is a str", error=TypeError)
    refused(graph, lambda: graph.rename_node(add, "sum"), "^rename_node: the node 'Add_3'")
    refused(
        graph,
        lambda: graph.rename_node(graph.node("x"), "features"),
        r"^rename_node: 'x' is a graph input; rename it with rename_input\(\)$",
    )
    graph.rename_node(total, "Add_3")
    made = graph.add_node(OpCode.Neg, [relu.output(0)])
    assert made.name == "Neg_4"
    check_run(graph, {"x": array(5, 2, 3)})


# ------------------------------------------------------------------ inputs and outputs
def test_inputs_and_outputs_and_their_refusals():
    graph = traced()
    x, relu, _neg, add = graph.nodes()
    refused(graph, lambda: graph.add_input(spec("x")), "an input 'x' already")
    refused(graph, lambda: graph.add_input(spec("Neg_2")), "a node 'Neg_2' already")
    refused(graph, lambda: graph.add_input("b"), "takes a TensorSpec", error=TypeError)
    refused(graph, lambda: graph.add_output(relu.output(0), "y"), "an output 'y' already")
    refused(graph, lambda: graph.add_output(relu.output(0), ""), "must not be empty")
    refused(graph, lambda: graph.add_output(relu, "z"), "expected a Value", error=TypeError)
    refused(graph, lambda: graph.remove_output("z"), r"no output 'z'; its outputs are \['y'\]")
    refused(graph, lambda: graph.rename_input("z", "w"), r"no input 'z'; its inputs are \['x'\]")
    refused(graph, lambda: graph.rename_input("x", "Neg_2"), "a node 'Neg_2' already")
    refused(graph, lambda: graph.rename_output("z", "w"), "no output 'z'")
    bias = graph.add_input(spec("bias"))
    graph.set_input(add, 1, bias.output(0))
    graph.add_output(relu.output(0), "rectified")
    graph.add_output(x.output(0), "x")  # an output may have an input's name
    refused(graph, lambda: graph.rename_output("rectified", "y"), "an output 'y' already")
    refused(graph, lambda: graph.rename_input("bias", "x"), "an input 'x' already")
    graph.rename_input("x", "features")
    graph.rename_output("y", "total")
    assert graph.input_names() == ["features", "bias"]
    assert graph.output_names() == ["total", "rectified", "x"]
    check_run(graph, {"features": array(6, 2, 3), "bias": array(7, 2, 3)})


def test_a_dynamic_input_has_a_size_of_its_own():
    graph = traced(lambda t: [crt.relu(t[0])], spec("x", (-1, 3)))
    graph.rename_input("x", "first")
    second = graph.add_input(spec("x", (-1, 3)))
    assert second.output(0).spec().dim_names != graph.node("first").output(0).spec().dim_names
    graph.add_output(second.output(0), "x")
    graph.finalize()
    results = graph.run([crt.ones(2, 3), crt.ones(5, 3)])
    assert [tuple(result.shape) for result in results] == [(2, 3), (5, 3)]
    # A name that the caller gives is the same size.
    graph = traced(
        lambda t: [crt.relu(t[0])], crt.TensorSpec("x", crt.float32, [-1], dim_names=["n"])
    )
    same = graph.add_input(crt.TensorSpec("z", crt.float32, [-1], dim_names=["n"]))
    graph.set_input(graph.node("Relu_1"), 0, same.output(0))


def test_bound_names_stay():
    graph = traced()
    graph._bound_names = {"x", "y"}
    refused(graph, lambda: graph.rename_input("x", "z"), "KV cache binds the name 'x'")
    refused(graph, lambda: graph.rename_output("y", "z"), "KV cache binds the name 'y'")
    refused(graph, lambda: graph.remove_output("y"), "KV cache binds the name 'y'")


def test_a_graph_without_outputs_can_be_edited():
    graph = traced()
    graph.remove_output("y")
    graph.add_output(graph.node("Neg_2").output(0), "n")
    check_run(graph, {"x": array(8, 2, 3)})


# ------------------------------------------------------------------ state
EDITS = {
    "replace_all_uses_with": lambda g, n: g.replace_all_uses_with(n[2].output(0), n[0].output(0)),
    "set_input": lambda g, n: g.set_input(n[3], 1, n[1].output(0)),
    "set_constant_input": lambda g, n: g.set_constant_input(n[3], 1, crt.ones(2, 3)),
    "add_constant": lambda g, n: g.add_constant(crt.ones(2, 3)),
    "remove_node": lambda g, n: g.remove_node(n[4]),
    "bypass_node": lambda g, n: g.bypass_node(n[1]),
    "rename_node": lambda g, n: g.rename_node(n[3], "total"),
    "add_input": lambda g, n: g.add_input(spec("bias")),
    "add_output": lambda g, n: g.add_output(n[1].output(0), "r"),
    "remove_output": lambda g, n: g.remove_output("y"),
    "rename_input": lambda g, n: g.rename_input("x", "z"),
    "rename_output": lambda g, n: g.rename_output("y", "z"),
    "add_node": lambda g, n: g.add_node(OpCode.Neg, [n[0].output(0)]),
    "insert": lambda g, n: g.insert(lambda t: -t[0], [n[0].output(0)]),
    "replace": lambda g, n: g.replace([n[2].output(0)], lambda t: t[0] * 2, [n[0].output(0)]),
    "merge": lambda g, n: g.merge(traced(), [("y", "x")]),
}


def edited_model(t):
    return [crt.relu(t[0]) + crt.neg(t[0]), crt.tanh(t[0])][:1]


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_changes_the_graph_and_can_be_undone(name):
    graph = traced(edited_model)
    before = form(graph)
    mark = graph.mark()
    operators = graph._operators
    EDITS[name](graph, graph.nodes())
    check_legal(graph)
    assert form(graph) != before
    graph.rollback(mark)
    graph._operators = operators
    assert form(graph) == before


@pytest.mark.parametrize("name", EDITS)
def test_a_finalized_graph_refuses_every_edit(name):
    graph = traced(edited_model)
    nodes = graph.nodes()
    graph.finalize()
    refused(
        graph,
        lambda: EDITS[name](graph, nodes),
        f"^{name}: the graph is final",
        "FAILED_PRECONDITION",
    )


@pytest.mark.parametrize("name", EDITS)
def test_a_transform_keeps_other_threads_out(name):
    graph = traced(edited_model)
    found = []

    def fn(g):
        nodes = g.nodes()

        def edit():
            try:
                EDITS[name](g, nodes)
            except InvalidArgumentError as error:
                found.append(error)

        before = form(g)
        thread = threading.Thread(target=edit)
        thread.start()
        thread.join()
        assert form(g) == before

    graph.optimize([Transform("foreign", fn)])
    assert found[0].code_name == "FAILED_PRECONDITION"
    assert str(found[0]).startswith(f"{name}: the transform 'foreign' is running")
    EDITS[name](graph, graph.nodes()) if name != "remove_node" else None


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("caller", ["insert", "replace", "split"])
def test_the_function_of_an_edit_must_not_edit(caller, name):
    graph = traced(edited_model)
    nodes = graph.nodes()

    def fn(given):
        EDITS[name](graph, nodes)
        return "part" if caller == "split" else given[0] * 2

    def call():
        if caller == "insert":
            graph.insert(fn, [nodes[0].output(0)])
        elif caller == "replace":
            graph.replace([nodes[2].output(0)], fn, [nodes[0].output(0)])
        else:
            crt.graph.split(graph, fn)

    refused(graph, call, rf"^{name}: {caller}\(\) is calling its function", "FAILED_PRECONDITION")


@pytest.mark.parametrize("name", ["optimize", "finalize", "to"])
def test_the_function_of_an_edit_must_not_finish_the_graph(name):
    graph = traced()
    call = {"to": lambda: graph.to("cpu")}.get(name) or getattr(graph, name)
    x = graph.node("x").output(0)
    refused(
        graph,
        lambda: graph.insert(lambda t: call() or t[0], [x]),
        f"^{name}: ",
        "FAILED_PRECONDITION",
    )


def test_merge_waits_for_the_end_of_a_transform():
    graph, other = traced(), traced()
    before = form(other)
    joins = Transform("joins", lambda g: g.merge(other, [("y", "x")]) and None)
    text = "^merge: the transform 'joins' is running"
    refused(graph, lambda: graph.optimize([joins]), text, "FAILED_PRECONDITION")
    assert form(other) == before


# ------------------------------------------------------------------ add_node
def test_add_node_takes_operands_numbers_and_settings():
    graph = traced(lambda t: [crt.softmax(crt.clamp(t[0], 0.0), dim=-1) * 2.0])
    x, clamp, softmax, mul = graph.nodes()
    made = graph.add_node(OpCode.Clamp, [x.output(0)], clamp.attributes)
    assert made.attributes == clamp.attributes
    made = graph.add_node(OpCode.Clamp, [x.output(0)], {"min": 0, "max": 6})
    assert made.attribute("max") == 6
    made = graph.add_node(OpCode.Softmax, [made.output(0)], softmax.attributes)
    assert made.attributes == softmax.attributes
    made = graph.add_node(OpCode.Mul, [made.output(0)], mul.attributes)
    assert made.attribute("other") == 2.0
    made = graph.add_node(OpCode.Mul, [made.output(0), 3])
    assert made.attribute("other") == 3 and len(made.inputs) == 1
    made = graph.add_node(OpCode.Cat, [made.output(0), x.output(0)], {"dim": 1})
    assert list(made.output(0).shape) == [2, 6]
    norm = graph.add_node(OpCode.RmsNorm, [made.output(0), None], {"normalized_shape": 6})
    assert len(norm.inputs) == 1
    gelu = graph.add_node(OpCode.Gelu, [x.output(0)], {"approximate": "tanh"})
    assert gelu.attribute("approximate") == "tanh"
    graph.add_output(norm.output(0), "n")
    graph.finalize()
    x = array(9, 2, 3)
    clamped = np.exp(np.clip(x, 0, 6) - np.clip(x, 0, 6).max(-1, keepdims=True))
    joined = np.concatenate([clamped / clamped.sum(-1, keepdims=True) * 6, x], 1)
    wanted = joined / np.sqrt((joined**2).mean(-1, keepdims=True) + 2.0**-23)
    # Rounding of exp, a quotient and a square root: a few units in the last place of float32.
    np.testing.assert_allclose(graph.run([crt.tensor(x)])[1].numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_add_node_carries_an_activation():
    graph = traced()
    _x, relu, neg, add = graph.nodes()
    made = graph.add_node(
        OpCode.Sub, [relu.output(0), neg.output(0)], {**add.attributes, "activation": "Relu"}
    )
    assert made.attribute("activation") == "Relu" and add.attribute("activation") == "Identity"
    graph.replace_all_uses_with(add.output(0), made.output(0))
    graph.finalize()
    value = array(10, 2, 3)
    wanted = np.maximum(np.maximum(value, 0) + value, np.float32(0))
    np.testing.assert_array_equal(graph.run([crt.tensor(value)])[0].numpy(), wanted)


def test_add_node_refusals():
    graph = traced()
    _x, relu, _neg, _add = graph.nodes()
    v = relu.output(0)
    new = graph.add_node
    refused(graph, lambda: new(OpCode.Sort, [v]), r"Sort has several outputs; use insert\(\)")
    refused(graph, lambda: new(OpCode.KvAppend, [v, v, v]), r"writes in place; use insert\(\)")
    refused(graph, lambda: new(OpCode.After, [v, v]), r"no operator of .*; use insert\(\)")
    refused(graph, lambda: new("relu", [v]), "takes an OpCode", error=TypeError)
    refused(graph, lambda: new(OpCode.Relu, [v], {"alpha": 1}), "Relu has no setting 'alpha'")
    refused(graph, lambda: new(OpCode.Relu, [v], {"activation": "Relu"}), "carries no activation")
    refused(graph, lambda: new(OpCode.Sub, [v, v], {"activation": "Wave"}), "no activation")
    refused(graph, lambda: new(OpCode.Relu, [v, v]), "takes the inputs")
    refused(graph, lambda: new(OpCode.Add, [v]), "takes the inputs")
    refused(graph, lambda: new(OpCode.Add, [v, None]), "needs its input 'other'")
    refused(graph, lambda: new(OpCode.Add, [v], {"other": v}), "give it among the inputs")
    refused(graph, lambda: new(OpCode.Neg, [2.0]), "expected a Value", error=TypeError)
    refused(graph, lambda: new(OpCode.Neg, [traced().nodes()[0].output(0)]), "another graph")
    refused(graph, lambda: new(OpCode.MatMul, [v, v]), "cannot contract")
    refused(graph, lambda: new(OpCode.Softmax, [v], {"dim": 7}), "softmax")
    refused(graph, lambda: new(OpCode.Gelu, [v], {"approximate": "fast"}), "is not an? Approximate")


# ------------------------------------------------------------------ insert and replace
def test_insert_reads_the_value_it_is_given():
    """Also where the recording wrote to it later."""

    def model(t):
        h = crt.neg(t[0])
        before = h * 3
        h.relu_() if hasattr(h, "relu_") else h.mul_(2)
        return [before + h]

    graph = traced(model)
    neg = graph.node("Neg_1")
    (made,) = graph.insert(lambda t: t[0] + t[0], [neg.output(0)])
    assert made.producer().input(0) == neg.output(0)
    check_legal(graph)


def test_insert_and_its_refusals():
    graph = traced()
    _x, relu, neg, _add = graph.nodes()
    v = relu.output(0)
    first, second = graph.insert(lambda t: (t[0] * 2, t[1]), [v, neg.output(0)])
    assert second == neg.output(0) and not first.uses()
    graph.remove_node(first.producer())
    held = crt.ones(2, 3)
    (constant,) = graph.insert(lambda t: held, [])
    assert constant.is_constant() and not constant.uses()

    class Boom(Exception):
        pass

    def fails(t):
        crt.tanh(t[0]) + crt.ones(2, 3)
        raise Boom

    other = traced()
    insert = graph.insert
    refused(graph, lambda: insert(fails, [v]), error=Boom)
    refused(graph, lambda: insert(lambda t: None, [v]), "must return a Tensor", error=TypeError)
    refused(graph, lambda: insert(lambda t: [], [v]), "must return a Tensor", error=TypeError)
    refused(graph, lambda: insert(lambda t: [t[0] * 2, 1], [v]), "one of int", error=TypeError)
    refused(graph, lambda: insert("fn", [v]), "takes a function", error=TypeError)
    refused(graph, lambda: insert(lambda t: t[0].add_(1), [v]), "writes in place")
    refused(graph, lambda: insert(lambda t: t[0], [other.nodes()[1].output(0)]), "another graph")
    refused(graph, lambda: insert(lambda t: t[0].item(), [v]), error=crt.ClikaRTError)
    foreign = []
    other.insert(lambda t: foreign.append(t[0]) or t[0], [other.nodes()[1].output(0)])
    refused(graph, lambda: insert(lambda t: t[0] + foreign[0], [v]), "recording")
    leaked = []
    refused(graph, lambda: insert(lambda t: leaked.append(t[0] * 2) or 1, [v]), error=TypeError)
    refused(graph, lambda: insert(lambda t: t[0] + leaked[0], [v]), "no longer in its graph")
    refused(graph, lambda: insert(lambda t: leaked[0], [v]), "no longer in the graph")
    check_run(graph, {"x": array(11, 2, 3)})


def test_insert_does_not_write_captured_tensors():
    graph = traced()
    state = crt.zeros(2, 3)
    v = graph.node("x").output(0)
    refused(graph, lambda: graph.insert(lambda t: state.add_(t[0]), [v]), "writes in place")
    assert state.tolist() == [[0.0] * 3] * 2
    assert graph._constants == {}


def test_a_traced_tensor_that_outlives_its_graph_is_refused():
    kept = []
    graph = traced(lambda t: kept.append(t[0]) or [crt.relu(t[0])])
    graph.finalize()
    refused(graph, lambda: crt.neg(kept[0]), "^neg: the graph is finalized", "FAILED_PRECONDITION")


def test_replace_rewires_and_removes():
    def model(t):
        a = crt.relu(crt.relu(t[0]))
        return [a + crt.neg(a), a]

    graph = traced(model, outputs=("y", "a"))
    x, _first, second, _neg, _add = graph.nodes()
    (made,) = graph.replace([second.output(0)], lambda t: crt.relu(t[0]), [x.output(0)])
    assert graph.node("Relu_1") is None and graph.node("Relu_2") is None
    assert made.is_graph_output() and graph.output_names() == ["y", "a"]
    check_run(graph, {"x": array(12, 2, 3)})


def test_replace_keeps_what_others_and_inputs_need():
    graph = traced(
        lambda t: [crt.neg(crt.relu(t[0])) * crt.relu(t[0]), crt.neg(t[0])], outputs=("a", "b")
    )
    x, _relu1, neg1, _relu2, mul, _neg2 = graph.nodes()
    graph.replace([mul.output(0)], lambda t: t[0] - t[1], [neg1.output(0), x.output(0)])
    assert codes(graph) == ["x", "Relu", "Neg", "Neg", "Sub"]  # neg1 stays, relu2 went
    check_run(graph, {"x": array(13, 2, 3)})


def test_replace_wraps_and_swaps():
    graph = traced(lambda t: [crt.relu(t[0]), crt.neg(t[0])], outputs=("a", "b"))
    _x, relu, neg = graph.nodes()
    (made,) = graph.replace([relu.output(0)], lambda t: t[0] * t[0], [relu.output(0)])
    assert made.producer().input(0) == relu.output(0) and made.is_graph_output()
    graph.replace([made, neg.output(0)], lambda t: [t[1], t[0]], [made, neg.output(0)])
    value = array(14, 2, 3)
    check_run(graph, {"x": value})
    first, second = graph.run([crt.tensor(value)])
    np.testing.assert_array_equal(first.numpy(), -value)
    np.testing.assert_array_equal(second.numpy(), np.maximum(value, 0) ** 2)


def test_replace_refusals():
    graph = traced()
    x, relu, _neg, add = graph.nodes()
    v = relu.output(0)

    class Boom(Exception):
        pass

    def fails(t):
        crt.tanh(t[0])
        raise Boom

    replace = graph.replace
    refused(graph, lambda: replace([v], fails, [x.output(0)]), error=Boom)
    refused(graph, lambda: replace([v], lambda t: [t[0], t[0]], [x.output(0)]), "2 tensors for 1")
    refused(graph, lambda: replace([v], lambda t: t[0].sum(), [x.output(0)]), "dtype and dims")
    refused(graph, lambda: replace([v], lambda t: t[0] * 2, [add.output(0)]), "read themselves")
    refused(graph, lambda: replace([v], lambda t: t[0].mul_(2), [x.output(0)]), "in place")
    refused(graph, lambda: replace([], lambda t: [], []), "one or more")
    refused(graph, lambda: replace([v, v], lambda t: t, [x.output(0)] * 2), "one or more")
    refused(graph, lambda: replace([v], lambda t: t[0], [traced().nodes()[0].output(0)]), "another")
    assert codes(graph) == ["x", "Relu", "Neg", "Add"]


# ------------------------------------------------------------------ writes in place
def test_what_a_write_reads_is_not_exchanged_for_an_input():
    """Bypassing the Neg would make every run write to the caller's tensor."""

    def model(t):
        h = crt.neg(t[0])
        h.view(6).mul_(2)
        return [h + 1]

    graph = traced(model)
    neg = graph.node("Neg_1")
    refused(graph, lambda: graph.bypass_node(neg), "writes in place to what is read here")
    constant = graph.add_constant(crt.ones(2, 3))
    refused(graph, lambda: graph.replace_all_uses_with(neg.output(0), constant), "writes in place")
    (made,) = graph.insert(lambda t: t[0] * 3, [graph.node("x").output(0)])
    graph.replace_all_uses_with(neg.output(0), made)  # another operator's result is as good
    graph.remove_node(neg)
    check_legal(graph)
    graph.finalize()
    value = crt.tensor(array(15, 2, 3))
    before = value.numpy().copy()
    np.testing.assert_array_equal(graph.run([value])[0].numpy(), before * 3 * 2 + 1)
    np.testing.assert_array_equal(value.numpy(), before)


def test_a_value_that_is_written_later_is_returned_as_it_was():
    def model(t):
        h = crt.neg(t[0])
        h.mul_(2)
        return [h]

    graph = traced(model)
    graph.add_output(graph.node("Neg_1").output(0), "early")
    check_legal(graph)
    graph.finalize()
    value = array(16, 2, 3)
    results = [result.numpy() for result in graph.run([crt.tensor(value)])]
    np.testing.assert_array_equal(results[0], value * -2)
    np.testing.assert_array_equal(results[1], -value)


def test_the_value_of_a_state_stays():
    state = crt.zeros(2, 3)

    def model(t):
        state.add_(t[0])
        return [t[0] * 2]

    graph = traced(model)
    name = graph.output_names()[1]
    assert name == "state_out_0"
    value = graph.value_view(dict(graph.output_list())[name])
    x = graph.node("x").output(0)
    refused(graph, lambda: graph.replace_all_uses_with(value, x), "runs rewrite")
    refused(graph, lambda: graph.bypass_node(value.producer()), "runs rewrite")
    graph.rename_output(name, "total")
    graph.finalize()
    for _ in range(2):
        graph.run([crt.ones(2, 3)])
    assert state.tolist() == [[2.0] * 3] * 2
    # A state that is not returned is written all the same, until its writer goes.
    graph = traced(model)
    graph.remove_output(name)
    graph.finalize()
    graph.run([crt.ones(2, 3)])
    assert state.tolist() == [[3.0] * 3] * 2
    graph = traced(model)
    writer = graph.value_view(dict(graph.output_list())[name]).producer()
    graph.remove_output(name)
    graph.remove_node(writer)
    check_legal(graph)
    graph.finalize()
    graph.run([crt.ones(2, 3)])
    assert state.tolist() == [[3.0] * 3] * 2


# ------------------------------------------------------------------ at random
def random_edit(graph, rng):
    """One edit that keeps the graph legal, or one that is refused; all values are [2, 3]."""
    nodes = graph.nodes()
    operators = [node for node in nodes if node.op_code is not None]
    values = [node.output(0) for node in nodes]
    kind = rng.randrange(8)
    if kind == 0:
        graph.replace_all_uses_with(rng.choice(values), rng.choice(values))
    elif kind == 1:
        node = rng.choice(operators)
        graph.set_input(node, rng.randrange(len(node.inputs)), rng.choice(values))
    elif kind == 2:
        node = rng.choice(operators)
        graph.set_constant_input(node, 0, crt.full((2, 3), float(rng.randint(-3, 3))))
    elif kind == 3:
        graph.remove_node(rng.choice(operators))
    elif kind == 4:
        graph.bypass_node(rng.choice(operators))
    elif kind == 5:
        code = rng.choice([OpCode.Add, OpCode.Sub, OpCode.Maximum])
        graph.add_node(code, [rng.choice(values), rng.choice(values)])
    elif kind == 6:
        graph.insert(lambda t: crt.maximum(t[0], -t[1]), [rng.choice(values), rng.choice(values)])
    else:
        graph.replace(
            [rng.choice(values)],
            lambda t: crt.relu(t[0]) - t[1],
            [rng.choice(values) for _ in "ab"],
        )


def test_random_edits_keep_a_graph_that_runs_as_its_views_say():
    done = turned_away = 0
    for seed in range(40):
        rng = random.Random(seed)

        def model(t):
            return [crt.relu(t[0] - t[1]) + crt.neg(t[1]), crt.maximum(t[0], t[1]) * t[0]]

        graph = traced(model, spec("a"), spec("b"), outputs=("y", "z"))
        for _ in range(12):
            before = form(graph)
            try:
                random_edit(graph, rng)
                done += 1
            except InvalidArgumentError:
                turned_away += 1
                assert form(graph) == before
            assert graph.output_names() == ["y", "z"] and graph.input_names() == ["a", "b"]
            check_legal(graph)
            if not any(node.op_code is not None for node in graph.nodes()):
                break
        check_run(graph, {"a": array(seed, 2, 3), "b": array(seed + 99, 2, 3)})
    assert done > 150 and turned_away > 30


def through_row(h):
    h[1].mul_(2)


def through_flat(h):
    flat = h.reshape(-1)
    crt.copy_(flat[3:5], flat[0:2] * -1)
    flat[0:2].add_(1)


def through_column(h):
    h.transpose(0, 1)[1].mul_(3)


@pytest.mark.parametrize("write", [through_row, through_flat, through_column])
@pytest.mark.parametrize("edit", [False, True])
def test_writes_through_views_reach_what_they_are_views_of(write, edit):
    def model(t):
        h = crt.neg(t[0])
        write(h)
        return [h + 1]

    graph = traced(model)
    value = crt.tensor(array(17, 2, 3))
    if edit:  # what is written to may become another operator's result
        (made,) = graph.insert(lambda t: t[0] * -1, [graph.node("x").output(0)])
        graph.replace_all_uses_with(graph.node("Neg_1").output(0), made)
        check_legal(graph)
    graph.finalize()
    np.testing.assert_array_equal(graph.run([value])[0].numpy(), model([value])[0].numpy())
