"""`ModelGraph.optimize`: lists and their checks, the report, failures and their undoing."""

from __future__ import annotations

import doctest
import logging
import threading
import time

import pytest

import clika_runtime as crt
from clika_runtime.graph import (
    DefaultsOptions,
    OpCode,
    OptimizeReport,
    Pattern,
    Transform,
    TransformReport,
    activations,
    optimize,
    pattern,
    transforms,
)
from clika_runtime.graph.legal import check_legal
from clika_runtime.graph.optimize import OwnTransform

from .traced_graphs import codes, draw, form, results, trace

X = draw(1, 2, 3)


def model(x):
    return crt.relu(crt.neg(crt.neg(x)))


def rows(report):
    return [(row.transform.name, row.applications) for row in report.transforms]


def refused(call, code, *parts):
    with pytest.raises(crt.InvalidArgumentError) as failure:
        call()
    assert failure.value.code_name == code
    for part in parts:
        assert part in str(failure.value)


# ---------------------------------------------------------------- lists
def test_defaults():
    graph = trace(model, X)
    listed = graph.default_transforms()
    assert listed == transforms.defaults() and listed[0] is transforms.cleanup_graph()
    fixing = transforms.fixate_dyn_shape_queues()
    border = transforms.drop_boundary_permutes()
    assert fixing not in listed and border not in listed
    for choices, traced in (
        (DefaultsOptions(shape_fixation=True), [fixing]),
        (DefaultsOptions(specialize=True), []),
        (DefaultsOptions(channels_last_inputs=True), [border]),
        (DefaultsOptions(channels_last_outputs=True), [border]),
    ):
        added = [item for item in graph.default_transforms(choices) if item not in listed]
        assert added == traced
    assert fixing in transforms.defaults(DefaultsOptions(specialize=True))
    graph._from_file = True
    assert fixing in graph.default_transforms(DefaultsOptions(specialize=True))
    assert fixing not in graph.default_transforms(DefaultsOptions(shape_fixation=True))


def test_every_default_comes_after_what_it_must_follow():
    everything = DefaultsOptions(
        shape_fixation=True, specialize=True, channels_last_inputs=True, channels_last_outputs=True
    )
    listed = transforms.defaults(everything)
    for at, item in enumerate(listed):
        assert all(earlier in listed[:at] for earlier in item.runs_after)
    assert len({item.name for item in listed}) == len(listed) == 20


def test_report():
    graph = trace(model, X)
    report = graph.optimize()
    assert isinstance(report, OptimizeReport)
    assert all(isinstance(row, TransformReport) for row in report.transforms)
    assert [row.transform for row in report.transforms] == graph.default_transforms()
    assert (report.iterations, report.converged, report.changed) == (2, True, True)
    assert [row for row in rows(report) if row[1]] == [("remove_double_neg", 1)]
    assert not any(row.firing_at_cap or row.failed for row in report.transforms)
    again = graph.optimize()
    assert (again.iterations, again.converged, again.changed) == (1, True, False)


def test_an_empty_list_drops_what_nothing_reads():
    graph = trace(lambda x: [crt.exp(x), model(x)][1], X)
    report = graph.optimize([])
    assert codes(graph) == ["x", "Neg", "Neg", "Relu"]
    assert (report.iterations, report.converged, report.changed) == (1, True, True)
    assert report.transforms == []
    assert not graph.optimize([]).changed


def test_a_transform_may_stand_in_a_list_twice():
    neg = transforms.remove_double_neg()
    report = trace(model, X).optimize([neg, transforms.cleanup_graph(), neg])
    assert rows(report) == [
        ("remove_double_neg", 1),
        ("cleanup_graph", 0),
        ("remove_double_neg", 0),
    ]


def test_order_of_a_list():
    absorb, permute = transforms.matmul_absorb_transpose(), transforms.remove_double_permute()
    graph = trace(model, X)
    before = form(graph)
    refused(
        lambda: graph.optimize([absorb, permute]),
        "INVALID_ARGUMENT",
        "optimize: transforms[0] (matmul_absorb_transpose) must run after remove_double_permute, "
        "which the list places later, at transforms[1]; list remove_double_permute ahead of it",
    )
    graph.optimize([absorb])
    trace(model, X).optimize([permute, absorb, permute])
    ran = []
    first = Transform("first", ran.append)
    second = Transform("second", ran.append, runs_after=[first])
    third = Transform("third", ran.append, runs_after=[permute, second])
    for listed, at, name in (
        ([second, first], 0, "first"),
        ([first, third, second], 1, "second"),
        ([first, third, permute], 1, "remove_double_permute"),
    ):
        refused(
            lambda listed=listed: trace(model, X).optimize(listed),
            "INVALID_ARGUMENT",
            f"transforms[{at}]",
            f"must run after {name}",
        )
    assert ran == []
    assert form(trace(model, X)) == before


def test_gated_transforms():
    graph = trace(model, X)
    before = form(graph)
    border, fixing = transforms.drop_boundary_permutes(), transforms.fixate_dyn_shape_queues()
    refused(
        lambda: graph.optimize([border]),
        "INVALID_ARGUMENT",
        "optimize: transforms[0] (drop_boundary_permutes) changes the layout of the graph's inputs "
        "and outputs; set DefaultsOptions::channels_last_inputs or channels_last_outputs to run it",
    )
    refused(
        lambda: graph.optimize([transforms.cleanup_graph(), fixing]),
        "INVALID_ARGUMENT",
        "optimize: transforms[1] (fixate_dyn_shape_queues)",
        "DefaultsOptions::shape_fixation",
    )
    refused(
        lambda: graph.optimize([fixing], defaults=DefaultsOptions(specialize=True)),
        "INVALID_ARGUMENT",
        "shape_fixation",
    )
    assert form(graph) == before
    graph.optimize([border], defaults=DefaultsOptions(channels_last_outputs=True))
    graph.optimize([fixing], defaults=DefaultsOptions(shape_fixation=True))


@pytest.mark.parametrize("cap", [0, -1, 2**31, 10**30])
def test_caps_out_of_range(cap):
    refused(
        lambda: trace(model, X).optimize(max_num_iterations=cap),
        "INVALID_ARGUMENT",
        f"optimize: max_num_iterations must be between 1 and 2147483647, got {cap}",
    )


def test_arguments_of_other_types():
    graph = trace(model, X)
    for call in (
        lambda: graph.optimize(max_num_iterations=2.0),
        lambda: graph.optimize(max_num_iterations=True),
        lambda: graph.optimize(["cleanup_graph"]),
        lambda: graph.optimize([None]),
        lambda: graph.optimize(defaults={"specialize": True}),
        lambda: graph.default_transforms(1),
        lambda: Transform(1, print),
        lambda: Transform("name", "fn"),
        lambda: Transform("name", print, runs_after=["cleanup_graph"]),
        lambda: transforms.rewrite("name", [OpCode.Relu], lambda m, t: t[0]),
        lambda: transforms.rewrite("name", Pattern([OpCode.Relu]), None),
        lambda: transforms.rewrite("name", Pattern([OpCode.Relu]), lambda m, t: t[0], "x"),
    ):
        with pytest.raises(TypeError):
            call()
    assert graph.optimize(max_num_iterations=2**31 - 1).converged
    with pytest.raises(AttributeError):
        transforms.no_such_transform()


def test_cap_reached(caplog):
    graph = trace(model, X)
    with caplog.at_level(logging.WARNING, "clika_runtime.graph"):
        report = graph.optimize(max_num_iterations=1)
    assert (report.iterations, report.converged, report.changed) == (1, False, True)
    firing = [row.transform.name for row in report.transforms if row.firing_at_cap]
    assert firing == ["remove_double_neg"]
    (record,) = caplog.records
    assert record.name == "clika_runtime.graph" and "remove_double_neg" in record.getMessage()
    assert codes(graph) == ["x", "Relu"]


# ---------------------------------------------------------------- transforms of the caller's
def test_names():
    refused(lambda: Transform("", print), "INVALID_ARGUMENT", "empty")
    for name in ("cleanup_graph", "fold_bias"):
        refused(lambda name=name: Transform(name, print), "INVALID_ARGUMENT", name)
        refused(lambda name=name: transforms.transform(name)(print), "INVALID_ARGUMENT", name)
        refused(
            lambda name=name: transforms.rule(Pattern([OpCode.Relu]), name=name)(print),
            "INVALID_ARGUMENT",
            name,
        )

    @transforms.transform
    def look(graph):
        pass

    @transforms.transform("called", runs_after=[look])
    def other(graph):
        pass

    assert (look.name, other.name, other.runs_after) == ("look", "called", (look,))
    assert look == look and look != other and look in [other, look]


def test_a_transform_runs_once_per_iteration_and_counts_its_changes():
    graph = trace(lambda x: crt.relu(crt.relu(crt.relu(x))) + 1.0, X)
    counts, failures = [], []

    @transforms.transform
    def count(g):
        assert g is graph
        counts.append(len(g.nodes()))

    @transforms.transform
    def refused_edit(g):
        with pytest.raises(crt.InvalidArgumentError) as failure:
            g.remove_node(g.node("Relu_1"))
        failures.append(failure)

    @transforms.transform
    def drop_one(g):
        for relu in g.find_nodes(OpCode.Relu):
            inner = relu.input(0).producer()
            if inner.op_code == OpCode.Relu:
                g.bypass_node(relu)
                return

    report = graph.optimize([count, refused_edit, drop_one])
    assert rows(report) == [("count", 0), ("refused_edit", 0), ("drop_one", 2)]
    assert (report.iterations, counts, len(failures)) == (3, [5, 4, 3], 3)
    assert report.transforms[2].transform is drop_one
    check_legal(graph)


def test_transforms_see_each_others_changes():
    """What a transform of the caller's exposes, the runtime's take up, and the other way round."""
    graph = trace(lambda x: crt.neg(crt.exp(crt.neg(crt.exp(x) * 1.0))).relu() + 1.0, X)

    @transforms.transform
    def no_exp(g):
        for node in g.find_nodes(OpCode.Exp):
            if node.input(0).producer().op_code == OpCode.Neg:
                g.bypass_node(node)

    report = graph.optimize([*graph.default_transforms(), no_exp])
    assert codes(graph) == ["x", "Exp", "Add"]
    assert dict(row for row in rows(report) if row[1]) == {
        "fold_neutral_numbers": 1,
        "no_exp": 1,
        "remove_double_neg": 1,
        "remove_redundant_relu": 1,
    }
    check_legal(graph)


def test_what_a_transform_may_not_do():
    graph = trace(model, X)
    before = form(graph)
    calls = {
        "optimize": lambda g: g.optimize(),
        "finalize": lambda g: g.finalize(),
        "to": lambda g: g.to("cpu"),
    }
    for name, call in calls.items():
        refused(
            lambda call=call: graph.optimize([Transform("busy", call)]),
            "FAILED_PRECONDITION",
            f"{name}: the transform 'busy' is running on this graph inside optimize(); call "
            f"{name}() after optimize() returns",
        )
        assert form(graph) == before
    other = trace(model, X)

    @transforms.transform
    def elsewhere(g):
        other.optimize()
        other.finalize()

    graph.optimize([elsewhere])
    assert other.is_finalized()
    graph.finalize()


def test_a_finalized_graph():
    graph = trace(model, X)
    graph.finalize()
    refused(
        graph.optimize,
        "FAILED_PRECONDITION",
        "optimize: the graph is finalized; optimize() runs before finalize(), so compile or trace "
        "the model again to optimize it",
    )


def test_edits_of_another_thread_are_refused():
    graph = trace(model, X)
    found = []

    @transforms.transform
    def threads(g):
        def edit():
            for call in (lambda: g.bypass_node(g.node("Neg_1")), g.optimize, g.finalize):
                try:
                    call()
                except crt.InvalidArgumentError as error:
                    found.append(error.code_name)

        thread = threading.Thread(target=edit)
        thread.start()
        thread.join()

    graph.optimize([threads])
    assert found == ["FAILED_PRECONDITION"] * 3
    assert codes(graph) == ["x", "Neg", "Neg", "Relu"]


class Refusal(Exception):
    """Of the caller's own."""


@pytest.mark.parametrize("kind", [Refusal, KeyboardInterrupt, crt.UnsupportedError])
def test_a_failing_transform_undoes_the_run(kind):
    weight = draw(5, 3, 3)

    def fn(x):
        y = crt.matmul(crt.neg(crt.neg(x)), weight.t()) + draw(6, 3)
        return [crt.relu(crt.clamp(y, 0.0)), y.reshape(3, 2).reshape(6)]

    graph = trace(fn, X)
    before, failure = form(graph), kind("no")
    views = graph.nodes()

    @transforms.transform
    def edits(g):
        (made,) = g.insert(lambda t: crt.exp(t[0]) * draw(7, 3), [g.nodes()[0].output(0)])
        g.add_output(made, "more")
        g.rename_input("x", "given")
        g.add_node(OpCode.Abs, [made])

    @transforms.transform
    def fails(g):
        assert len(g.nodes()) != len(views)
        raise failure

    with pytest.raises(kind) as caught:
        graph.optimize([*graph.default_transforms(), edits, fails])
    assert caught.value is failure
    assert form(graph) == before
    check_legal(graph)
    for view in views:
        view.check()
    report = graph.optimize()
    assert report.changed
    check_legal(graph)
    assert results(graph, [X]) == results(trace(fn, X), [X])


def test_a_failing_transform_of_the_runtimes_is_undone_and_skipped(monkeypatch, caplog):
    """A transform of ours that fails is an error of ours: it stands in its row, and the run goes
    on."""
    ran = []

    def breaks(rewriter, node):
        """Fails halfway."""
        ran.append(node)
        rewriter.redirect(rewriter.graph.results(node)[0], rewriter.graph.ports(node)[0])
        raise crt.UnsupportedError("cannot go on")

    def confused(rewriter):
        """Fails with an error of Python's."""
        rewriter.graph.set_output_list([])
        raise KeyError("no")

    first = OwnTransform("breaks", visit=breaks, ops=frozenset({"relu"}))
    second = OwnTransform("confused", whole=confused)
    graph = trace(model, X)
    wanted = results(trace(model, X), [X])
    with caplog.at_level(logging.WARNING, "clika_runtime.graph"):
        report = graph.optimize([first, transforms.remove_double_neg(), second])
    check_legal(graph)
    assert (report.iterations, report.converged, report.changed) == (2, True, True)
    assert [row.failed for row in report.transforms] == [True, False, True]
    assert [row.applications for row in report.transforms] == [0, 1, 0]
    assert report.transforms[0].failure_code == "Unsupported"
    assert report.transforms[0].failure_message == "cannot go on"
    assert report.transforms[2].failure_code == "Internal"
    assert "no" in report.transforms[2].failure_message
    assert len(ran) == 1 and len(caplog.records) == 2
    assert codes(graph) == ["x", "Relu"]
    assert results(graph, [X]) == wanted


def test_dropped_constants_are_let_go():
    held = draw(8, 3)
    graph = trace(lambda x: [x * held, crt.relu(x)][1], X)
    assert len(graph.constants()) == 1 and len(graph._constants) == 1
    graph.optimize()
    assert graph.constants() == [] and graph._constants == {}
    assert set(graph._calls) == {node for node in graph.node_ids() if graph.op(node)}
    # The same tensor comes back as a constant of its own.
    (made,) = graph.insert(lambda t: t[0] * held, [graph.nodes()[0].output(0)])
    assert len(graph.constants()) == 1
    check_legal(graph)
    graph.add_output(made, "scaled")
    assert results(graph, [X])[1] == results(trace(lambda x: x * held, X), [X])[0]


def _long(x):
    for _ in range(1500):
        x = crt.tanh(crt.neg(crt.neg(x)) * 1.0 + 0.5)
    return x


def _wide(x):
    y = total = crt.exp(x)
    for number in range(1500):
        total = total + crt.tanh(y * (number + 2.0))
    return total


def _equal(x):
    total = x
    for _ in range(1500):
        total = total * crt.exp(x)
    return total


@pytest.mark.parametrize(("fn", "nodes"), [(_long, 1501), (_wide, 3002), (_equal, 1502)])
def test_large_graphs_are_quick(fn, nodes):
    """The cost is one per change: neither the length of a graph nor the number of readers of one
    value enters it a second time."""
    graph = trace(fn, X)
    start = time.perf_counter()
    report = graph.optimize()
    seconds = time.perf_counter() - start
    assert report.converged and len(graph.nodes()) == nodes
    assert seconds < 10  # below 1 on an idle core; quadratic cost was 80


@pytest.mark.parametrize("module", [optimize, pattern, transforms, activations])
def test_examples(module):
    result = doctest.testmod(module, extraglobs={"crt": crt})
    assert result.attempted > 0 and result.failed == 0
