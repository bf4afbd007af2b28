"""Queries of a graph of 100,000 nodes, the views of the answer included.

    python -m benchmarks.graph_queries [--nodes N] [--rounds N] [--json OUT] [NAME...]

Two graphs: `blocks` is a decoder (normalization, attention, gated MLP, residual sums), `random`
reads up to three of the thousand nodes before. The graph is edited before each measurement, so that
the arrays of its structure are made again within it. The figure is the median over rounds, in
seconds of processor time (queries use one thread), so that other load matters little.
`min_value_cut` is measured at 2,000 nodes too.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clika_runtime import dtypes
from clika_runtime._native._graph import GraphStore
from clika_runtime.graph import VisitAction
from clika_runtime.graph.queries import Queries


class Graph(Queries, GraphStore):
    """A store with queries; nodes are made by their reads."""

    def make(self, op: str, *reads: int, size: int = 64) -> int:
        """The number of the node's value."""
        value = self.add_value(dtypes.float32.code, 0, 0, [8, size])
        self.make_node(op, f"{op or 'x'}_{self.counts_of()[1]}", reads, [value])
        return value


def blocks(nodes: int) -> Graph:
    graph = Graph()
    stream, mask = graph.make(""), graph.make("")
    while graph.counts_of()[1] < nodes:
        normed = graph.make("rms_norm", stream)
        query, key, value = (graph.make("linear", normed) for _ in range(3))
        scores = graph.make("softmax", graph.make("add", graph.make("matmul", query, key), mask))
        mixed = graph.make("linear", graph.make("matmul", scores, value))
        stream = graph.make("add", stream, mixed)
        normed = graph.make("rms_norm", stream)
        gate, up = (graph.make("linear", normed, size=256) for _ in range(2))
        gated = graph.make("mul", graph.make("silu", gate, size=256), up, size=256)
        stream = graph.make("add", stream, graph.make("linear", gated))
    graph.set_output_list([("y", stream)])
    return graph


def scattered(nodes: int) -> Graph:
    graph, rng = Graph(), random.Random(1)
    values = [graph.make("") for _ in range(10)]
    while len(values) < nodes:
        reads = rng.choices(values[-1000:], k=rng.randint(1, 3))
        values.append(graph.make("op", *reads, size=rng.randint(1, 256)))
    graph.set_output_list([(f"y{i}", value) for i, value in enumerate(values[-10:])])
    return graph


def queries(graph: Graph) -> dict[str, Callable[[], Any]]:
    order = graph.nodes()
    first, last, some = order[0], order[-1], order[len(order) // 2 : len(order) // 2 + 1000]
    first = graph.ancestors(last)[-1]
    return {
        "nodes": graph.nodes,
        "edges": graph.edges,
        "edges_between": lambda: graph.edges_between(first, last),
        "node": lambda: graph.node(last.name),
        "find_nodes predicate": lambda: graph.find_nodes(lambda node: node.in_degree() == 2),
        "find_nodes_by_name": lambda: graph.find_nodes_by_name(".*_[0-9]*"),
        "walk": lambda: graph.walk(first),
        "walk edge_filter": lambda: graph.walk(first, edge_filter=lambda edge: True),
        "descendants": lambda: graph.descendants(first),
        "ancestors": lambda: graph.ancestors(last),
        "visit": lambda: graph.visit(first, lambda node: VisitAction.Continue),
        "topological_order deterministic": graph.topological_order,
        "topological_order structural": lambda: graph.topological_order("structural"),
        "topological_order min_memory": lambda: graph.topological_order("min_memory"),
        "topological_generations": graph.topological_generations,
        "depths": graph.depths,
        "random_topological_order": lambda: graph.random_topological_order(7),
        "is_topological_order": lambda: graph.is_topological_order(order),
        "all_simple_paths limit=1": lambda: list(graph.all_simple_paths(first, last, limit=1)),
        "all_simple_edge_paths limit=1": lambda: list(
            graph.all_simple_edge_paths(first, last, limit=1)
        ),
        "count_paths": lambda: graph.count_paths(first, last),
        "shortest_path": lambda: graph.shortest_path(first, last),
        "shortest_path edge_cost": lambda: graph.shortest_path(
            first, last, edge_cost=lambda edge: 1.0
        ),
        "has_path": lambda: graph.has_path(first, last),
        "critical_path": lambda: graph.critical_path(lambda node: 1.0),
        "find_cycle": graph.find_cycle,
        "would_create_cycle": lambda: graph.would_create_cycle(last, first),
        "weakly_connected_components": graph.weakly_connected_components,
        "dominators": graph.dominators,
        "split_points": graph.split_points,
        "merge_point": lambda: graph.merge_point(some),
        "region": lambda: graph.region(last, last),
        "producer_cone": lambda: graph.producer_cone([last]),
        "consumer_cone": lambda: graph.consumer_cone([first]),
        "is_convex": lambda: graph.is_convex(some),
        "min_value_cut": graph.min_value_cut,
        "to_networkx": graph.to_networkx,
    }


def measure(graph: Graph, rounds: int, wanted: Callable[[str], bool]) -> dict[str, float]:
    found = {}
    for name, query in queries(graph).items():
        if not wanted(name):
            continue
        times = []
        for _ in range(rounds):
            graph.set_output_list(graph.output_list())  # an edit
            started = time.process_time()
            answer = query()
            times.append(time.process_time() - started)
            del answer
        found[name] = statistics.median(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return not options.names or any(part in name for part in options.names)

    results: dict[str, dict[str, float]] = {}
    for label, make in {"blocks": blocks, "random": scattered}.items():
        graph = make(options.nodes)
        counts = f"{len(graph.nodes())} nodes, {len(graph.edges())} edges"
        results[f"{label}: {counts}"] = measure(graph, options.rounds, wanted)
        small = make(2000)
        counts = f"{len(small.nodes())} nodes, {len(small.edges())} edges"
        results[f"{label}: {counts}"] = measure(
            small, options.rounds, lambda name: name == "min_value_cut" and wanted(name)
        )
    for label, times in results.items():
        print(label)
        for name, seconds in times.items():
            print(f"  {name:34}{seconds:8.3f} s")
    if options.json:
        report = {
            "machine": platform.machine(),
            "rounds": options.rounds,
            "cpu_seconds": results,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
