"""Merge, split and extract: names, connections, what they consume and what a refusal leaves. What
the graphs compute is compared, bit for bit, with the same functions run eagerly."""

from __future__ import annotations

import doctest
import random
import threading

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import plugins
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.graph import (
    NameKind,
    OpCode,
    Transform,
    ValueCut,
    combine,
    cond,
    extract,
    loop,
    merge,
    split,
)
from clika_runtime.graph.legal import check_legal
from clika_runtime.testing import reference_backend

from .traced_graphs import bits, form


def spec(name, dims=(2, 3), dtype=crt.float32, names=None):
    return crt.TensorSpec(name, dtype, list(dims), dim_names=names)


def traced(fn, *specs, outputs=("y",)):
    specs = [item if isinstance(item, crt.TensorSpec) else spec(item) for item in specs]
    return crt.trace(fn, specs, output_names=list(outputs)).graph


def rectify(t):
    return [crt.relu(t[0])]


def twice(t):
    return [crt.add(t[0], t[0])]


def pool(t):
    return [crt.neg(crt.sum(crt.relu(t[0]), [1], True))]


def draw(seed, *shape):
    return crt.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def by_name(graph, feeds):
    """The outputs of a run by name."""
    check_legal(graph)
    graph.finalize()
    found = graph.run({name: feeds[name] for name in graph.input_names()})
    return dict(zip(graph.output_names(), map(bits, found), strict=True))


def refused(graphs, call, message, code="INVALID_ARGUMENT", error=InvalidArgumentError):
    """The call is refused, and every graph is what it was."""
    before = [(form(graph), graph._placed, graph.consumed) for graph in graphs]
    with pytest.raises(error, match=message) as found:
        call()
    if error is InvalidArgumentError:
        assert found.value.code_name == code
    assert [(form(graph), graph._placed, graph.consumed) for graph in graphs] == before


def test_examples():
    result = doctest.testmod(combine)
    assert result.failed == 0 and result.attempted > 10


# ------------------------------------------------------------------ names
def test_names_of_inputs_and_outputs():
    def parts():
        return {
            "a": traced(lambda t: [crt.relu(t[0]), crt.neg(t[1])], "x", "u", outputs=("y", "v")),
            "b": traced(twice, "x"),
        }

    merged, renames = merge(parts())
    assert merged.input_names() == ["a/x", "u", "b/x"]
    assert merged.output_names() == ["a/y", "v", "b/y"]
    kinds = [(item.part, item.kind, item.from_, item.to) for item in renames]
    assert kinds == [
        ("a", NameKind.Input, "x", "a/x"),
        ("b", NameKind.Input, "x", "b/x"),
        ("a", NameKind.Node, "Relu_1", "a/Relu_1"),
        ("a", NameKind.Node, "Neg_2", "a/Neg_2"),
        ("b", NameKind.Node, "Add_1", "b/Add_1"),
        ("a", NameKind.Output, "y", "a/y"),
        ("b", NameKind.Output, "y", "b/y"),
    ]
    always, _ = merge(parts(), io_names="prefix_always")
    assert always.input_names() == ["a/x", "a/u", "b/x"]
    made = parts()
    refused(
        made.values(),
        lambda: merge(made, io_names="keep"),
        "^merge: parts 'a' and 'b' both have an input named 'x', which IoNames::Keep keeps; merge "
        "with IoNames::PrefixOnCollision or PrefixAlways$",
    )
    made["b"].rename_input("x", "z")
    refused(made.values(), lambda: merge(made, io_names="keep"), "both have an output named 'y'")
    made["b"].rename_output("y", "w")
    kept, renames = merge(made, io_names="keep")
    assert (kept.input_names(), kept.output_names()) == (["x", "u", "z"], ["y", "v", "w"])
    assert {item.kind for item in renames} == {NameKind.Node}


def test_values_keep_the_names_that_they_have():
    graph = traced(rectify, "x")
    graph.rename_node(graph.node("Relu_1"), "first")
    merged, _ = merge({"p": graph})
    assert merged.node("p/first").output(0).name == "Relu_1_0"
    part = extract(merged, [merged.node("x").output(0)], [merged.node("p/first").output(0)])
    assert part.node("p/first").output(0).name == "Relu_1_0"


def test_names_that_would_meet_are_refused():
    first = traced(rectify, "b/Relu_1")
    second = traced(rectify, "x", outputs=("z",))
    refused([first, second], lambda: merge({"a": first, "b": second}), "two nodes would be named")
    first, second, third = traced(rectify, "x"), traced(rectify, "x"), traced(rectify, "a/x")
    refused(
        [first], lambda: merge([("a", first), ("b", second), ("c", third)]), "two inputs would be"
    )


# ------------------------------------------------------------------ connections
def test_a_chain_computes_what_the_parts_compute_one_after_another():
    merged, _ = merge(
        [("head", traced(twice, "h")), ("encoder", traced(rectify, "x", outputs=("h",)))],
        [("encoder.h", "head.h")],
    )
    assert [node.name for node in merged.nodes()] == ["x", "encoder/Relu_1", "head/Add_1"]
    x = draw(0, 2, 3)
    assert by_name(merged, {"x": x}) == {"y": bits(twice(rectify([x]))[0])}


def test_one_output_feeds_many_inputs_and_parts_feed_each_other():
    """The parts form a cycle, their operators do not."""
    a = traced(lambda t: [crt.relu(t[0]), crt.neg(t[1])], "x", "back", outputs=("out", "y"))
    b = traced(lambda t: [t[0] * t[1]], "p", "q", outputs=("z",))
    merged, _ = merge({"a": a, "b": b}, [("a.out", "b.p"), ("a.out", "b.q"), ("b.z", "a.back")])
    assert (merged.input_names(), merged.output_names()) == (["x"], ["y"])
    x = draw(1, 2, 3)
    assert by_name(merged, {"x": x}) == {"y": bits(crt.neg(crt.relu(x) * crt.relu(x)))}


def test_values_pass_through():
    a = traced(lambda t: [t[0], crt.relu(t[0])], "x", outputs=("same", "r"))
    b = traced(lambda t: [t[0], crt.neg(t[0])], "x", outputs=("same", "n"))
    merged, _ = merge({"a": a, "b": b}, [("a.same", "b.x")])
    x = draw(2, 2, 3)
    wanted = {"r": crt.relu(x), "same": x, "n": crt.neg(x)}
    assert by_name(merged, {"x": x}) == {name: bits(value) for name, value in wanted.items()}
    a, b = traced(lambda t: [t[0]], "x"), traced(lambda t: [t[0]], "x")
    refused([a, b], lambda: merge({"a": a, "b": b}, [("a.y", "b.x"), ("b.y", "a.x")]), "own result")


def test_connection_refusals():
    a, b = traced(rectify, "x"), traced(pool, "x", outputs=("z",))
    whole = traced(lambda t: [t[0] + 1], spec("i", dtype=crt.int32))
    flat = traced(rectify, spec("f", (6,)))
    parts = {"a": a, "b": b, "c": whole, "d": flat}
    graphs = list(parts.values())

    def no(*pairs):
        return lambda: merge(parts, pairs)

    refused(graphs, no(("a.y", "b.q")), "^merge: part 'b' has no input 'q'$")
    refused(graphs, no(("a.q", "b.x")), "^merge: part 'a' has no output 'q'$")
    refused(graphs, no(("z.y", "b.x")), "'z.y' names no part and value; the parts are")
    refused(graphs, no(("a", "b.x")), "'a' names no part")
    refused(graphs, no(("a.y", "b.x"), ("c.y", "b.x")), "a.y -> b.x and c.y -> b.x feed one input")
    refused(graphs, no(("a.y", "c.i")), "a.y -> c.i joins float32 to int32")
    refused(graphs, no(("a.y", "d.f")), "a.y -> d.f joins 2 dims to 1")
    refused(graphs, no(("b.z", "a.x")), "b.z -> a.x joins the sizes 1 and 3")
    refused(graphs, no(("a.y", "a.x")), "close a cycle")
    refused(graphs, no(("a.y", 3)), "joins two strings", error=TypeError)
    refused(graphs, no(("a.y", "b.x", "c.i")), "must hold pairs", error=TypeError)
    refused(graphs, lambda: merge(parts, io_names="some"), "io_names must be one of")
    refused(graphs, lambda: merge(parts, cross_device="some"), "cross_device must be one of")
    refused(graphs, lambda: merge({}), "no part to merge")
    refused(graphs, lambda: merge([("a", a), ("a", b)]), "two parts have the name 'a'")
    refused(graphs, lambda: merge([("a", a), ("b", a)]), "one graph stands for two parts")
    refused(graphs, lambda: merge({"a/b": a}), "'a/b' names no part")
    refused(graphs, lambda: merge({"a.b": a}), "'a.b' names no part")
    refused(graphs, lambda: merge({"": a}), "names no part")
    refused(graphs, lambda: merge({3: a}), "must be a str", error=TypeError)
    refused(graphs, lambda: merge({"a": rectify}), "must be a ModelGraph", error=TypeError)
    flat.finalize()
    refused(
        graphs[:3],
        no(("a.y", "b.x")),
        r"^merge: part 'd' is finalized; merge before finalize\(\)$",
        "FAILED_PRECONDITION",
    )
    merge({"a": a})
    with pytest.raises(InvalidArgumentError, match="part 'a' no longer exists"):
        merge({"a": a, "b": b})


# ------------------------------------------------------------------ sizes
def test_sizes_of_one_name_stay_apart_until_they_are_connected():
    def part(outputs):
        return traced(rectify, spec("x", (-1, 3), names=["n", None]), outputs=outputs)

    merged, _ = merge({"a": part(["p"]), "b": part(["q"])})
    names = [merged.node(name).output(0).spec().dim_names[0] for name in merged.input_names()]
    assert names == ["a/n", "b/n"]
    merged.finalize()
    shapes = [tuple(item.shape) for item in merged.run([crt.ones(2, 3), crt.ones(5, 3)])]
    assert shapes == [(2, 3), (5, 3)]
    merged, _ = merge({"a": part(["p"]), "b": part(["q"])}, [("a.p", "b.x")])
    assert merged.outputs() == [("q", crt.float32, [-1, 3])]
    assert merged.node("b/Relu_1").output(0).spec().dim_names == ("n", None)
    x = draw(3, 4, 3)
    assert by_name(merged, {"x": x}) == {"q": bits(crt.relu(x))}


@pytest.mark.parametrize("fixed", ["source", "target"])
def test_a_dynamic_size_takes_the_fixed_one(fixed):
    dynamic, whole = spec("x", (-1, 3)), spec("x", (4, 3))
    first = traced(rectify, whole if fixed == "source" else dynamic)
    model = lambda t: [crt.reshape(t[0], (t[0].shape[0] * 3,)) * 2]  # noqa: E731
    second = traced(model, dynamic if fixed == "source" else whole)
    merged, _ = merge({"a": first, "b": second}, [("a.y", "b.x")])
    assert merged.inputs() == [("x", crt.float32, [4, 3])]
    assert merged.outputs() == [("y", crt.float32, [12])]
    x = draw(4, 4, 3)
    assert by_name(merged, {"x": x}) == {"y": bits(model(rectify([x]))[0])}


def test_an_expression_enters_a_dynamic_size():
    first = traced(lambda t: [crt.reshape(t[0], (-1,))], spec("x", (-1, 3)))
    second = traced(lambda t: [crt.cat([t[0], t[1]], 0)], spec("a", (-1,)), spec("b", (-1,)))
    merged, _ = merge({"f": first, "s": second}, [("f.y", "s.a")])
    x, b = draw(5, 4, 3), draw(6, 7)
    wanted = {"y": bits(crt.cat([crt.reshape(x, (-1,)), b], 0))}
    assert by_name(merged, {"x": x, "b": b}) == wanted


def test_sizes_that_contradict_each_other():
    first = traced(lambda t: [crt.cat([t[0], t[0]], 0)], spec("x", (-1, 3)))
    second = traced(rectify, spec("x", (5, 3)))
    graphs = [first, second]
    refused(
        graphs,
        lambda: merge({"a": first, "b": second}, [("a.y", "b.x")]),
        r"a.y -> b.x joins the sizes 2\*a.x_dim0 and 5, which are not known to be equal",
    )
    square = traced(
        lambda t: [t[0] + crt.transpose(t[0], 0, 1)], spec("x", (-1, -1), names=["n", "n"])
    )
    source = traced(rectify, "x")
    refused(
        [square, source],
        lambda: merge({"a": source, "b": square}, [("a.y", "b.x")]),
        "joins the sizes 3 and 2",
    )


# ------------------------------------------------------------------ constants and states
def test_constants_over_the_same_bytes_become_one():
    weight = draw(7, 3, 3)
    row = weight[0]
    model = lambda t: [crt.matmul(t[0], weight)]  # noqa: E731
    parts = {
        "a": traced(model, "x"),
        "b": traced(model, "x"),
        "c": traced(lambda t: [t[0] * row], "x"),
    }
    merged, _ = merge(parts, [("a.y", "b.x"), ("b.y", "c.x")])
    assert len(merged.constants()) == 2  # the weight, and its first row
    x = draw(8, 2, 3)
    wanted = (x @ weight @ weight) * row
    assert by_name(merged, {"x": x}) == {"y": bits(wanted)}


def counter(state):
    def model(t):
        state.add_(t[0])
        return [state * 2]

    return model


def test_states_are_kept():
    first, second = crt.zeros(2, 3), crt.zeros(2, 3)
    merged, _ = merge({"a": traced(counter(first), "x"), "b": traced(counter(second), "x")})
    assert merged.output_names() == ["a/y", "a/state_out_0", "b/y", "b/state_out_0"]
    merged.finalize()
    for _ in range(3):
        merged.run({"a/x": crt.ones(2, 3), "b/x": crt.full((2, 3), 2.0)})
    assert first.tolist() == [[3.0] * 3] * 2 and second.tolist() == [[6.0] * 3] * 2
    a, b = traced(counter(first), "x"), traced(counter(first), "x")
    refused(
        [a, b], lambda: merge({"a": a, "b": b}), "'a' and 'b' both write to one captured tensor"
    )


def test_a_connected_state_is_written_all_the_same():
    state = crt.zeros(2, 3)
    a, b = traced(counter(state), "x"), traced(twice, "h", outputs=("z",))
    merged, _ = merge({"a": a, "b": b}, [("a.state_out_0", "b.h")])
    merged.finalize()
    for _ in range(2):
        result = merged.run([crt.ones(2, 3)])
    assert state.tolist() == [[2.0] * 3] * 2
    assert merged.output_names() == ["y", "z"] and result[1].tolist() == [[4.0] * 3] * 2


# ------------------------------------------------------------------ merge into a graph
def test_merge_into_keeps_the_names_of_the_first():
    first = traced(lambda t: [crt.relu(t[0]), t[0] * 2], "x", outputs=("h", "y"))
    second = traced(lambda t: [crt.relu(t[0]) - t[1]], "h", "x", outputs=("y",))
    before = first.node("Relu_1")
    renames = first.merge(second, [("h", "h")])
    assert [(item.part, item.kind.value, item.from_, item.to) for item in renames] == [
        ("second", "input", "x", "x_1"),
        ("second", "node", "Relu_1", "Relu_1_1"),
        ("second", "output", "y", "y_1"),
    ]
    assert before.check() is None and second.consumed and second.nodes() == []
    x, other = draw(9, 2, 3), draw(10, 2, 3)
    wanted = {"y": x * 2, "y_1": crt.relu(crt.relu(x)) - other}
    found = by_name(first, {"x": x, "x_1": other})
    assert found == {name: bits(value) for name, value in wanted.items()}


def test_merge_into_fixes_sizes_on_either_side():
    first = traced(lambda t: [crt.reshape(t[0], (-1, 3))], spec("x", (-1, 3)), outputs=("h",))
    second = traced(lambda t: [t[0] * t[1]], spec("h", (4, 3)), spec("z", (4, 3)), outputs=("y",))
    refused([first, second], lambda: first.merge(second, {"h": "z", "q": "h"}), "no output 'q'")
    first.merge(second, {"h": "h"})
    assert first.inputs()[0] == ("x", crt.float32, [4, 3])
    x = draw(11, 4, 3)
    assert by_name(first, {"x": x, "z": x}) == {"y": bits(x * x)}


def test_merge_into_refusals():
    first, second = traced(rectify, "x"), traced(pool, "x")
    graphs = [first, second]
    refused(graphs, lambda: first.merge(first), "into itself")
    refused(graphs, lambda: first.merge(second, [("y", "q")]), "part 'second' has no input 'q'")
    refused(graphs, lambda: first.merge(second, [("q", "x")]), "part 'first' has no output 'q'")
    refused(graphs, lambda: first.merge(second, [("y", 1)]), "joins names", error=TypeError)
    refused(graphs, lambda: first.merge("x"), "must be a ModelGraph", error=TypeError)
    loop = traced(lambda t: [t[0]], "x")
    refused([first, loop], lambda: loop.merge(first, [("y", "x"), ("y", "x")]), "feed one input")
    second.finalize()
    refused([first], lambda: first.merge(second), "second is finalized", "FAILED_PRECONDITION")


# ------------------------------------------------------------------ devices
def test_a_connection_between_devices_moves_its_value():
    def parts():
        made = {
            "encoder": traced(rectify, "x", outputs=("h",)),
            "head": traced(lambda t: [t[0] + t[1]], "h", "g"),
        }
        made["head"].to("meta")
        return made

    links = [("encoder.h", "head.h"), ("encoder.h", "head.g")]
    made = parts()
    refused(
        made.values(),
        lambda: merge(made, links, cross_device="refuse"),
        "encoder.h -> head.h goes from cpu to meta, which cross_device='refuse' refuses",
    )
    merged, _ = merge(made, links)
    check_legal(merged)
    (move,) = merged.find_nodes(OpCode.Move)  # one for both inputs
    assert move.attributes == {"device": "meta"}
    assert move.input(0).producer().name == "encoder/Relu_1"
    add = merged.node("head/Add_1")
    assert [value.producer() for value in add.inputs] == [move, move]
    devices = [merged.meta(merged.results(node)[0])[2] for node in merged.node_ids()]
    assert len(set(devices)) == 2 and devices[0] == devices[1] != devices[2] == devices[3]
    # Parts on one device stay together on it.
    made = parts()
    made["encoder"].to("meta")
    merged, _ = merge(made, links)
    assert merged._placed == crt.Device("meta") and not merged.find_nodes(OpCode.Move)


@pytest.fixture
def second_device():
    before = plugins._registry
    reference_backend.install()
    yield crt.Device("reference")
    plugins._registry = before


def test_a_graph_runs_on_two_devices(second_device):
    def parts():
        made = {"encoder": traced(rectify, "x", outputs=("h",)), "head": traced(twice, "h")}
        made["head"].to(second_device)
        return made

    links = [("encoder.h", "head.h")]
    merged, _ = merge(parts(), links)
    check_legal(merged)
    merged.finalize()
    x = draw(21, 2, 3)
    (y,) = merged.run([x])
    assert y.device == second_device and bits(y.to("cpu")) == bits(twice(rectify([x]))[0])
    made = parts()
    text = "encoder.h -> head.h goes from cpu to reference"
    refused(made.values(), lambda: merge(made, links, cross_device="refuse"), text)
    made["head"].merge(made["encoder"], [("y", "x")])  # and back
    made["head"].finalize()
    (h,) = made["head"].run([x.to(second_device)])
    assert h.device == crt.Device("cpu") and bits(h) == bits(rectify(twice([x]))[0])


# ------------------------------------------------------------------ split
def test_split_hands_graph_inputs_on():
    graph = traced(lambda t: [crt.relu(t[0]) + t[0] - t[1]], "x", "w")
    parts, links = split(graph, lambda node: "ab"[node.op_code == OpCode.Sub])
    assert parts["a"].input_names() == ["x"] and parts["b"].input_names() == ["w", "Add_2_0"]
    assert links == [("a.Add_2_0", "b.Add_2_0")]
    graph = traced(lambda t: [crt.relu(t[0]), t[0] * 2], "x", outputs=("x", "y"))
    parts, links = split(graph, lambda node: node.op_code.name)
    assert parts["Relu"].output_names() == ["x", "x_1"]  # an output has the name already
    assert links == [("Relu.x_1", "Mul.x_1")]
    merged, _ = merge(parts, links)
    assert (merged.input_names(), merged.output_names()) == (["x"], ["x", "y"])


def test_a_value_that_crosses_is_still_returned():
    graph = traced(
        lambda t: [crt.relu(t[0]), crt.neg(crt.relu(t[0]))][::-1], "x", outputs=("n", "r")
    )
    graph.replace_all_uses_with(graph.node("Relu_2").output(0), graph.node("Relu_1").output(0))
    parts, links = split(graph, lambda node: "b" if node.op_code == OpCode.Neg else "a")
    assert parts["a"].output_names() == ["r", "Relu_1_0"]
    merged, _ = merge(parts, links)
    x = draw(12, 2, 3)
    wanted = {"n": bits(crt.neg(crt.relu(x))), "r": bits(crt.relu(x))}
    assert by_name(merged, {"x": x}) == wanted


def test_cuts_at_the_ends():
    def graph():
        return traced(lambda t: [crt.neg(crt.relu(t[0]))], "x")

    source = graph()
    parts, links = split(source, ValueCut([source.node("x").output(0)], 24))
    assert parts["before"].nodes()[0].name == "x" and len(parts["before"].nodes()) == 1
    merged, _ = merge(parts, links)
    assert [node.name for node in merged.nodes()] == ["x", "after/Relu_1", "after/Neg_2"]
    source = graph()
    parts, links = split(source, ValueCut([source.node("Neg_2").output(0)], 24))
    assert parts["after"].input_names() == ["Neg_2_0"] and parts["after"].output_names() == ["y"]
    x = draw(13, 2, 3)
    assert by_name(merge(parts, links)[0], {"x": x}) == {"y": bits(crt.neg(crt.relu(x)))}


def test_split_refusals():
    graph = traced(pool, "x")
    other = traced(pool, "x")
    graphs = [graph, other]

    class Boom(Exception):
        pass

    def fails(node):
        if node.op_code == OpCode.Neg:
            raise Boom
        return "first"

    refused(graphs, lambda: split(graph, fails), None, error=Boom)
    refused(graphs, lambda: split(graph, lambda node: ""), "'' names no part")
    refused(graphs, lambda: split(graph, lambda node: "a/b"), "'a/b' names no part")
    refused(graphs, lambda: split(graph, lambda node: "a.b"), "'a.b' names no part")
    refused(graphs, lambda: split(graph, lambda node: 3), "must be a str", error=TypeError)
    refused(graphs, lambda: split(graph, "x"), "takes a ValueCut or a function", error=TypeError)
    refused(graphs, lambda: split(graph, ValueCut([], 0)), "holds no value")
    refused(graphs, lambda: split(graph, other.min_value_cut()), "another graph")
    refused(
        graphs,
        lambda: split(graph, lambda node: "ab"[node.op_code == OpCode.Sum]),
        r"the parts \['a', 'b'\] feed each other",
    )
    refused([graph], lambda: split(rectify, fails), "must be a ModelGraph", error=TypeError)
    empty = traced(lambda t: [t[0]], "x")
    refused([empty], lambda: split(empty, lambda node: "a"), "no operator")
    graph.finalize()
    with pytest.raises(InvalidArgumentError, match="the graph is finalized; split before") as found:
        split(graph, lambda node: "a")
    assert found.value.code_name == "FAILED_PRECONDITION"


def test_writes_stay_with_what_shares_their_bytes():
    def model(t):
        h = crt.relu(t[0])
        v = h.view(6)
        h.add_(1)
        return [v * 2]

    graph = traced(model, "x")
    assert len(graph.nodes()) > 4
    for name in [node.name for node in graph.nodes() if node.op_code is not None][:-1]:
        part = lambda node, name=name: "first" if node.name == name else "second"  # noqa: E731
        before = form(graph)
        with pytest.raises(InvalidArgumentError, match=r"^split: "):
            split(graph, part)
        assert form(graph) == before
    last = graph.nodes()[-1].name
    parts, links = split(graph, lambda node: "b" if node.name == last else "a")
    x = draw(14, 2, 3)
    assert by_name(merge(parts, links)[0], {"x": x}) == {"y": bits(model([x])[0])}


def test_a_state_stays_with_its_readers():
    state = crt.zeros(2, 3)

    def model(t):
        early = state + 1
        state.add_(t[0])
        return [early * 2]

    graph = traced(model, "x")
    refused(
        [graph],
        lambda: split(graph, lambda node: "ab"[node.name == graph.nodes()[1].name]),
        "writes to bytes that",
    )
    last = graph.find_nodes(OpCode.Mul)[-1].name
    parts, links = split(graph, lambda node: "b" if node.name == last else "a")
    assert "state_out_0" in parts["a"].output_names()
    for part in parts.values():
        part.finalize()
    for turn in range(2):
        fed = dict(zip(parts["a"].output_names(), parts["a"].run([crt.ones(2, 3)]), strict=True))
        (result,) = parts["b"].run(
            {name.partition(".")[2]: fed[name.partition(".")[2]] for name, _ in links}
        )
        assert result.tolist() == [[2.0 * (turn + 1)] * 3] * 2
    assert state.tolist() == [[2.0] * 3] * 2


def test_a_part_runs_alone_where_a_size_is_an_expression():
    def model(t):
        return [crt.relu(crt.reshape(t[0], (-1,))) * 2]

    graph = traced(model, spec("x", (-1, 3)))
    parts, _links = split(graph, lambda node: "a" if node.op_code == OpCode.Reshape else "b")
    x = draw(15, 4, 3)
    wanted = bits(model([x])[0])
    graph = traced(model, spec("x", (-1, 3)))
    again, _ = merge(*split(graph, lambda node: node.op_code.name))
    assert by_name(again, {"x": x}) == {"y": wanted}
    for part in parts.values():
        check_legal(part)
        part.finalize()
    (middle,) = parts["a"].run([x])
    (result,) = parts["b"].run([middle])
    assert bits(result) == wanted


# ------------------------------------------------------------------ extract
def test_extract_names_and_refusals():
    graph = traced(
        lambda t: [crt.neg(crt.relu(t[0])) + t[1], crt.relu(t[0])], "x", "b", outputs=("y", "r")
    )
    x, b = graph.nodes()[:2]
    relu, neg, add = (graph.find_nodes(code)[0] for code in (OpCode.Relu, OpCode.Neg, OpCode.Add))
    value = {
        "x": x.output(0),
        "b": b.output(0),
        "r": relu.output(0),
        "n": neg.output(0),
        "y": add.output(0),
    }
    other = traced(rectify, "x")
    graphs = [graph, other]
    take = lambda inputs, outputs: lambda: extract(graph, inputs, outputs)  # noqa: E731
    refused(graphs, take([value["x"]], [value["y"]]), "need the graph input 'b'")
    refused(graphs, take([], [value["n"]]), "need the graph input 'x'")
    refused(graphs, take([value["x"]], []), "no output to compute")
    refused(graphs, take([value["x"]] * 2, [value["n"]]), "'x' is given twice as an input")
    refused(graphs, take([value["x"]], [value["n"]] * 2), "is given twice as an output")
    refused(graphs, take([other.nodes()[0].output(0)], [value["n"]]), "another graph")
    refused(graphs, take([x], [value["n"]]), "expected a Value", error=TypeError)
    neg_name = value["n"].name
    part = extract(graph, [value["b"], value["n"]], [value["y"], value["n"]])
    assert part.input_names() == ["b", neg_name]
    assert part.output_names()[0] == "y" and len(part.nodes()) == 3
    assert graph.consumed and graph.input_names() == []
    with pytest.raises(
        InvalidArgumentError, match="no longer in its graph: that graph no longer ex"
    ):
        value["x"].check()
    p, q = draw(16, 2, 3), draw(17, 2, 3)
    part.finalize()
    first, second = part.run([p, q])
    assert bits(first) == bits(q + p) and bits(second) == bits(q)


def test_extract_of_one_of_several_results():
    def model(t):
        values, at = crt.sort(t[0], dim=1)
        return [values * 2, at]

    graph = traced(model, "x", outputs=("v", "i"))
    (sort,) = graph.find_nodes(OpCode.Sort)
    (mul,) = graph.find_nodes(OpCode.Mul)
    part = extract(
        graph, [graph.node("x").output(0), sort.output(0)], [mul.output(0), sort.output(1)]
    )
    x, values = draw(18, 2, 3), draw(19, 2, 3)
    check_legal(part)
    part.finalize()
    first, second = part.run([x, values])
    assert bits(first) == bits(values * 2) and bits(second) == bits(crt.sort(x, dim=1)[1])


def test_extract_refuses_to_part_a_write():
    def model(t):
        h = crt.relu(t[0])
        h.add_(1)
        return [h * 2]

    graph = traced(model, "x")
    relu, mul = graph.node("Relu_1").output(0), graph.find_nodes(OpCode.Mul)[-1].output(0)
    refused([graph], lambda: extract(graph, [relu], [mul]), "writes to the bytes of 'Relu_1_0'")
    refused(
        [graph], lambda: extract(graph, [graph.node("x").output(0)], [relu]), "writes to the bytes"
    )


# ------------------------------------------------------------------ consumption
def test_a_transform_keeps_its_graph():
    graph, other = traced(rectify, "x"), traced(rectify, "x")
    calls = {
        "merge": lambda g: merge({"a": g, "b": other}),
        "split": lambda g: split(g, lambda node: "a"),
        "extract": lambda g: extract(g, [], [g.nodes()[0].output(0)]),
    }
    for name, call in calls.items():
        transform = Transform("takes", lambda g, call=call: call(g) and None)
        refused(
            [graph, other],
            lambda transform=transform: graph.optimize([transform]),
            f"^{name}: the transform 'takes' is running",
            "FAILED_PRECONDITION",
        )
    found = []

    def elsewhere(g):
        def run():
            try:
                merge({"a": g})
            except InvalidArgumentError as error:
                found.append(error.code_name)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    graph.optimize([Transform("elsewhere", elsewhere)])
    assert found == ["FAILED_PRECONDITION"]


def test_what_a_merge_consumed_is_empty():
    graph = traced(lambda t: [t[0] * draw(20, 3)], "x")
    node, value, edge = graph.nodes()[1], graph.nodes()[1].output(0), graph.edges()[0]
    merge({"a": graph})
    assert graph.input_names() == [] == graph.output_names() == graph.nodes() == graph.constants()
    assert not (graph._calls or graph._constants)
    for view in (node, value, edge):
        with pytest.raises(
            InvalidArgumentError, match=r"that graph no longer exists \(a merge, a spl"
        ):
            view.check()
    for call in (graph.finalize, lambda: graph.to("cpu"), lambda: graph.run([]), graph.optimize):
        with pytest.raises(InvalidArgumentError, match="no longer exists"):
            call()
    with pytest.raises(InvalidArgumentError, match="no longer exists"):
        graph.add_input(spec("z"))


# ------------------------------------------------------------------ at random
BINARY = [crt.add, crt.sub, crt.mul, crt.maximum]
UNARY = [crt.relu, crt.neg, crt.tanh, crt.sigmoid]


def random_model(rng, inputs, operators):
    """A function over elementwise operators, the same at every call."""
    weights = [draw(rng.randrange(1000), 2, 3) for _ in range(2)]
    steps = []
    for index in range(operators):
        known = inputs + index
        near = lambda known=known: rng.randrange(max(0, known - 5), known)  # noqa: E731
        if rng.random() < 0.4:
            steps.append((rng.choice(UNARY), near()))
        elif rng.random() < 0.15:
            steps.append((rng.choice(BINARY), near(), rng.choice(weights)))
        else:
            steps.append((rng.choice(BINARY), near(), near()))
    returned = sorted({rng.randrange(inputs, inputs + operators) for _ in range(rng.randint(1, 3))})

    def model(t):
        values = list(t)
        for op, *reads in steps:
            values.append(op(*(values[r] if isinstance(r, int) else r for r in reads)))
        return [values[index] for index in returned]

    return model, len(returned)


@pytest.mark.parametrize("seed", range(50))
def test_random_graphs_split_extracted_and_merged(seed):
    rng = random.Random(seed)
    inputs, operators = rng.randint(1, 3), rng.randint(2, 14)
    model, count = random_model(rng, inputs, operators)
    names = [f"x{index}" for index in range(inputs)]
    outputs = [f"y{index}" for index in range(count)]
    feeds = {name: draw(seed * 10 + index, 2, 3) for index, name in enumerate(names)}
    wanted = dict(zip(outputs, map(bits, model(list(feeds.values()))), strict=True))

    def graph():
        return traced(model, *names, outputs=outputs)

    # By the cheapest cut, merged again, and run part by part.
    source = graph()
    merged, _ = merge(*split(source, source.min_value_cut()))
    assert set(merged.input_names()) == set(names)
    assert by_name(merged, feeds) == wanted

    # By ranges of the order of nodes: every connection runs forward.
    source = graph()
    bounds = sorted(rng.randint(0, operators) for _ in range(2))
    order = {node.name: at for at, node in enumerate(n for n in source.nodes() if n.op_code)}
    parts, links = split(
        source, lambda node: f"part{sum(order[node.name] >= bound for bound in bounds)}"
    )
    known = dict(feeds)
    carried = {target: source for source, target in links}
    places = {name: at for at, name in enumerate(parts)}
    assert all(places[s.split(".")[0]] < places[t.split(".")[0]] for s, t in links)
    copies = {}
    for name, part in parts.items():
        check_legal(part)
        copies[name] = merge({"p": part}, io_names="keep")[0]  # parts are graphs like others
        values = {
            label: known[carried.get(f"{name}.{label}", label)]
            for label in copies[name].input_names()
        }
        copies[name].finalize()
        results = copies[name].run(values)
        for label, result in zip(copies[name].output_names(), results, strict=True):
            known[f"{name}.{label}"] = result
            known.setdefault(label, result)
    assert {name: bits(known[name]) for name in outputs} == wanted

    # What computes one output, from the inputs of the graph.
    source = graph()
    chosen = rng.randrange(count)
    values = dict(source.output_list())
    part = extract(
        source,
        [source.node(name).output(0) for name in names],
        [source.value_view(values[outputs[chosen]])],
    )
    assert by_name(part, feeds) == {outputs[chosen]: wanted[outputs[chosen]]}

    # Side by side, and one after another.
    first, second = graph(), graph()
    links = [(f"a.{outputs[at % count]}", f"b.{name}") for at, name in enumerate(names)]
    merged, _ = merge({"a": first, "b": second}, links)
    through = model([model(list(feeds.values()))[at % count] for at in range(inputs)])
    found = by_name(merged, feeds)
    for name, value in zip(outputs, through, strict=True):
        assert found.get(f"b/{name}", found.get(name)) == bits(value)


def test_traced_sizes_come_along():
    def graph():
        example = {"x": crt.ones(4, 3)}["x"]
        return crt.trace(
            lambda x: crt.neg(crt.relu(x)),
            example_inputs=(example,),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "n"}},
        ).graph

    source = graph()
    assert source._pinned == {"n": 4}
    parts, links = split(source, source.min_value_cut(after=[source.nodes()[-1]]))
    assert {name: part._pinned for name, part in parts.items()} == {
        name: {"n": 4} for name in parts
    }
    merged, _ = merge(parts, links)
    assert merged._pinned == {"n": 4}
    merged, _ = merge({"a": merged, "b": graph()})
    assert merged._pinned == {"a/n": 4, "b/n": 4}


def control_model(t):
    scale = t[0].sum() > 0
    (branch,) = cond(scale, lambda a: crt.relu(a) * 2, lambda a: crt.neg(a), [t[0]])
    (total,) = loop(3, None, lambda i, go, a: (go, a + branch), [t[0]])
    return [total, crt.neg(branch)]


@pytest.mark.parametrize("rows", [4, -1])
def test_nodes_with_bodies_come_along(rows):
    def graph():
        return traced(control_model, spec("x", (-1, 3)), outputs=("y", "z"))

    x = draw(22, 4, 3)
    feeds = [{"x": x}, {"x": -x}]
    wanted = [dict(zip("yz", map(bits, control_model([feed["x"]])), strict=True)) for feed in feeds]
    source = graph()
    kinds = {OpCode.If: "b", OpCode.Loop: "c"}
    part_of = {node.name: kinds.get(node.op_code) for node in source.nodes()}
    (branch,) = source.find_nodes(OpCode.If)
    late = {node.name for node in source.descendants(branch)}
    parts, links = split(
        source, lambda node: part_of[node.name] or ("d" if node.name in late else "a")
    )
    assert list(parts)[0] == "a" and set(parts) == {"a", "b", "c", "d"}
    merged, _ = merge(parts, links)
    if rows > 0:  # a fixed size, also for the bodies
        first = traced(rectify, spec("in", (rows, 3)), outputs=("o",))
        merged, _ = merge({"first": first, "then": merged}, [("first.o", "then.x")])
        assert merged.outputs()[0][2] == [rows, 3]
        results = by_name(merged, {"in": x})
        assert list(results.values()) == [bits(value) for value in control_model(rectify([x]))]
        return
    merged.finalize()
    for feed, want in zip(feeds, wanted, strict=True):
        results = dict(zip(merged.output_names(), map(bits, merged.run(feed)), strict=True))
        assert results == want
    source = graph()
    value = source.value_view(dict(source.output_list())["y"])
    part = extract(source, [source.node("x").output(0)], [value])
    part.finalize()
    for feed, want in zip(feeds, wanted, strict=True):
        assert bits(part.run(feed)[0]) == want["y"]


def test_insert_takes_control_flow():
    graph = traced(rectify, "x")
    x = graph.node("x").output(0)

    def fn(t):
        return cond(t[0].sum() > 0, lambda a: a * 2, lambda a: a * 3, [t[0]])

    (made,) = graph.insert(fn, [x])
    graph.add_output(made, "z")
    check_legal(graph)
    graph.finalize()
    for value in (crt.ones(2, 3), -crt.ones(2, 3)):
        assert bits(graph.run([value])[1]) == bits(fn([value])[0])
