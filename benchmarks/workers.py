"""Peers as worker processes that take turns: each gets a call on stdin and answers with seconds on
stdout.

A worker sleeps while another runs, so all see the same machine in the same minutes.

    python -m benchmarks.workers ours MODEL.gguf THREADS ['{"mode": "exact"}']
    python -m benchmarks.workers llama.cpp MODEL.gguf THREADS ['{"flash": true}']
    python -m benchmarks.workers transformers MODEL.gguf THREADS
    python -m benchmarks.workers replies MODEL.gguf THREADS ['{"assistant": "SMALL.gguf"}']

A call is a line such as ``["prefill", {"ids": [1, 2, 3]}]``.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import environment

WINDOW = 1024
ROOT = Path(__file__).resolve().parent.parent


class Ours:
    """This runtime, timed from a step's call to the token ids on the host."""

    def __init__(
        self,
        model: str,
        threads: int,
        mode: str = "fast",
        dtype: str | None = None,
        sequences: int = 1,
    ) -> None:
        # What loading imports is no part of its time, as for the peers.
        import numpy  # noqa: F401
        import tokenizers  # noqa: F401

        import clika_runtime.graph
        import clika_runtime.tokenizer
        from clika_runtime.modelverse.engine import Sampling, Work
        from clika_runtime.modelverse.generation import load_generative

        clika_runtime.device.enumerate_devices("cpu")  # loads the backend
        started = time.perf_counter()
        loaded = load_generative(
            model, max_seq=WINDOW, max_sequences=sequences, mode=mode, dtype=dtype
        )
        self.engine = loaded.engine
        self.greedy = Sampling()
        self.work = Work
        self.vocabulary = loaded.loaded.model.vocab_size
        self.load_seconds = time.perf_counter() - started

    def prefill(self, ids: list[int]) -> float:
        sequence = self.engine.cache.add()
        started = time.perf_counter()
        self.engine.step([self.work(sequence, ids, self.greedy)])
        seconds = time.perf_counter() - started
        self.engine.cache.free(sequence)
        return seconds

    def decode(self, prompts: list[list[int]], count: int) -> float:
        sequences = [self.engine.cache.add() for _ in prompts]
        work = [self.work(*pair, self.greedy) for pair in zip(sequences, prompts, strict=True)]
        tokens = [self.engine.step([item])[0] for item in work]
        started = time.perf_counter()
        for index in range(1, count + 1):
            work = [
                self.work(sequence, [token], self.greedy, index)
                for sequence, token in zip(sequences, tokens, strict=True)
            ]
            tokens = self.engine.step(work)
        seconds = time.perf_counter() - started
        for sequence in sequences:
            self.engine.cache.free(sequence)
        return seconds


class LlamaCpp:
    """llama.cpp through llama-cpp-python's low-level calls, timed as decode plus argmax.

    ``unified`` keeps all sequences in one stretch of the cache instead of one each."""

    def __init__(
        self,
        model: str,
        threads: int,
        flash: bool = True,
        sequences: int = 1,
        unified: bool = False,
    ) -> None:
        import llama_cpp as lib
        import numpy as np

        self.lib, self.np = lib, np
        self.quiet = lib.llama_log_callback(lambda *_: None)
        lib.llama_log_set(self.quiet, None)
        lib.llama_backend_init()
        started = time.perf_counter()
        self.model = lib.llama_model_load_from_file(
            model.encode(), lib.llama_model_default_params()
        )
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {model}")
        params = lib.llama_context_default_params()
        params.n_ctx = WINDOW * sequences
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = sequences
        params.kv_unified = unified
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        params.no_perf = True
        self.context = lib.llama_init_from_model(self.model, params)
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.memory = lib.llama_get_memory(self.context)
        self.batch = lib.llama_batch_init(512, 0, 1)
        self.load_seconds = time.perf_counter() - started

    def _run(self) -> None:
        if self.lib.llama_decode(self.context, self.batch):
            raise RuntimeError("llama_decode failed")

    def _token(self, row: int) -> int:
        logits = self.lib.llama_get_logits_ith(self.context, row)
        return int(self.np.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())

    def _fill(self, ids: list[int], sequence: int = 0) -> None:
        """The batch holds the ids, from the first place of a sequence on."""
        self.batch.n_tokens = len(ids)
        for place, token in enumerate(ids):
            self.batch.token[place], self.batch.pos[place] = token, place
            self.batch.n_seq_id[place], self.batch.seq_id[place][0] = 1, sequence
            self.batch.logits[place] = place == len(ids) - 1

    def _first(self, ids: list[int], sequence: int) -> int:
        self._fill(ids, sequence)
        self._run()
        return self._token(-1)

    def prefill(self, ids: list[int]) -> float:
        self.lib.llama_memory_clear(self.memory, True)
        self._fill(ids)
        started = time.perf_counter()
        self._run()
        self._token(-1)
        return time.perf_counter() - started

    def decode(self, prompts: list[list[int]], count: int) -> float:
        self.lib.llama_memory_clear(self.memory, True)
        tokens = [self._first(ids, row) for row, ids in enumerate(prompts)]
        places = [len(ids) for ids in prompts]
        started = time.perf_counter()
        for _ in range(count):
            self.batch.n_tokens = len(tokens)
            for row, token in enumerate(tokens):
                self.batch.token[row], self.batch.pos[row] = token, places[row]
                self.batch.n_seq_id[row], self.batch.seq_id[row][0] = 1, row
                self.batch.logits[row] = True
                places[row] += 1
            self._run()
            tokens = [self._token(row) for row in range(len(tokens))]
        return time.perf_counter() - started


class Transformers:
    """transformers in float32 over the file's dequantized weights, timed as forward plus argmax."""

    def __init__(self, model: str, threads: int) -> None:
        import torch
        from transformers import DynamicCache

        from tests.oracles.gguf_decoder import reference_model

        torch.set_num_threads(threads)
        self.torch, self.new_cache = torch, DynamicCache
        started = time.perf_counter()
        self.model = reference_model(model)
        self.model.set_attn_implementation("sdpa")
        self.vocabulary = self.model.config.vocab_size
        self.load_seconds = time.perf_counter() - started

        accepted = inspect.signature(self.model.forward).parameters
        self.cache_name = "cache" if "cache" in accepted else "past_key_values"

    def _step(self, rows: list[list[int]], cache: Any) -> list[int]:
        more = {self.cache_name: cache, "use_cache": True, "logits_to_keep": 1}
        with self.torch.inference_mode():
            logits = self.model(self.torch.tensor(rows), **more).logits
            return list(logits[:, -1].argmax(-1).tolist())

    def prefill(self, ids: list[int]) -> float:
        cache = self.new_cache(config=self.model.config)
        started = time.perf_counter()
        self._step([ids], cache)
        return time.perf_counter() - started

    def decode(self, prompts: list[list[int]], count: int) -> float:
        cache = self.new_cache(config=self.model.config)
        tokens = self._step(prompts, cache)
        started = time.perf_counter()
        for _ in range(count):
            tokens = self._step([[token] for token in tokens], cache)
        return time.perf_counter() - started


class Replies:
    """This runtime as it is used: texts in, replies out, greedy. ``assistant`` is a model that
    drafts; a reply that is not the one of the first call of its prompt ends the run."""

    def __init__(
        self, model: str, threads: int, assistant: str | None = None, prefix_cache: bool = True
    ) -> None:
        from clika_runtime.modelverse.generation import load_generative

        started = time.perf_counter()
        window = 2 * WINDOW
        self.model = load_generative(model, max_seq=window, prefix_cache=prefix_cache)
        self.assistant = load_generative(assistant, max_seq=window) if assistant else None
        self.vocabulary = self.model.loaded.model.vocab_size
        self.load_seconds = time.perf_counter() - started
        self.told: dict[str, list[int]] = {}

    def _report(self, prompt: str, count: int, **options: Any) -> Any:
        options = {"temperature": 0.0, "stop_ids": (), "max_new_tokens": count, **options}
        stream = self.model.stream_generate(prompt, **options)
        for _ in stream:
            pass
        ids = stream.report.token_ids
        if self.told.setdefault(prompt, ids) != ids:
            raise RuntimeError("the reply is another one")
        return stream.report

    def reply(self, prompt: str, count: int, lookup: int = 0, drafted: bool = False) -> float:
        """Seconds of a token after the first."""
        options: dict[str, Any] = {"prompt_lookup_num_tokens": lookup}
        if drafted:
            options["assistant_model"] = self.assistant
        return float(self._report(prompt, count, **options).decode_seconds) / (count - 1)

    def accepted(self, prompt: str, count: int, lookup: int = 0, drafted: bool = False) -> float:
        """The part of the drafted tokens that was right; of a reply that is not timed."""
        options: dict[str, Any] = {"prompt_lookup_num_tokens": lookup}
        if drafted:
            options["assistant_model"] = self.assistant
        report = self._report(prompt, count, **options)
        return float(report.accepted_tokens / max(1, report.drafted_tokens))

    def second(self, prompt: str, more: str) -> float:
        """Seconds to the first token of a second turn: the prompt, a reply, and a text more."""
        if self.model.prefixes is not None:
            self.model.prefixes.clear()
        first = self._report(prompt, 24)
        return float(self._report(f"{prompt}{first.text}{more}", 2).prefill_seconds)


KINDS = {"ours": Ours, "replies": Replies, "llama.cpp": LlamaCpp, "transformers": Transformers}


class Worker:
    """The near end of a worker process. ``options`` are those of its class."""

    def __init__(self, name: str, kind: str, model: Path, threads: int, **options: Any) -> None:
        self.name = name
        words = [kind, str(Path(model).resolve()), str(threads), json.dumps(options)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.workers", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(threads),
            cwd=ROOT,
        )
        ready = self._answer()
        self.load_seconds: float = ready["load_seconds"]
        self.vocabulary: int = ready["vocabulary"]

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise SystemExit(f"{self.name}: the worker ended with code {self.process.returncode}")
        return json.loads(line)

    def start(self, verb: str, **arguments: Any) -> None:
        """Begins a call; `wait` has its seconds."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([verb, arguments]) + "\n")
        self.process.stdin.flush()

    def wait(self) -> float:
        return float(self._answer()["seconds"])

    def ask(self, verb: str, **arguments: Any) -> float:
        """The seconds of a call."""
        self.start(verb, **arguments)
        return self.wait()

    def peak_bytes(self) -> int:
        """VmHWM of the whole process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self) -> float:
        """What all threads of the process have run so far, by the scheduler's own count."""
        total = 0
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
        return total / 1e9

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def sides(peer: bool, **both: Any) -> dict[str, Callable[[Path, int], Worker]]:
    """What starts a worker, by name: ours, and with ``peer`` llama.cpp with flash attention on and
    off. ``both`` are options of all."""
    options: dict[str, tuple[str, dict[str, Any]]] = {"ours": ("ours", both)}
    for flash in (True, False) if peer else ():
        name = f"llama.cpp, flash attention {'on' if flash else 'off'}"
        options[name] = "llama.cpp", {"flash": flash, **both}
    return {name: partial(Worker, name, kind, **more) for name, (kind, more) in options.items()}


@contextmanager
def beside_llama(model: Path, threads: int, peer: bool, **both: Any) -> Iterator[dict[str, Worker]]:
    """The workers of `sides`, running."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(start(model, threads))
            for name, start in sides(peer, **both).items()
        }


def main() -> None:
    kind, model, threads, *more = sys.argv[1:]
    options = json.loads(more[0]) if more else {}
    peer: Any = KINDS[kind](model, int(threads), **options)
    ready = {"load_seconds": peer.load_seconds, "vocabulary": peer.vocabulary}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        print(json.dumps({"seconds": getattr(peer, verb)(**arguments)}), flush=True)


if __name__ == "__main__":
    main()
