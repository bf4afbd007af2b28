"""Queries against networkx on random graphs: several inputs and outputs, nodes with several output
ports, parallel edges, absent operands, nodes made in any order."""

from __future__ import annotations

import functools
import math
import random

import networkx as nx
import pytest

from clika_runtime._native import _graph
from clika_runtime.errors import InvalidArgumentError

from .random_graphs import blueprint, build

COUNT = 1000  # graphs; each check takes all or every nth of them
ROOT, SINK = "root", "sink"


@functools.cache
def case(seed):
    rng = random.Random(seed)
    plan = blueprint(rng)
    graph, nodes = build(plan, rng)
    rank = {node: i for i, node in enumerate(nodes)}
    return plan, graph, nodes, rank, plan.networkx(), rng


def cases(step=1):
    for seed in range(0, COUNT, step):
        yield case(seed)


def with_ends(plan, oracle):
    """The oracle with a root before the inputs and a sink behind what is returned."""
    graph = nx.DiGraph(oracle)
    graph.add_edges_from((ROOT, node) for node in range(plan.inputs))
    graph.add_edges_from((node, SINK) for node, _ in plan.returned)
    graph.add_nodes_from([ROOT, SINK])
    return graph


def key(edge, rank):
    return rank[edge.src()], edge.src_port(), rank[edge.dst()], edge.dst_port()


def test_the_graphs_are_varied():
    plans = [item[0] for item in cases()]
    assert (
        sum(len(plan.edges()) != len({(a, c) for a, _, c, _ in plan.edges()}) for plan in plans)
        > 300
    )
    assert sum(len({node for node, _ in plan.returned}) > 1 for plan in plans) > 200
    assert sum(plan.inputs > 1 for plan in plans) > 500
    assert (
        sum([n.name for n in item[1].nodes()] != [n.name for n in item[2]] for item in cases())
        > 300
    )


def test_nodes_and_edges():
    for plan, graph, nodes, rank, oracle, _ in cases():
        number = {node: graph.node_id(node.name) for node in nodes}
        expected = nx.lexicographical_topological_sort(
            oracle,
            key=lambda i: (i >= plan.inputs, number[nodes[i]]),
        )
        listed = graph.nodes()
        assert [rank[node] for node in listed] == list(expected)
        place = {node: at for at, node in enumerate(listed)}
        found = [key(edge, rank) for edge in graph.edges()]
        assert sorted(found) == sorted(plan.edges())
        assert found == sorted(found, key=lambda edge: (place[nodes[edge[2]]], edge[3]))
        for src in nodes[:3]:
            for dst in nodes:
                between = [key(edge, rank) for edge in graph.edges_between(src, dst)]
                assert between == [
                    e for e in plan.edges() if (e[0], e[2]) == (rank[src], rank[dst])
                ]


def test_walks():
    for _, graph, nodes, rank, oracle, rng in cases():
        start = rng.choice(nodes)
        place = {node: at for at, node in enumerate(graph.nodes())}
        for backward in (False, True):
            view = oracle.reverse(copy=False) if backward else oracle
            direction = "backward" if backward else "forward"

            # A breadth-first walk by the rule of the documentation, over networkx's edges.
            expected = [start]
            for node in expected:
                ends = [
                    (ports[1] if backward else (ports[0], place[nodes[far]]), far)
                    for _, far, ports in view.out_edges(rank[node], keys=True)
                ]
                for _, far in sorted(ends):
                    if nodes[far] not in expected:
                        expected.append(nodes[far])
            assert graph.walk(start, direction=direction) == expected
            relatives = graph.ancestors(start) if backward else graph.descendants(start)
            reached = (nx.ancestors if backward else nx.descendants)(oracle, rank[start])
            assert relatives == expected[1:]
            assert {rank[node] for node in relatives} == reached

            depth = rng.randint(0, 4)
            lengths = nx.single_source_shortest_path_length(view, rank[start], cutoff=depth)
            bounded = graph.walk(start, direction=direction, max_depth=depth)
            assert {rank[node] for node in bounded} == set(lengths)
            assert [lengths[rank[n]] for n in bounded] == sorted(lengths.values())
            most = rng.randint(0, 4)
            assert graph.walk(start, direction=direction, max_nodes=most) == expected[:most]
            listed = graph.ancestors if backward else graph.descendants
            assert listed(start, max_nodes=most) == expected[1:][:most]

            stops = set(rng.sample(nodes, min(2, len(nodes))))
            wanted = nx.DiGraph(view)
            wanted.remove_edges_from([e for stop in stops for e in view.out_edges(rank[stop])])
            reached = nx.descendants(wanted, rank[start])
            assert {rank[n] for n in listed(start, stop_at=stops)} == reached
            assert {rank[n] for n in listed(start, stop_at=stops.__contains__)} == reached
            odd = nx.subgraph_view(view, filter_edge=lambda a, b, k: (a + b + k[0] + k[1]) % 2)
            kept = listed(start, edge_filter=lambda edge: sum(key(edge, rank)) % 2)  # noqa: B023
            assert {rank[node] for node in kept} == nx.descendants(odd, rank[start])


def test_orders():
    for plan, graph, nodes, rank, oracle, rng in cases():
        layers = [{rank[n] for n in layer} for layer in graph.topological_generations()]
        assert layers == [set(layer) for layer in nx.topological_generations(oracle)]
        depths = graph.depths()
        assert list(depths) == graph.nodes()
        assert all(rank[n] in layers[depth] for n, depth in depths.items())
        orders = [graph.topological_order(o) for o in ("deterministic", "structural", "min_memory")]
        orders += [graph.random_topological_order(rng.getrandbits(64)) for _ in range(3)]
        for order in orders:
            assert graph.is_topological_order(order)
            assert sorted(rank[node] for node in order) == list(range(len(nodes)))
            place = {node: i for i, node in enumerate(order)}
            assert all(place[nodes[a]] < place[nodes[b]] for a, _, b, _ in plan.edges())
        shuffled = rng.sample(nodes, len(nodes))
        place = {node: i for i, node in enumerate(shuffled)}
        valid = all(place[nodes[a]] < place[nodes[b]] for a, _, b, _ in plan.edges())
        assert graph.is_topological_order(shuffled) == valid
        assert not graph.is_topological_order(nodes[1:])
        assert not graph.is_topological_order([*orders[0], orders[0][0]])


def test_structural_order_depends_on_the_structure_alone():
    for plan, _, _, _, _, rng in cases(3):
        orders = set()
        for _ in range(3):
            graph, nodes = build(plan, rng)
            outputs = [graph.producer_id(value)[0] for _, value in graph.output_list()]
            live = {nodes[i] for i in range(plan.inputs)}
            for id in outputs:
                live |= {graph.node_view(id), *graph.ancestors(graph.node_view(id))}
            rank = {node: i for i, node in enumerate(nodes)}
            order = graph.topological_order("structural")
            assert set(order[: len(live)]) == live
            orders.add(tuple(rank[node] for node in order if node in live))
        assert len(orders) == 1


def peak(plan, order, rank):
    """Bytes live while each node runs, counted value by value."""
    readers = {}
    for src, port, dst, _ in plan.edges():
        readers.setdefault((src, port), set()).add(dst)
    held, live, most = set(plan.returned), set(), 0
    left = {value: set(reading) for value, reading in readers.items()}
    for node in (rank[view] for view in order):
        if node >= plan.inputs:
            live |= {(node, port) for port in range(len(plan.outputs_of[node]))}
        most = max(most, sum(plan.size(*value) for value in live))
        for reading in left.values():
            reading.discard(node)
        live -= {value for value in live if not left.get(value) and value not in held}
    return most


def test_min_memory_order():
    better = 0
    for plan, graph, _, rank, _, _ in cases(2):
        made, least = graph.topological_order(), graph.topological_order("min_memory")
        assert _graph.peak_bytes(graph, made) == peak(plan, made, rank)
        assert _graph.peak_bytes(graph, least) == peak(plan, least, rank)
        assert peak(plan, least, rank) <= peak(plan, made, rank)
        better += peak(plan, least, rank) < peak(plan, made, rank)
    assert better > 50


def test_paths():
    for plan, graph, nodes, rank, oracle, rng in cases():
        src, dst = sorted(rng.choices(range(len(nodes)), k=2))
        cutoff = rng.choice([None, None, 0, 1, 2, 3, 5])
        avoided = {node for node in range(len(nodes)) if rng.random() < 0.1}
        odd = rng.random() < 0.3
        options = {"cutoff": cutoff, "avoid": [nodes[node] for node in avoided]}
        if odd:
            options["edge_filter"] = lambda edge: sum(key(edge, rank)) % 2  # noqa: B023
        kept = nx.MultiDiGraph(
            nx.subgraph_view(
                oracle,
                filter_node=lambda n: n not in avoided,  # noqa: B023
                filter_edge=lambda a, b, k: not odd or (a + b + k[0] + k[1]) % 2,  # noqa: B023
            )
        )
        paths = edge_paths = []
        if src in kept and dst in kept:
            paths = list(nx.all_simple_paths(nx.DiGraph(kept), src, dst, cutoff))
            edge_paths = [
                [(a, k[0], b, k[1]) for a, b, k in path]
                for path in nx.all_simple_edge_paths(kept, src, dst, cutoff)
            ]
        ends = nodes[src], nodes[dst]
        found = [[rank[n] for n in path] for path in graph.all_simple_paths(*ends, **options)]
        assert sorted(found) == sorted(paths)
        found_edges = [
            [key(edge, rank) for edge in path]
            for path in graph.all_simple_edge_paths(*ends, **options)
        ]
        assert sorted(found_edges) == sorted(edge_paths)
        assert graph.count_paths(*ends, **options) == len(paths)
        assert graph.has_path(*ends, **options) == bool(paths)
        shortest = [rank[node] for node in graph.shortest_path(*ends, **options)]
        assert shortest == min(found, key=len, default=[])
        limit = rng.randint(0, 3)
        limited = graph.all_simple_paths(*ends, **options, limit=limit)
        assert [[rank[n] for n in path] for path in limited] == found[:limit]
        # No path leads back.
        if src != dst:
            assert not graph.has_path(nodes[dst], nodes[src])
            assert list(graph.all_simple_paths(nodes[dst], nodes[src])) == []

        high = rng.choice([0, 1, 9])  # many, some, few paths cost the same
        costs = {edge: float(rng.randint(-high // 3, high)) for edge in plan.edges()}
        cost = lambda edge: costs[key(edge, rank)]  # noqa: B023, E731
        path = graph.shortest_path(*ends, **options, edge_cost=cost)
        totals = [(sum(costs[edge] for edge in steps), len(steps)) for steps in edge_paths]
        if not totals:
            assert (path.nodes, path.edges, path.cost) == ([], [], math.inf)
            continue
        steps = [key(edge, rank) for edge in path.edges]
        assert (path.cost, len(steps)) == min(totals)
        assert steps in edge_paths
        assert path.cost == sum(costs[edge] for edge in steps)
        assert [rank[node] for node in path.nodes] == [src, *(edge[2] for edge in steps)]


def test_critical_path():
    for plan, graph, nodes, rank, _, rng in cases():
        low = rng.choice([0, -5])
        of_node = [float(rng.randint(low, 9)) for _ in nodes]
        of_edge = {edge: float(rng.randint(low, 9)) for edge in plan.edges()}
        # The costliest path is the cheapest one of negated costs.
        negated = nx.MultiDiGraph()
        for node, cost in enumerate(of_node):
            negated.add_edge(ROOT, node, weight=-cost)
        for edge, cost in of_edge.items():
            negated.add_edge(edge[0], edge[2], weight=-cost - of_node[edge[2]])
        lengths = nx.single_source_bellman_ford_path_length(negated, ROOT)
        path = graph.critical_path(
            lambda node: of_node[rank[node]],  # noqa: B023
            edge_cost=lambda edge: of_edge[key(edge, rank)],  # noqa: B023
        )
        assert path.cost == max(-length for node, length in lengths.items() if node != ROOT)
        assert path.cost == sum(of_node[rank[n]] for n in path.nodes) + sum(
            of_edge[key(edge, rank)] for edge in path.edges
        )
        assert [edge.src() for edge in path.edges] == path.nodes[:-1]
        assert [edge.dst() for edge in path.edges] == path.nodes[1:]


def test_reachability_and_components():
    for _, graph, nodes, rank, oracle, rng in cases():
        parts = [{rank[n] for n in part} for part in graph.weakly_connected_components()]
        assert sorted(map(sorted, parts)) == sorted(
            map(sorted, nx.weakly_connected_components(oracle))
        )
        assert graph.find_cycle() == []
        for _ in range(4):
            src, dst = rng.choices(range(len(nodes)), k=2)
            reached = nx.has_path(oracle, src, dst)
            assert graph.has_path(nodes[src], nodes[dst]) == reached
            longer = nx.DiGraph([*oracle.edges(), (src, dst)])
            closes = not nx.is_directed_acyclic_graph(longer)
            assert graph.would_create_cycle(nodes[src], nodes[dst]) == closes
        chosen = set(rng.sample(range(len(nodes)), rng.randint(0, min(4, len(nodes)))))
        views = [nodes[node] for node in chosen]
        above = set().union(*(nx.ancestors(oracle, node) for node in chosen))
        below = set().union(*(nx.descendants(oracle, node) for node in chosen))
        assert {rank[n] for n in graph.producer_cone(views)} == above - chosen
        assert {rank[n] for n in graph.consumer_cone(views)} == below - chosen
        assert graph.is_convex(views) == (not (above & below) - chosen)


def test_dominators():
    for plan, graph, _, rank, oracle, _ in cases():
        rooted = with_ends(plan, oracle)
        expected = nx.immediate_dominators(rooted, ROOT)
        unreached = oracle.subgraph([node for node in oracle if node not in expected])
        others = nx.DiGraph(unreached)
        others.add_node(ROOT)
        others.add_edges_from((ROOT, n) for n in unreached if unreached.in_degree(n) == 0)
        expected = {**expected, **nx.immediate_dominators(others, ROOT)}
        found = {rank[node]: rank[last] for node, last in graph.dominators().items()}
        assert found == {
            node: node if expected[node] == ROOT else expected[node] for node in oracle
        }


def test_split_and_merge_points():
    for plan, graph, nodes, rank, oracle, rng in cases():
        ends = with_ends(plan, oracle)

        def crosses_all(start, node, ends=ends):
            """Whether every path from a node to the outputs crosses another; there is one."""
            if start == node:
                return nx.has_path(ends, start, SINK)
            without = nx.restricted_view(ends, [node], [])
            return nx.has_path(ends, start, SINK) and not nx.has_path(without, start, SINK)

        expected = [node for node in graph.nodes() if crosses_all(ROOT, rank[node])]
        assert graph.split_points() == expected
        given = rng.sample(nodes, rng.randint(1, min(3, len(nodes))))
        common = [
            node for node in graph.nodes() if all(crosses_all(rank[n], rank[node]) for n in given)
        ]
        assert graph.merge_point(given) == (common[0] if common else None)


def test_regions():
    served = 0
    for plan, graph, nodes, rank, oracle, rng in cases():
        for _ in range(4):
            entry, exit = sorted(rng.choices(range(len(nodes)), k=2))
            inside = {entry, *nx.descendants(oracle, entry)} & {exit, *nx.ancestors(oracle, exit)}
            single = all(
                (a in inside or b == entry) and (b in inside or a == exit)
                for a, _, b, _ in plan.edges()
                if (b in inside or a in inside) and not (a == exit or b == entry)
            ) and not any(node in inside - {exit} for node, _ in plan.returned)
            if inside and single:
                served += 1
                found = graph.region(nodes[entry], nodes[exit])
                assert {rank[node] for node in found} == inside
                assert found == [node for node in graph.nodes() if rank[node] in inside]
            else:
                with pytest.raises(InvalidArgumentError, match="region: "):
                    graph.region(nodes[entry], nodes[exit])
    assert served > 500


def network(plan, before, after):
    """The cut as a flow network: a value is cut on the arc from its maker."""
    flow = nx.DiGraph()
    flow.add_nodes_from([ROOT, SINK])
    flow.add_edges_from((ROOT, n) for n in [*range(plan.inputs), *before] if n not in after)
    flow.add_edges_from((node, SINK) for node in after)
    for node, values in enumerate(plan.outputs_of):
        for port in range(len(values)):
            flow.add_edge(node, (node, port), capacity=plan.size(node, port))
    for node, port, reader, _ in plan.edges():
        flow.add_edge((node, port), reader)
        flow.add_edge(reader, node)
    flow.add_edges_from((value, SINK) for value in plan.returned)
    return flow


def test_min_value_cut():
    refused = 0
    for plan, graph, nodes, rank, oracle, rng in cases():
        count = rng.choice([0, 0, 1, 2])
        before = rng.sample(range(len(nodes)), min(count, len(nodes)))
        after = rng.sample(range(len(nodes)), min(rng.choice([0, 0, 1, 2]), len(nodes)))
        pins = [nodes[node] for node in before], [nodes[node] for node in after]
        if any(nx.has_path(oracle, a, b) for a in after for b in before):
            refused += 1
            with pytest.raises(InvalidArgumentError, match=r"min_value_cut: '(op|in)_"):
                graph.min_value_cut(*pins)
            continue
        # An input behind another pinned one feeds nothing of the first part.
        flow = network(plan, before, after)
        cut = graph.min_value_cut(*pins)
        # networkx gives the cut nearest the sink: of the reversed network, that is ours.
        size, (_, first) = nx.minimum_cut(flow.reverse(), SINK, ROOT)
        crossing = [
            (node, port)
            for node in (rank[view] for view in graph.nodes())
            for port in range(len(plan.outputs_of[node]))
            if node in first
            and (
                (node, port) in plan.returned
                or any(r not in first for s, p, r, _ in plan.edges() if (s, p) == (node, port))
            )
        ]
        assert cut.bytes == size == sum(plan.size(*value) for value in crossing)
        assert [(rank[value.producer()], value.port) for value in cut.values] == crossing
    assert refused > 50


def test_to_networkx():
    for plan, graph, nodes, _, oracle, _ in cases(5):
        made = graph.to_networkx()
        assert list(made) == graph.nodes()
        named = nx.relabel_nodes(oracle, dict(enumerate(nodes)))
        assert set(made.edges(keys=True)) == set(named.edges(keys=True))
        assert made.number_of_edges() == len(plan.edges())
