"""Models on a GPU: decode, prefill, host time of a step; random weights of published shapes.

    python -m benchmarks.cuda_models [--peers] [--models qwen-bf16,llama-bf16,llama-q4,llama-q8]

Decode is 128 greedy tokens behind a prompt of 128, of one sequence and of eight; prefill a prompt
of 2,048. Beside each rate stands the part of the ceiling of the same run: for decode the bytes of
the weights against a copy on the device, for prefill the products of the layers against a large
bfloat16 product. Host time is what a step takes without the wait for its result. ``--peers`` adds
transformers with a static cache, compiled, for the dense models. The figures are written to
``benchmarks/results/cuda_models.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, choice, prompt
from benchmarks.random_models import LLAMA3_8B, QWEN2_5_0_5B, TINY, Published

PROMPT = 128
TOKENS = 128
PREFILL = 2048
BATCHES = (1, 8)


@dataclass(frozen=True)
class Case:
    """A model in a type, and the least rates and parts of ceilings wanted of it."""

    about: Published
    kind: str
    decode: tuple[float, float] | None = None  # tokens a second of one sequence, of eight
    prefill: float | None = None
    bandwidth: float | None = None  # percent, of one sequence


CASES = {
    "qwen-bf16": Case(QWEN2_5_0_5B, "bfloat16", (1200, 7000), 250_000),
    "llama-bf16": Case(LLAMA3_8B, "bfloat16", (198, 1350), 33_400),
    "llama-q4": Case(LLAMA3_8B, "Q4_K", bandwidth=45),
    "llama-q8": Case(LLAMA3_8B, "Q8_0", bandwidth=45),
    "tiny": Case(TINY, "bfloat16"),
    "tiny-q4": Case(TINY, "Q4_K"),
}
DEFAULT = ["qwen-bf16", "llama-bf16", "llama-q4", "llama-q8"]
HOST_MICROSECONDS = 30.0


# ---------------------------------------------------------------- ceilings
def ceilings(device: Any, small: bool) -> dict[str, float]:
    """Bytes a second that a copy reads and writes, operations a second of a bfloat16 product of
    random numbers: equal ones take less power, so that the clock stays a sixth higher."""
    import clika_runtime as crt

    def seconds(function: Callable[[], Any], repeat: int) -> float:
        function()
        best = float("inf")
        for _ in range(3):
            crt.synchronize(device)
            start = time.perf_counter()
            for _ in range(repeat):
                function()
            crt.synchronize(device)
            best = min(best, (time.perf_counter() - start) / repeat)
        return best

    n = 64 if small else 8192
    square = crt.randn(n, n, dtype=crt.bfloat16, device=device)
    multiplied = 2 * n**3 / seconds(lambda: crt.matmul(square, square), 10)
    square = crt.ones(1 << (12 if small else 29), dtype=crt.bfloat16, device=device)
    copied = 2 * square.nbytes / seconds(lambda: square.to(device, copy=True), 10)
    return {"copy_bytes_s": copied, "bf16_flop_s": multiplied}


# ---------------------------------------------------------------- ours
class Waits:
    """The seconds that steps have waited for results."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts the reads of results inside of it: the engine's one place where it waits."""
        from clika_runtime.modelverse import engine

        read = engine._results

        def timed(*given: Any) -> Any:
            start = time.perf_counter()
            try:
                return read(*given)
            finally:
                self.seconds += time.perf_counter() - start

        engine._results = timed
        try:
            yield
        finally:
            engine._results = read


class Ours:
    """An engine over a model with random weights."""

    def __init__(self, case: Case, device: Any) -> None:
        import clika_runtime as crt
        from benchmarks.random_models import random_model
        from clika_runtime.modelverse.cache import CacheConfig, KVCache
        from clika_runtime.modelverse.engine import Engine

        start = time.perf_counter()
        packed = case.kind not in ("bfloat16", "float16", "float32")
        rows = crt.bfloat16 if packed else crt.dtypes.by_name(case.kind)
        self.model = random_model(case.about, case.kind, device, rows)
        crt.synchronize(device)
        self.build_seconds = time.perf_counter() - start
        config = CacheConfig(
            PREFILL + PROMPT + TOKENS, max_sequences=max(BATCHES), dtype=rows, device=device
        )
        self.engine = Engine(self.model, KVCache(self.model.cache_specs(), config), chunk=PREFILL)

    def sizes(self) -> tuple[int, int]:
        """(bytes of weights that decoding a token reads, products of a token in the layers)."""
        from clika_runtime import nn

        nbytes = products = 0
        tied = bool(getattr(self.model, "tied", False))
        for name, module in self.model.named_modules():
            if isinstance(module, nn.Linear):
                nbytes += module.weight.nbytes
                if "head" not in name:
                    products += int(module.weight.shape[0]) * int(module.weight.shape[1])
            elif isinstance(module, nn.Embedding) and tied:
                nbytes += module.weight.nbytes
        return nbytes, products

    def decode(self, batch: int, tokens: int) -> tuple[float, float, float]:
        """Seconds of the steps behind the first token, host microseconds of a step, and the median
        microseconds of one."""
        from clika_runtime.modelverse.engine import Sampling, Work

        engine, greedy = self.engine, Sampling()
        sequences = [engine.cache.add() for _ in range(batch)]
        prompts = [prompt(PROMPT, self.model.vocab_size, seed) for seed in range(batch)]
        ids = engine.step([Work(s, p, greedy) for s, p in zip(sequences, prompts, strict=True)])
        waits = Waits()
        taken, hosts = [], []
        with waits.counted():
            for index in range(1, tokens + 1):
                before = waits.seconds
                start = time.perf_counter()
                work = [Work(s, (t,), greedy, index) for s, t in zip(sequences, ids, strict=True)]
                ids = engine.step(work)
                taken.append(time.perf_counter() - start)
                hosts.append(taken[-1] - (waits.seconds - before))
        for sequence in sequences:
            engine.cache.free(sequence)
        return sum(taken), statistics.median(hosts) * 1e6, statistics.median(taken) * 1e6

    def prefill(self, tokens: int) -> float:
        """Seconds from a prompt to its first token."""
        from clika_runtime.modelverse.engine import Sampling, Work

        sequence = self.engine.cache.add()
        ids = prompt(tokens, self.model.vocab_size, 1)
        start = time.perf_counter()
        self.engine.step([Work(sequence, ids, Sampling())])
        taken = time.perf_counter() - start
        self.engine.cache.free(sequence)
        return taken

    def graphs(self) -> dict[str, int]:
        """What the plans recorded and launched."""
        stats = [plan.stats() for plan in self.engine.plans]
        return {name: sum(one[name] for one in stats) for name in ("recordings", "replays")}


# ---------------------------------------------------------------- transformers
class Transformers:
    """The same shape in transformers: static cache, compiled steps."""

    def __init__(self, case: Case) -> None:
        import torch
        import transformers

        kinds = {
            "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
            "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        }
        config_class, model_class = kinds[case.about.config["model_type"]]
        config = config_class(**case.about.config)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device("cuda"):
                self.model = model_class(config).eval()
        finally:
            torch.set_default_dtype(before)
        self.vocabulary = case.about.config["vocab_size"]

    def decode(self, batch: int, tokens: int) -> float:
        """Seconds of the steps behind the first token."""
        import torch

        ids = torch.tensor([prompt(PROMPT, self.vocabulary, seed) for seed in range(batch)])
        ids = ids.cuda()

        def generate(count: int) -> float:
            torch.cuda.synchronize()
            start = time.perf_counter()
            with torch.no_grad():
                self.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    min_new_tokens=count,
                    max_new_tokens=count,
                    do_sample=False,
                    cache_implementation="static",
                    pad_token_id=0,
                )
            torch.cuda.synchronize()
            return time.perf_counter() - start

        for count in (tokens + 1, 1):
            generate(count)
        return min(generate(tokens + 1) for _ in range(2)) - min(generate(1) for _ in range(2))

    def prefill(self, tokens: int) -> float:
        """Seconds of one pass over a prompt that ends with its last logits."""
        import torch

        ids = torch.tensor([prompt(tokens, self.vocabulary, 1)]).cuda()
        best = float("inf")
        for _ in range(4):
            torch.cuda.synchronize()
            start = time.perf_counter()
            with torch.no_grad():
                self.model(ids, logits_to_keep=1).logits.argmax(-1).cpu()
            best = min(best, time.perf_counter() - start)
        return best


# ---------------------------------------------------------------- the table
def measure(name: str, device: Any, top: dict[str, float], small: bool) -> list[dict[str, Any]]:
    """The rows of a case."""
    case = CASES[name]
    model = Ours(case, device)
    nbytes, products = model.sizes()
    tokens, rounds = (12, 1) if small else (TOKENS, 3)
    about = {"case": name, "model": case.about.name, "kind": case.kind}
    rows = []
    for place, batch in enumerate(BATCHES):
        model.decode(batch, tokens)  # compiles kernels, records graphs
        found = [model.decode(batch, tokens) for _ in range(rounds)]
        seconds, host, step = (statistics.median(column) for column in zip(*found, strict=True))
        rows.append(
            {
                **about,
                "work": f"decode of {batch}",
                "tokens_s": batch * tokens / seconds,
                "step_us": step,
                "host_us": host,
                "host_target_us": HOST_MICROSECONDS,
                "percent": 100 * nbytes * tokens / seconds / top["copy_bytes_s"],
                "of": "the copy's bandwidth, bytes of the weights",
                "target": case.decode[place] if case.decode else None,
                "target_percent": case.bandwidth if batch == 1 else None,
            }
        )
    length = 64 if small else PREFILL
    model.prefill(length)
    seconds = statistics.median(model.prefill(length) for _ in range(2 if small else 7))
    rows.append(
        {
            **about,
            "work": f"prefill {length}",
            "tokens_s": length / seconds,
            "percent": 100 * 2 * products * length / seconds / top["bf16_flop_s"],
            "of": "a bfloat16 product's rate, products of the layers",
            "target": case.prefill,
        }
    )
    for row in rows:
        row.update(build_s=model.build_seconds, graphs=model.graphs())
    return rows


def beside(name: str, rows: list[dict[str, Any]]) -> None:
    """Adds transformers to the rows of a dense case."""
    case = CASES[name]
    if case.kind != "bfloat16":
        return
    peer = Transformers(case)
    for row, batch in zip(rows, BATCHES, strict=False):
        row["transformers_tokens_s"] = batch * TOKENS / peer.decode(batch, TOKENS)
    rows[-1]["transformers_tokens_s"] = PREFILL / peer.prefill(PREFILL)
    for row in rows:
        row["ratio"] = row["tokens_s"] / row["transformers_tokens_s"]


def told(row: dict[str, Any]) -> str:
    """A row as a line."""
    parts = [
        f"  {row['model']} {row['kind']}, {row['work']}: {row['tokens_s']:.0f} tokens/s",
        f"{row['percent']:.1f} % of {row['of']}",
    ]
    if row.get("target"):
        parts.append(f"target {row['target']:.0f}")
    if row.get("target_percent"):
        parts.append(f"target {row['target_percent']:.0f} %")
    if "host_us" in row:
        parts.append(f"step {row['step_us']:.0f} us, host {row['host_us']:.1f} us")
    if "ratio" in row:
        parts.append(f"transformers {row['transformers_tokens_s']:.0f}, ratio {row['ratio']:.2f}")
    return ", ".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=choice(CASES), default=DEFAULT, metavar="LIST")
    parser.add_argument("--peers", action="store_true", help="transformers beside dense models")
    parser.add_argument("--json", type=Path, default=RESULTS / "cuda_models.json", metavar="FILE")
    options = parser.parse_args()
    from tests.device.cuda.conftest import _register

    _register()
    import clika_runtime as crt

    device = crt.Device("cuda")
    facts = crt.get_device_properties(device)
    small = all(name.startswith("tiny") for name in options.models)
    begun = time.perf_counter()
    top = ceilings(device, small)
    crt.empty_cache(device)
    print(f"{facts.name}: copy {top['copy_bytes_s'] / 1e12:.2f} TB/s, bfloat16 products "
          f"{top['bf16_flop_s'] / 1e12:.0f} TFLOP/s", flush=True)  # fmt: skip
    rows: list[dict[str, Any]] = []
    failed = []
    for name in options.models:
        try:
            found = measure(name, device, top, small)
        except crt.ClikaRTError as error:
            failed.append({"case": name, "error": f"{error.code_name}: {error}"})
            print(f"  {name}: {error}", flush=True)
            continue
        crt.empty_cache(device)
        if options.peers:
            beside(name, found)
        for row in found:
            print(told(row), flush=True)
        rows += found
    document = {
        "name": "cuda_models",
        "command": "python -m benchmarks.cuda_models",
        "device": facts._asdict(),
        "ceilings": top,
        "seconds": time.perf_counter() - begun,
        "rows": rows,
        "failed": failed,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
