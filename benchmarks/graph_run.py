"""What tracing, finalizing and running a graph cost beyond the kernels, and how close planned
memory is to its lower bound.

    python -m benchmarks.graph_run [--json OUT]

Chains of relu over 8 numbers, whose kernel takes about 40 ns: the time of a run is that of the
graph. Memory: random graphs, an MLP, attention blocks and a small convolutional network; the arena
that a run uses, over the most bytes that are alive at one time. Every figure is the best of the
rounds: other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import clika_runtime as crt

ROUNDS = 7
RUN_US = 20.0  # a run of 10 nodes may cost this
NODE_US = 0.3  # and each node of a large graph this
MEMORY = 1.1  # of the lower bound


def chain(length: int) -> Any:
    def fn(x: Any) -> Any:
        for _ in range(length):
            x = crt.relu(x)
        return x

    return fn


def cost(length: int) -> dict[str, float]:
    best = dict.fromkeys(("trace", "finalize", "run"), float("inf"))
    x = crt.ones(8)
    for _ in range(ROUNDS if length <= 1000 else 3):
        started = time.perf_counter()
        graph = crt.trace(chain(length), example_inputs=(x,)).graph
        traced = time.perf_counter()
        graph.finalize()
        done = time.perf_counter()
        best["trace"] = min(best["trace"], traced - started)
        best["finalize"] = min(best["finalize"], done - traced)
        count = max(3, 20000 // length)
        for _ in range(3):
            graph.run([x])
        started = time.perf_counter()
        for _ in range(count):
            graph.run([x])
        best["run"] = min(best["run"], (time.perf_counter() - started) / count)
    return {name: seconds * 1e6 for name, seconds in best.items()}


def random_graph(seed: int) -> Any:
    rng = np.random.default_rng(seed)

    def fn(x: Any) -> Any:
        values = [x[: int(rng.integers(100, 4000))] * 1.0 for _ in range(3)]
        for _ in range(120):
            a = values[int(rng.integers(max(0, len(values) - 12), len(values)))]
            kind = int(rng.integers(4))
            if kind == 0:
                values.append(crt.relu(a))
            elif kind == 1:
                values.append(crt.cat([a, a], 0)[: int(rng.integers(50, 4000))] + 1.0)
            elif kind == 2:
                b = values[int(rng.integers(len(values)))]
                n = min(int(a.shape[0]), int(b.shape[0]))
                values.append(a[:n] + b[:n])
            else:
                values.append(a * 2.0)
        return [value.sum() for value in values[-4:]]

    return fn, (crt.ones(4000),)


def mlp() -> Any:
    weights = [crt.rand(256, 256, seed=i) for i in range(8)]

    def fn(x: Any) -> Any:
        for weight in weights:
            x = x + crt.relu(x @ weight)
        return x

    return fn, (crt.ones(64, 256),)


def attention() -> Any:
    w = [[crt.rand(128, 128, seed=10 * i + j) for j in range(6)] for i in range(4)]

    def fn(x: Any) -> Any:
        for wq, wk, wv, wo, up, down in w:
            h = crt.layer_norm(x, (128,))
            q, k, v = ((h @ m).reshape(-1, 4, 32).transpose(0, 1) for m in (wq, wk, wv))
            a = crt.softmax(q @ k.transpose(1, 2) * 0.17, -1) @ v
            x = x + a.transpose(0, 1).reshape(-1, 128) @ wo
            x = x + crt.gelu(crt.layer_norm(x, (128,)) @ up) @ down
        return x

    return fn, (crt.ones(48, 128),)


def convolutions() -> Any:
    w = [crt.rand(32, 3, 3, 32, seed=i) for i in range(6)]
    first = crt.rand(32, 3, 3, 3, seed=9)

    def fn(x: Any) -> Any:
        x = crt.relu(crt.conv2d(x, first, padding=1))
        for i in range(0, 6, 2):
            y = crt.relu(crt.conv2d(x, w[i], padding=1))
            x = crt.relu(x + crt.conv2d(y, w[i + 1], padding=1))
            x = crt.max_pool2d(x, 2)
        return x.mean((1, 2))

    return fn, (crt.ones(1, 32, 32, 3),)


def memory() -> dict[str, float]:
    cases = {f"random {seed}": random_graph(seed) for seed in range(8)}
    cases |= {"mlp": mlp(), "attention": attention(), "convolutions": convolutions()}
    found = {}
    for name, (fn, example) in cases.items():
        graph = crt.trace(fn, example_inputs=example).graph
        graph.finalize()
        graph.run(list(example))
        stats = graph.stats()
        found[name] = stats["arena_bytes"] / max(stats["arena_lower_bound"], 1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    costs = {length: cost(length) for length in (10, 100, 1000, 10000)}
    good = True
    for length, found in costs.items():
        node = found["run"] / length
        bad = found["run"] > RUN_US if length == 10 else length >= 1000 and node > NODE_US
        good = good and not bad
        print(
            f"{length:6} nodes: trace {found['trace'] / length:6.2f} us a node, finalize "
            f"{found['finalize'] / length:6.2f}, run {found['run']:8.2f} us, {node:6.3f} a node"
            f"{'  <' if bad else ''}"
        )
    ratios = memory()
    for name, ratio in ratios.items():
        good = good and ratio <= MEMORY
        print(
            f"memory, {name:14} {ratio:6.3f} of the lower bound{'' if ratio <= MEMORY else '  <'}"
        )
    if options.json:
        figures = {"microseconds": costs, "arena over lower bound": ratios}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
