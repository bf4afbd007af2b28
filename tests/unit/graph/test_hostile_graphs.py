"""Misuse of graphs: a clear error or the result of eager execution, never a crash, a hang or an
error of the inside. Eager execution is the oracle, and results are equal to the bit."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import pickle
import time
import weakref

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.graph import ModelGraph, TensorSpec, cond, loop, scan


def spec(name="x", dims=(2, 3), **more):
    return TensorSpec(name, crt.float32, dims, **more)


def finalized(fn, *specs, optimize=True):
    graph = crt.trace(fn, list(specs or [spec()])).graph
    if optimize:
        graph.optimize()
    graph.finalize()
    return graph


# ------------------------------------------------------------------ what describes inputs
@pytest.mark.parametrize("dims", [[2.5], ["a"], "ab", [[1]], [None], [math.nan]])
def test_a_dim_is_an_int(dims) -> None:
    with pytest.raises(TypeError, match="a dim of 'x' must be an int"):
        spec(dims=dims)


def test_a_dim_name_is_a_text() -> None:
    with pytest.raises(TypeError, match="a dim name of 'x' must be a str, got 1"):
        spec(dims=[-1, -1], dim_names=[1, 2])
    with pytest.raises(TypeError, match="must be a str, got 5"):
        crt.trace(crt.relu, example_inputs=(crt.ones(2),), dynamic_axes={"input": {0: 5}})


@pytest.mark.parametrize(
    ("axes", "error"),
    [
        (5, TypeError),
        ([("input", [0])], TypeError),
        ({"input": 0}, TypeError),
        ({"input": {"a": "n"}}, InvalidArgumentError),
        ({"input": [2]}, InvalidArgumentError),
        ({"input": [-3]}, InvalidArgumentError),
        ({"nobody": [0]}, InvalidArgumentError),
    ],
)
def test_dynamic_axes_name_axes_of_inputs(axes, error) -> None:
    def call() -> None:
        crt.trace(
            crt.relu, example_inputs=(crt.ones(2, 3),), input_names=["input"], dynamic_axes=axes
        )

    with pytest.raises(error, match="dynamic_axes"):
        call()


@pytest.mark.parametrize("bounds", [5, {"n": 5}, {"n": (1,)}, {"n": None}])
def test_bounds_are_pairs(bounds) -> None:
    with pytest.raises(TypeError, match="dim_bounds"):
        crt.trace(crt.relu, example_inputs=(crt.ones(2),), dim_bounds=bounds)


def test_many_names_are_compared_in_linear_time() -> None:
    begin = time.perf_counter()
    graph = crt.trace(lambda given: [given[0]] * 20_000, [spec()]).graph
    assert len(graph.output_names()) == 20_000
    assert time.perf_counter() - begin < 2  # 0.1 s; 4 s where every name is sought in all


def test_many_outputs_are_optimized_in_linear_time() -> None:
    graph = crt.trace(lambda given: [given[0] + float(n) for n in range(5_000)], [spec()]).graph
    begin = time.perf_counter()
    graph.optimize()
    assert time.perf_counter() - begin < 3  # 0.1 s; 6 s where every value is sought in all outputs


def test_a_graph_is_made_once() -> None:
    graph = finalized(lambda given: [crt.relu(given[0])])
    with pytest.raises(TypeError, match="make another one"):
        ModelGraph.__init__(graph, "again")
    assert graph.run([crt.ones(2, 3)])[0].tolist() == [[1.0] * 3] * 2


# ------------------------------------------------------------------ sizes of zero
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3)])
def test_an_example_of_no_elements_is_no_dynamic_one(shape) -> None:
    graph = crt.trace(lambda x: x * crt.ones(*shape), example_inputs=(crt.ones(*shape),)).graph
    assert graph.inputs()[0][2] == list(shape) and graph.outputs()[0][2] == list(shape)
    graph.finalize()
    assert graph.run([crt.ones(*shape)])[0].shape == shape
    step = crt.compile(lambda x: x * 2 + 1, fullgraph=True)
    assert [step(crt.ones(*shape)).shape for _ in range(3)] == [shape] * 3


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_drift_to_zero(dynamic) -> None:
    step = crt.compile(lambda x: (x * 2, x.sum()), fullgraph=True, dynamic=dynamic)
    for size in (3, 3, 4, 0, 0, 5, 1, 0):
        doubled, total = step(crt.ones(size))
        assert doubled.tolist() == [2.0] * size and total.item() == size


# ------------------------------------------------------------------ compile
def test_signs_of_zero_are_different_statics() -> None:
    step = crt.compile(lambda x, k: x / k)
    for k in (0.0, -0.0, 0.0, -0.0):
        assert step(crt.ones(1), k).item() == math.copysign(math.inf, k)
    assert step.recapture_count == 1
    for _ in range(3):
        assert math.isnan(step(crt.ones(1), float("nan")).item())
    assert step.recapture_count == 2


def test_inputs_that_are_not_contiguous() -> None:
    step = crt.compile(lambda x: x.add_(1))
    for _ in range(3):
        x = crt.zeros(2, 3)
        step(x.T)
        step(x)
        assert x.tolist() == [[2.0] * 3] * 2
    full = crt.compile(lambda x: x + 1, fullgraph=True)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="contiguous"):
            full(crt.zeros(2, 3).T)


# ------------------------------------------------------------------ outputs that no input enters
@pytest.mark.parametrize("optimize", [False, True])
def test_what_finalize_computed_cannot_be_changed_through_an_output(optimize) -> None:
    k = crt.ones(2)
    graph = finalized(
        lambda given: [k * 2.0, crt.ones(2), crt.arange(4).reshape(2, 2)[1], given[0]],
        optimize=optimize,
    )
    for _ in range(3):
        found = graph.run([crt.zeros(2, 3)])
        assert [x.tolist() for x in found[:3]] == [[2.0, 2.0], [1.0, 1.0], [2, 3]]
        for x in found:
            x.add_(5)
    step = crt.compile(lambda x: (crt.ones(2), x))
    for _ in range(4):
        ones = step(crt.zeros(1))[0]
        assert ones.tolist() == [1.0, 1.0]
        ones.add_(1)


# ------------------------------------------------------------------ cond, loop, scan
def everywhere(call):
    """A call eagerly, and in a trace."""
    yield lambda: call(crt.ones(2, 3))
    yield lambda: crt.trace(lambda given: call(given[0]), [spec()])


@pytest.mark.parametrize(
    ("pred", "error"),
    [
        (None, TypeError),
        (5, TypeError),
        ("x", TypeError),
        (crt.ones(2) > 0, InvalidArgumentError),
        (crt.ones(0) > 0, InvalidArgumentError),
        (crt.tensor(1), InvalidArgumentError),
    ],
)
def test_a_condition_is_one_bool(pred, error) -> None:
    for call in everywhere(lambda x: cond(pred, lambda a: a, lambda a: -a, [x])):
        with pytest.raises(error, match="cond: pred must be"):
            call()
    for call in everywhere(lambda x: loop(1, 5, lambda i, go, a: (go, a), [x])):
        with pytest.raises(TypeError, match="loop: cond must be"):
            call()


def test_a_condition_may_be_a_bool_of_python() -> None:
    for pred in (True, False):
        want = cond(pred, lambda a: a + 1, lambda a: a, [crt.ones(2, 3)])[0].tolist()
        graph = finalized(lambda g, p=pred: cond(p, lambda a: a + 1, lambda a: a, [g[0]]))
        assert graph.run([crt.ones(2, 3)])[0].tolist() == want == [[1.0 + pred] * 3] * 2


@pytest.mark.parametrize(
    ("trips", "error"),
    [
        ("x", TypeError),
        (1.5, TypeError),
        (1 << 63, InvalidArgumentError),
        (crt.tensor(2.0), InvalidArgumentError),
        (crt.ones(2, dtype=crt.int64), InvalidArgumentError),
        (crt.tensor(2, dtype=crt.int32), InvalidArgumentError),
    ],
)
def test_trips_are_a_whole_number(trips, error) -> None:
    for call in everywhere(lambda x: loop(trips, None, lambda i, go, a: (go, a), [x])):
        with pytest.raises(error, match="loop: trips must be"):
            call()


def test_fewer_than_no_trips() -> None:
    for trips in (-1, 0, -(1 << 70)):
        for call in (
            lambda x, n=trips: loop(n, None, lambda i, go, a: (go, a + 1), [x]),
            lambda x, n=trips: finalized(
                lambda g: loop(n, None, lambda i, go, a: (go, a + 1), [g[0]])
            ).run([x]),
        ):
            assert call(crt.ones(2, 3))[0].tolist() == [[1.0] * 3] * 2


def test_bodies_give_all_that_is_carried() -> None:
    rows = crt.ones(2, 3)
    for call in everywhere(lambda x: loop(2, None, lambda i, go, a: (go,), [x])):
        with pytest.raises(InvalidArgumentError, match="loop: the body"):
            call()
    for call in everywhere(lambda x: scan(lambda s, row: (), [crt.zeros(3)], [x])):
        with pytest.raises(InvalidArgumentError, match="scan: the body"):
            call()
    seen: list[int] = []
    with pytest.raises(
        InvalidArgumentError, match="the body gave 2 tensors where it has to give 1"
    ):
        scan(lambda s, row: (seen.append(1), [s] * len(seen))[1], [crt.zeros(3)], [rows])


# ------------------------------------------------------------------ views, numbers, sizes
def parts():
    graph = crt.trace(lambda given: [crt.relu(given[0])], [spec(dims=[-1])]).graph
    node = graph.nodes()[1]
    return graph, node, node.output(0), graph.edges()[0], node.output(0).shape[0]


def test_views_are_made_by_graphs_alone() -> None:
    graph, node, value, edge, size = parts()
    graph.finalize()
    for view in (node, value, edge, size, graph._program.plan):
        with pytest.raises(TypeError):
            type(view).__new__(type(view))
        with pytest.raises(TypeError):
            type(view)()


def test_copies_of_views_are_the_views_and_graphs_have_none() -> None:
    graph, *views = parts()
    for view in views:
        assert copy.copy(view) is view and copy.deepcopy(view) is view
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(view)
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="save"):
            call(graph)


def test_ports_and_names_are_checked() -> None:
    graph, node, *_ = parts()
    for call in (node.input, node.output):
        assert call(0) is not None and call(1) is call(-1) is call(2**70) is None
        for port in (1.5, "0", None):
            with pytest.raises(TypeError):
                call(port)
    for call in (graph.node, node.attribute):
        with pytest.raises(TypeError):
            call(None)


@pytest.mark.parametrize("number", [-1, -(2**31), 99, 2**31 - 1])
def test_numbers_that_no_node_and_no_value_has(number) -> None:
    graph, *_ = parts()
    before = repr(graph)
    nodes = ("op", "node_name", "ports", "results", "is_alive", "node_view", "drop_node")
    values = ("meta", "root_id", "value_name", "use_list", "value_view", "drop_value")
    for name in (*nodes, *values):
        with pytest.raises(InvalidArgumentError, match="the graph has no"):
            getattr(graph, name)(number)
    with pytest.raises(InvalidArgumentError, match="no input port"):
        graph.set_port(1, number, 0)
    with pytest.raises(InvalidArgumentError, match="the graph has no"):
        graph.set_output_list([("y", number)])
    assert repr(graph) == before


def test_sizes_of_more_than_64_bits() -> None:
    *_, size = parts()
    for call in (
        lambda: size + 2**63,
        lambda: size * 2**70,
        lambda: 2**63 - size,
        lambda: size - 2**70,
        lambda: size // 2**64,
    ):
        with pytest.raises(InvalidArgumentError, match="no size of 64 bits"):
            call()
    with pytest.raises(InvalidArgumentError, match="no size of 64 bits"):
        crt.trace(lambda given: given, [spec(dims=[-1], dim_names=["n + 99999999999999999999"])])


def test_costs_that_no_float_is_near_to() -> None:
    graph, *_ = parts()
    first, last = graph.nodes()
    for call in (
        lambda: graph.critical_path(lambda node: 10**400),
        lambda: graph.shortest_path(first, last, edge_cost=lambda edge: 10**400),
    ):
        with pytest.raises(InvalidArgumentError, match="no float is near to"):
            call()


# ------------------------------------------------------------------ statics that change unseen
def test_statics_without_a_hash_are_never_replayed() -> None:
    step = crt.compile(lambda x, items: x * float(len(items)))
    x = crt.ones(1)
    assert [step(x, set(range(n))).item() for n in (1, 1, 2, 3, 1)] == [1.0, 1.0, 2.0, 3.0, 1.0]
    items = {0}
    for n in range(1, 4):
        assert step(x, items).item() == n
        items.add(n)
    array = np.ones(2, np.float32)
    total = crt.compile(lambda x, rows: x * float(rows.sum()))
    for n in (1, 1, 5):
        array[:] = n
        assert total(x, array).item() == 2.0 * n
    full = crt.compile(lambda x, items: x * float(len(items)), fullgraph=True)
    with pytest.raises(InvalidArgumentError, match="unhashable type: 'set'"):
        full(x, {1})


def test_captures_that_are_dropped_let_their_statics_go() -> None:
    class Static:
        pass

    step = crt.compile(lambda x, static: x + 1)
    alive = []
    for _ in range(30):
        static = Static()
        alive.append(weakref.ref(static))
        step(crt.ones(1), static)
    del static
    gc.collect()
    assert sum(ref() is not None for ref in alive) <= 8  # as many captures are kept


# ------------------------------------------------------------------ what graphs do not take
def packed():
    rows = crt.zeros((4, 34), dtype=crt.uint8)
    return crt.make_quantized(rows, "GGUF_Q8_0", [32, 4]).tensor


def test_packed_weights_are_captured_and_not_passed() -> None:
    weight, x = packed(), crt.ones(2, 32)
    want = crt.linear(x, weight).tolist()
    with pytest.raises(UnsupportedError, match="'weight' is a packed weight"):
        crt.trace(lambda x, weight: crt.linear(x, weight), example_inputs=(x, weight))
    step = crt.compile(lambda x, weight: crt.linear(x, weight))
    assert [step(x, weight).tolist() for _ in range(3)] == [want] * 3
    for body in (
        lambda x: cond(x.sum() > 0, lambda a, w: a, lambda a, w: -a, [x, weight]),
        lambda x: loop(2, None, lambda i, go, a, w: (go, a, w), [x, weight]),
        lambda x: scan(lambda w, row: (w,), [weight], [x]),
    ):
        with pytest.raises(UnsupportedError, match="got a packed weight"):
            crt.trace(lambda given, body=body: body(given[0]), [spec(dims=(2, 32))])
    graph = finalized(
        lambda g: cond(g[0].sum() > 0, lambda a: crt.linear(a, weight), lambda a: a[:, :4], [g[0]]),
        spec(dims=(2, 32)),
    )
    assert graph.run([x])[0].tolist() == want
    dense = finalized(lambda g: [crt.linear(g[0], g[1])], spec("x", (2, 32)), spec("w", (4, 32)))
    with pytest.raises(InvalidArgumentError, match="input 'w' is a packed weight"):
        dense.run([x, weight])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"place": "nowhere"}, InvalidArgumentError),
        ({"place": "meta"}, InvalidArgumentError),
        ({"place": 5}, TypeError),
        ({"dynamic_axes": 5}, TypeError),
        ({"dynamic_axes": {"b": [0]}}, InvalidArgumentError),
        ({"dynamic_axes": {"a": [1]}}, InvalidArgumentError),
        ({"dynamic_axes": {"a": 5}}, TypeError),
        ({"dynamic_axes": {"a": {0: 5}}}, TypeError),
    ],
)
def test_options_that_mean_nothing_are_not_served_eagerly(options, error) -> None:
    def call() -> None:
        step = crt.compile(lambda a: a * 2, **options)
        step(crt.ones(2))

    with pytest.raises(error):
        call()


def test_dynamic_axes_count_from_the_end_too() -> None:
    step = crt.compile(lambda a: a * 2, dynamic_axes={"a": {-1: "n"}}, fullgraph=True)
    for size in (2, 3, 5):
        assert step(crt.ones(1, size)).shape == (1, size)
    assert step.recapture_count == 0


@pytest.mark.parametrize("step", [1, 2, 3])
def test_slices_of_a_dynamic_dim_clamp_as_python_slices(step: int) -> None:
    """Against NumPy, for every size of the dim."""
    bounds = (None, 0, 1, 2, 5, 9, -1, -3, -6)
    for start, stop in itertools.product(bounds, bounds):
        places = slice(start, stop, step)
        graph = finalized(lambda given, s=places: [given[0][s] * 1.0], spec(dims=[-1]))
        for n in range(1, 8):
            x = np.arange(n, dtype=np.float32)
            assert graph.run([crt.from_numpy(x)])[0].tolist() == x[places].tolist(), (places, n)


def test_slices_of_slices_and_symbolic_bounds_clamp() -> None:
    def fn(given):
        x, y = given
        n = y.shape[0]
        return [x[2:][:1] + 0, x[:4][:2] + 0, x[:n] + 0, x[n:] + 0, x[: n - 1] + 0]

    graph = finalized(fn, spec(dims=[-1]), spec("y", dims=[-1]))
    for n, m in itertools.product(range(1, 7), range(1, 7)):
        x, y = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        wanted = [x[2:][:1], x[:4][:2], x[:m], x[m:], x[: m - 1]]
        found = graph.run([crt.from_numpy(x), crt.from_numpy(y)])
        assert [item.tolist() for item in found] == [item.tolist() for item in wanted], (n, m)


def test_chains_of_slices_stay_short() -> None:
    """Their sizes are worked out, not written out: a hundred slices are as quick as one."""
    trims = [slice(1, None), slice(None, -1), slice(1, -1), slice(-9, None), slice(2, 30)]
    for trim in trims:

        def fn(given, trim=trim):
            x = given[0]
            for _ in range(100):
                x = x[trim]
            return [x + 0.0, given[0][trim][trim] + 0.0]

        began = time.perf_counter()
        graph = finalized(fn, spec(dims=[-1]))
        assert time.perf_counter() - began < 5
        for size in repr(graph).splitlines()[2:]:
            assert len(size) < 200
        for n in (1, 2, 3, 8, 60, 150, 250):
            x = want = np.arange(n, dtype=np.float32)
            for _ in range(100):
                want = want[trim]
            found = graph.run([crt.from_numpy(x)])
            assert found[0].tolist() == want.tolist()
            assert found[1].tolist() == x[trim][trim].tolist()


@pytest.mark.parametrize("seed", range(40))
def test_random_slices_of_slices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = [None, *range(-5, 6)]

    def bound(within):
        return bounds[rng.integers(len(bounds))] if rng.random() < 0.8 else within

    makers = [
        [(bound("n"), bound("n"), int(rng.integers(1, 3))) for _ in range(4)] for _ in range(3)
    ]

    def apply(x, n, chain):
        for start, stop, step in chain:
            x = x[slice(n if start == "n" else start, n if stop == "n" else stop, step)]
        return x + 0.0

    def fn(given):
        return [apply(given[0], given[1].shape[0], chain) for chain in makers]

    graph = finalized(fn, spec(dims=[-1]), spec("y", dims=[-1]), optimize=seed % 2 == 0)
    for n, m in itertools.product((1, 2, 3, 5, 9, 14), (1, 2, 4, 9)):
        x = np.arange(n, dtype=np.float32)
        found = graph.run([crt.from_numpy(x), crt.ones(m)])
        for got, chain in zip(found, makers, strict=True):
            assert got.tolist() == apply(x, m, chain).tolist(), (chain, n, m)


def test_a_view_that_a_size_is_too_small_for_reads_nothing_beyond() -> None:
    """`narrow` keeps its length; a run with fewer rows is refused."""
    graph = finalized(lambda given: [crt.narrow(given[0], 0, 2, 3) * 1.0], spec(dims=[-1]))
    assert graph.run([crt.arange(6).to(crt.float32)])[0].tolist() == [2.0, 3.0, 4.0]
    for n in (4, 1):
        with pytest.raises(InvalidArgumentError, match="does not lie within"):
            graph.run([crt.ones(n)])
