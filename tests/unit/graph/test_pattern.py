"""Patterns, the occurrences they find, and rules that replace them."""

from __future__ import annotations

import itertools
import random

import networkx as nx
import pytest

import clika_runtime as crt
from clika_runtime.graph import OpCode, Pattern, RewriteMatch, Transform, transforms
from clika_runtime.graph.legal import check_legal

from .traced_graphs import codes, draw, form, results, trace

X = draw(1, 2, 3)


def found(pattern, graph):
    return [
        [graph.node_name(node) if node >= 0 else None for node in match]
        for match in pattern.find(graph)
    ]


def diamond(x):
    y = crt.exp(x)
    return crt.relu(y) + crt.neg(y)


def test_patterns_are_checked():
    pattern = Pattern()
    with pytest.raises(crt.InvalidArgumentError, match="root"):
        pattern.add_node(OpCode.Add, optional=True)
    add, neg = pattern.add_node(OpCode.Add), pattern.add_node(OpCode.Neg)
    pattern.add_edge(neg, add, to_port=1)
    for arguments in ((0, 2), (-1, 0), (0, "x"), (neg, add, 0, 1), (add, neg), (add, add, 0, 5)):
        with pytest.raises(crt.InvalidArgumentError):
            pattern.add_edge(*arguments)
    with pytest.raises(crt.InvalidArgumentError):
        pattern.add_edge(neg, add, -1)
    for code in ("add", None, OpCode):
        with pytest.raises(TypeError):
            pattern.add_node(code)
    assert repr(pattern) == "Pattern(Add, Neg; 1:0 -> 0:1)"
    assert repr(Pattern.chain([OpCode.Exp, OpCode.Neg])) == repr(Pattern([OpCode.Exp, OpCode.Neg]))


def test_chains():
    graph = trace(lambda x: crt.relu(crt.relu(crt.relu(x))) + crt.neg(x), X)
    pair = Pattern([OpCode.Relu, OpCode.Relu])
    assert found(pair, graph) == [["Relu_1", "Relu_2"], ["Relu_2", "Relu_3"]]
    assert found(Pattern([OpCode.Relu] * 3), graph) == [["Relu_1", "Relu_2", "Relu_3"]]
    assert found(Pattern([OpCode.Relu] * 4), graph) == []
    assert found(Pattern([OpCode.Neg, OpCode.Add]), graph) == []  # it feeds input 1
    assert found(Pattern([OpCode.Relu, OpCode.Add]), graph) == [["Relu_3", "Add_5"]]
    assert found(Pattern(), graph) == []


def test_shapes_other_than_chains():
    pattern = Pattern()
    add, exp, relu, neg = (
        pattern.add_node(code) for code in (OpCode.Add, OpCode.Exp, OpCode.Relu, OpCode.Neg)
    )
    pattern.add_edge(exp, relu)
    pattern.add_edge(exp, neg)
    pattern.add_edge(relu, add)
    pattern.add_edge(neg, add, to_port=1)
    assert found(pattern, trace(diamond, X)) == [["Add_4", "Exp_1", "Relu_2", "Neg_3"]]
    apart = trace(lambda x: crt.relu(crt.exp(x)) + crt.neg(crt.exp(x)), X)
    assert found(pattern, apart) == []
    loose = Pattern()
    loose.add_node(OpCode.Relu)
    loose.add_node(OpCode.Exp)
    assert found(loose, apart) == [["Relu_2", "Exp_1"], ["Relu_2", "Exp_3"]]


def test_an_output_port():
    pattern = Pattern()
    top, neg = pattern.add_node(OpCode.Topk), pattern.add_node(OpCode.Neg)
    pattern.add_edge(top, neg, from_port=1)
    assert found(pattern, trace(lambda x: [crt.neg(t) for t in crt.topk(x, 2)], X)) == [
        ["Topk_1", "Neg_3"]
    ]


def test_optional_nodes():
    pattern = Pattern()
    exp = pattern.add_node(OpCode.Exp)
    relu = pattern.add_node(OpCode.Relu, optional=True)
    neg = pattern.add_node(OpCode.Neg)
    pattern.add_edge(exp, relu)
    pattern.add_edge(relu, neg)
    assert found(pattern, trace(lambda x: crt.neg(crt.relu(crt.exp(x))), X)) == [
        ["Exp_1", "Relu_2", "Neg_3"]
    ]
    assert found(pattern, trace(lambda x: crt.neg(crt.exp(x)), X)) == [["Exp_1", None, "Neg_2"]]
    leaf = Pattern([OpCode.Exp])
    leaf.add_edge(0, leaf.add_node(OpCode.Tanh, optional=True))
    both = trace(lambda x: [crt.exp(x).tanh(), x.exp()], X)
    assert found(leaf, both) == [["Exp_1", "Tanh_2"], ["Exp_3", None]]


@pytest.mark.parametrize("seed", range(30))
def test_the_search_finds_what_networkx_finds(seed):
    """Against every monomorphism that networkx's matcher gives."""
    rng = random.Random(seed)

    def fn(x):
        values = [x]
        for _ in range(12):
            if rng.random() < 0.5:
                values.append(rng.choice([crt.relu, crt.neg])(rng.choice(values)))
            else:
                values.append(crt.add(rng.choice(values), rng.choice(values)))
        return values[1:]

    graph = trace(fn, X)
    pattern = Pattern()
    names = [rng.choice(["Relu", "Neg", "Add"]) for _ in range(rng.randint(2, 4))]
    for name in names:
        pattern.add_node(getattr(OpCode, name))
    wanted = nx.MultiDiGraph()
    wanted.add_nodes_from((at, {"op": name}) for at, name in enumerate(names))
    for to in range(len(names) - 1):
        port = rng.randint(0, names[to] == "Add")
        pattern.add_edge(to + 1, to, to_port=port)
        wanted.add_edge(to + 1, to, port=port)
    whole = nx.MultiDiGraph()
    whole.add_nodes_from(
        (node.name, {"op": node.op_code.name if node.op_code else ""}) for node in graph.nodes()
    )
    for edge in graph.edges():
        whole.add_edge(edge.src().name, edge.dst().name, port=edge.dst_port())
    expected = set()
    for nodes in itertools.product(
        *([n for n, d in whole.nodes(data=True) if d["op"] == name] for name in names)
    ):
        if len(set(nodes)) == len(nodes) and all(
            any(
                data["port"] == port
                for data in (whole.get_edge_data(nodes[a], nodes[b]) or {}).values()
            )
            for a, b, port in wanted.edges(data="port")
        ):
            expected.add(frozenset(nodes))
    matches = found(pattern, graph)
    assert {frozenset(match) for match in matches} == expected
    assert len(matches) == len(expected)


# ---------------------------------------------------------------- rules
def test_a_rule_replaces_every_occurrence_in_one_iteration():
    def pairs(x):
        return crt.relu(crt.relu(x)) + crt.relu(crt.relu(crt.neg(x)))

    seen = []

    @transforms.rule(Pattern([OpCode.Relu, OpCode.Relu]))
    def one_relu(match, tensors):
        assert isinstance(match, RewriteMatch)
        seen.append([node.name for node in match.nodes])
        assert [value.name for value in match.inputs] in (["x"], ["Neg_3_0"])
        assert len(match.outputs) == len(tensors) == 1
        return crt.relu(tensors[0])

    graph = trace(pairs, X)
    report = graph.optimize([one_relu])
    check_legal(graph)
    assert (one_relu.name, report.transforms[0].applications, report.iterations) == (
        "one_relu",
        1,
        2,
    )
    assert seen == [["Relu_1", "Relu_2"], ["Relu_4", "Relu_5"]]
    assert sorted(codes(graph)) == ["Add", "Neg", "Relu", "Relu", "x"]
    assert results(graph, [X]) == results(trace(pairs, X), [X])


def test_what_a_replacement_makes_is_found_in_the_next_iteration():
    graph = trace(lambda x: crt.relu(crt.relu(crt.relu(crt.relu(x)))).exp(), X)
    calls = []

    def condition(match):
        calls.append([node.name for node in match.nodes])
        return True

    rule = transforms.rewrite(
        "one", Pattern([OpCode.Relu, OpCode.Relu]), lambda match, t: [crt.relu(t[0])], condition
    )
    report = graph.optimize([rule])
    assert report.transforms[0].applications == 2 and codes(graph) == ["x", "Relu", "Exp"]
    assert len(calls) == 3  # the pair in the middle is gone when its turn comes


def test_several_inputs_and_outputs():
    pattern = Pattern()
    add, mul = pattern.add_node(OpCode.Add), pattern.add_node(OpCode.Mul)
    pattern.add_edge(add, mul)
    seen = []

    @transforms.rule(pattern)
    def turned(match, tensors):
        seen.append(([v.name for v in match.inputs], [v.name for v in match.outputs]))
        total = tensors[1] + tensors[0]
        return total, tensors[2] * total

    def fn(x, y):
        total = x + y
        return [total * (x * 2.0), total.exp()]

    graph = trace(fn, X, draw(2, 2, 3))
    graph.optimize([turned], max_num_iterations=1)
    check_legal(graph)
    assert seen == [(["x", "y", "Mul_2_0"], ["Add_1_0", "Mul_3_0"])]
    inputs = [X, draw(2, 2, 3)]
    assert results(graph, inputs) == results(trace(fn, *inputs), inputs)


def test_occurrences_that_a_rule_skips():
    pattern = Pattern()
    add, neg = pattern.add_node(OpCode.Add), pattern.add_node(OpCode.Neg)
    pattern.add_edge(neg, add, to_port=1)
    asked = []

    def condition(match):
        asked.append(match.nodes[0].name)
        return asked.count(match.nodes[0].name) > 1  # the first answer is no

    rule = transforms.rewrite("sub", pattern, lambda match, t: t[0] - t[-1], condition)
    looped = trace(lambda x: (lambda n: crt.relu(n) + n)(crt.neg(x)), X)
    before = form(looped)
    looped.optimize([rule])
    assert asked == [] and form(looped) == before
    unread = trace(lambda x: [x + crt.neg(x), crt.exp(x)][1], X)
    unread.optimize([rule])
    assert asked == []
    plain = trace(lambda x: x + crt.neg(x), X)
    assert not plain.optimize([rule]).changed and asked == ["Add_2"]
    assert plain.optimize([rule]).changed and codes(plain) == ["x", "Sub"]


def test_a_failing_rule_undoes_the_run():
    class Refusal(Exception):
        pass

    def fails(match, tensors):
        crt.exp(tensors[0])
        raise Refusal

    def writes(match, tensors):
        tensors[0].add_(1.0)
        return tensors[0]

    graph = trace(diamond, X)
    before = form(graph)
    edit = Transform("edit", lambda g: g.add_node(OpCode.Abs, [g.nodes()[0].output(0)]))
    for replacement, error in (
        (fails, Refusal),
        (writes, crt.InvalidArgumentError),
        (lambda match, t: None, TypeError),
        (lambda match, t: [t[0], t[0]], crt.InvalidArgumentError),
        (lambda match, t: crt.sum(t[0]), crt.InvalidArgumentError),
        (lambda match, t: graph.optimize(), crt.InvalidArgumentError),
    ):
        rule = transforms.rewrite("rule", Pattern([OpCode.Relu]), replacement)
        with pytest.raises(error):
            graph.optimize([edit, rule])
        assert form(graph) == before
        check_legal(graph)
    broken = transforms.rewrite(
        "rule", Pattern([OpCode.Relu]), lambda match, t: t[0], lambda match: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        graph.optimize([broken])


def test_a_rule_keeps_the_pattern_it_was_made_with():
    pattern = Pattern([OpCode.Relu])
    rule = transforms.rewrite("rule", pattern, lambda match, t: crt.neg(t[0]))
    pattern.add_node(OpCode.Softmax)
    graph = trace(diamond, X)
    graph.optimize([rule])
    assert sorted(codes(graph)) == ["Add", "Exp", "Neg", "Neg", "x"]
