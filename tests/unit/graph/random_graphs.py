"""Random graphs for tests of queries: built through the primitive edits of a store, and kept beside
it as plain facts that networkx can be asked about."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import networkx as nx

from clika_runtime import dtypes
from clika_runtime._native._graph import GraphStore, Node
from clika_runtime.graph.queries import Queries

FLOAT32, INT8 = dtypes.float32.code, dtypes.int8.code


class Graph(Queries, GraphStore):
    """A store with queries and nothing else."""


@dataclass
class Blueprint:
    """Nodes by rank: each reads nodes of lower rank."""

    inputs: int
    outputs_of: list[list[tuple[int, int]]]  # per node and output port: (dtype, elements)
    reads: list[list[tuple[int, int] | None]]  # per node and input port: (node, output port)
    returned: list[tuple[int, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.reads)

    def edges(self) -> list[tuple[int, int, int, int]]:
        """(node, output port, reader, input port)."""
        return [
            (*read, reader, port)
            for reader, reads in enumerate(self.reads)
            for port, read in enumerate(reads)
            if read is not None
        ]

    def size(self, node: int, port: int) -> int:
        dtype, elements = self.outputs_of[node][port]
        return elements * (4 if dtype == FLOAT32 else 1)

    def networkx(self) -> nx.MultiDiGraph:
        graph = nx.MultiDiGraph()
        graph.add_nodes_from(range(len(self)))
        for src, src_port, dst, dst_port in self.edges():
            graph.add_edge(src, dst, (src_port, dst_port))
        return graph


def blueprint(rng: random.Random, most: int = 12) -> Blueprint:
    inputs = rng.randint(1, 3)
    count = inputs + rng.randint(0, most - inputs)
    made = [
        [(rng.choice([FLOAT32, INT8]), rng.randint(0, 9)) for _ in range(rng.choice([1, 1, 2, 3]))]
        for _ in range(count)
    ]
    reads: list[list[tuple[int, int] | None]] = [[] for _ in range(count)]
    near = rng.randint(1, most)  # graphs from chains to wide ones
    for node in range(inputs, count):
        for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3])):
            src = rng.randint(max(0, node - near), node - 1)
            reads[node].append((src, rng.randrange(len(made[src]))))
        if reads[node] and rng.random() < 0.3:
            reads[node].append(reads[node][0])  # parallel edges
        if rng.random() < 0.1:
            reads[node].insert(rng.randint(0, len(reads[node])), None)
    graph = Blueprint(inputs, made, reads)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        src = rng.randint(max(0, count - 1 - near), count - 1)
        graph.returned.append((src, rng.randrange(len(made[src]))))
    return graph


def build(plan: Blueprint, rng: random.Random | None = None) -> tuple[Graph, list[Node]]:
    """The graph and its nodes by rank. With ``rng`` operators are made, and wired, in any order."""
    graph = Graph()
    order = list(range(plan.inputs, len(plan)))
    if rng is not None:
        rng.shuffle(order)
    order = [*range(plan.inputs), *order]
    ids: dict[int, int] = {}
    for number, node in enumerate(order):
        values = [
            graph.add_value(dtype, 0, 0, [elements]) for dtype, elements in plan.outputs_of[node]
        ]
        name = f"in_{node}" if node < plan.inputs else f"op_{number}"
        op = "" if node < plan.inputs else f"kind{len(plan.reads[node])}"
        ids[node] = graph.make_node(op, name, [-1] * len(plan.reads[node]), values)
    edges = plan.edges()
    if rng is not None:
        rng.shuffle(edges)
    for src, src_port, dst, dst_port in edges:
        graph.set_port(ids[dst], dst_port, graph.results(ids[src])[src_port])
    graph.set_output_list(
        [(f"y{i}", graph.results(ids[n])[port]) for i, (n, port) in enumerate(plan.returned)]
    )
    return graph, [graph.node_view(ids[node]) for node in range(len(plan))]
