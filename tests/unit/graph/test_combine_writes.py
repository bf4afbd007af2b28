"""Split, merge and extract of random programs with views, writes in place and a captured state:
each call either refuses, or what comes out computes what the eager function computes, bit for bit,
over two runs, and leaves the same state."""

from __future__ import annotations

import random

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.graph import extract, merge, split
from clika_runtime.graph.legal import check_legal

from .traced_graphs import bits, form


def draw(seed):
    return crt.tensor(np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32))


class Program:
    """A function of one [2, 3] tensor, the same at every call, and the state that it writes."""

    def __init__(self, seed):
        rng = random.Random(seed)
        kinds = ["new", "new", "view", "row", "slice", "write", "write", "state"]
        count = rng.randint(3, 10)
        self.steps = [
            (rng.choice(kinds), rng.random(), rng.random(), rng.random()) for _ in range(count)
        ]
        self.returned = [rng.random() for _ in range(rng.randint(1, 3))]
        self.names = [f"y{at}" for at in range(len(self.returned))]
        self.has_state = rng.random() < 0.5
        self.start = draw(seed)
        self.state = draw(seed)
        self.x = draw(seed + 1)

    def __call__(self, t):
        values = [t[0] * 1.0, crt.relu(t[0])] + [self.state] * self.has_state

        def pick(place):
            return values[int(place * len(values))]

        for kind, a, b, c in self.steps:
            value, other = pick(a), pick(b)
            if kind == "new":
                values.append(value.reshape(-1)[:2] * 2.0 + 1.0 if c < 0.3 else crt.neg(value))
            elif kind == "view":
                whole = value.is_contiguous()
                values.append(value.reshape(-1) if whole else value.transpose(0, -1))
            elif kind == "row" and value.ndim > 1:
                values.append(value[0])
            elif kind == "slice" and value.shape[-1] > 1:
                values.append(value[..., int(c * value.shape[-1]) :])
            elif kind == "write":
                if tuple(other.shape) == tuple(value.shape) and c < 0.5:
                    value.add_(other * 0.5)
                elif c < 0.8:
                    value.mul_(2.0)
                else:
                    value.add_(other.sum())
            elif kind == "state" and self.has_state:
                values.append(self.state + 0.0 if c < 0.5 else self.state[0])
        return [pick(place) + 0.0 if place < 0.7 else pick(place) for place in self.returned]

    def graph(self):
        spec = crt.TensorSpec("x", crt.float32, [2, 3])
        return crt.trace(self, [spec], output_names=self.names).graph

    def outcome(self, run):
        """The bits of two runs from the state at the start, and of the state they leave."""
        crt.copy_(self.state, self.start)
        found = []
        for _ in range(2):
            results = run()
            found.append([bits(results[name]) for name in self.names])
        return found, bits(self.state)

    def of_graph(self, graph):
        check_legal(graph)
        graph.finalize()
        return self.outcome(
            lambda: dict(zip(graph.output_names(), graph.run({"x": self.x}), strict=True))
        )

    def of_parts(self, parts, links):
        """Each part on its own; what a part gives that is a view enters the next one compact."""
        sources = {target: source for source, target in links}
        for part in parts.values():
            check_legal(part)
            part.finalize()

        def run():
            known = {"x": self.x}
            for name, part in parts.items():
                given = {
                    label: known[sources.get(f"{name}.{label}", label)].contiguous()
                    for label in part.input_names()
                }
                for label, value in zip(part.output_names(), part.run(given), strict=True):
                    known[f"{name}.{label}"] = known[label] = value
            return known

        return self.outcome(run)


def check(seed):
    """How many splits were accepted."""
    program = Program(seed)
    wanted = program.outcome(lambda: dict(zip(program.names, program([program.x]), strict=True)))
    assert program.of_graph(program.graph()) == wanted
    accepted = 0
    rng = random.Random(seed)
    for turn in range(3):
        graph = program.graph()
        order = {node.name: at for at, node in enumerate(n for n in graph.nodes() if n.op_code)}
        cut = rng.randint(0, len(order))
        before = form(graph)
        try:
            parts, links = split(graph, lambda node: "ba"[order[node.name] < cut])  # noqa: B023
        except InvalidArgumentError:
            assert form(graph) == before
            continue
        accepted += len(parts) > 1
        if turn % 2:
            assert program.of_parts(parts, links) == wanted
        else:
            assert program.of_graph(merge(parts, links)[0]) == wanted
    graph = program.graph()
    value = graph.value_view(dict(graph.output_list())["y0"])
    part = extract(graph, [graph.node("x").output(0)], [value])
    check_legal(part)
    part.finalize()
    crt.copy_(program.state, program.start)
    assert bits(part.run([program.x])[0]) == wanted[0][0][0]
    return accepted


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_programs(first):
    assert sum(check(seed) for seed in range(first, first + 20)) > 5
