"""Peers as worker processes that take turns: each gets a command on stdin and answers with seconds
on stdout.

A worker sleeps while another runs, so both see the same machine in the same minutes.

    python -m benchmarks.workers ours MODEL.gguf THREADS [exact]
    python -m benchmarks.workers llama.cpp MODEL.gguf THREADS on|off
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WINDOW = 1024


class Ours:
    """This runtime, timed from a step's call to the token id on the host."""

    def __init__(self, model: str, threads: int, mode: str = "fast") -> None:
        from clika_runtime.modelverse.engine import Sampling, Work
        from clika_runtime.modelverse.generation import load_generative

        self.model = load_generative(model, max_seq=WINDOW, mode=mode)
        self.engine = self.model.engine
        self.greedy = Sampling()
        self.work = Work
        self.vocabulary = self.model.loaded.model.vocab_size

    def prefill(self, ids: list[int]) -> float:
        sequence = self.engine.cache.add()
        started = time.perf_counter()
        self.engine.step([self.work(sequence, ids, self.greedy)])
        seconds = time.perf_counter() - started
        self.engine.cache.free(sequence)
        return seconds

    def decode(self, ids: list[int], count: int) -> float:
        sequence = self.engine.cache.add()
        token = self.engine.step([self.work(sequence, ids, self.greedy)])[0]
        started = time.perf_counter()
        for index in range(count):
            token = self.engine.step([self.work(sequence, [token], self.greedy, index + 1)])[0]
        seconds = time.perf_counter() - started
        self.engine.cache.free(sequence)
        return seconds


class LlamaCpp:
    """llama.cpp through llama-cpp-python's low-level calls, timed as decode plus argmax."""

    def __init__(self, model: str, threads: int, flash: str) -> None:
        import llama_cpp as lib
        import numpy as np

        self.lib, self.np = lib, np
        quiet = lib.llama_log_callback(lambda *_: None)
        self.quiet = quiet
        lib.llama_log_set(quiet, None)
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(
            model.encode(), lib.llama_model_default_params()
        )
        params = lib.llama_context_default_params()
        params.n_ctx = WINDOW
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if flash == "on"
            else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        params.no_perf = True
        self.context = lib.llama_init_from_model(self.model, params)
        vocabulary = lib.llama_model_get_vocab(self.model)
        self.vocabulary = lib.llama_vocab_n_tokens(vocabulary)
        self.memory = lib.llama_get_memory(self.context)

    def _step(self, ids: list[int]) -> int:
        array = (self.lib.llama_token * len(ids))(*ids)
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(array, len(ids))):
            raise RuntimeError("llama_decode failed")
        logits = self.lib.llama_get_logits_ith(self.context, -1)
        return int(self.np.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())

    def prefill(self, ids: list[int]) -> float:
        self.lib.llama_memory_clear(self.memory, True)
        started = time.perf_counter()
        self._step(ids)
        return time.perf_counter() - started

    def decode(self, ids: list[int], count: int) -> float:
        self.lib.llama_memory_clear(self.memory, True)
        token = self._step(ids)
        started = time.perf_counter()
        for _ in range(count):
            token = self._step([token])
        return time.perf_counter() - started


class Worker:
    """The near end of a worker process."""

    def __init__(self, name: str, kind: str, model: str, threads: int, *more: str) -> None:
        self.name = name
        environment = {
            **os.environ,
            "CLIKA_RT_NUM_THREADS": str(threads),
            "OMP_NUM_THREADS": str(threads),
        }
        for unset in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            environment.pop(unset, None)
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), kind, model, str(threads), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.ready = self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(f"{self.name}: the worker ended with code {self.process.wait()}")
        return json.loads(line)  # type: ignore[no-any-return]

    def ask(self, verb: str, ids: list[int], count: int = 0) -> float:
        self.process.stdin.write(json.dumps([verb, ids, count]) + "\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        return float(self._answer()["seconds"])

    def peak_bytes(self) -> int:
        """VmHWM of the whole process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        return 0

    def close(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def main() -> None:
    kind, model, threads, *more = sys.argv[1:]
    started = time.perf_counter()
    peer: Any = (Ours if kind == "ours" else LlamaCpp)(model, int(threads), *more)
    print(json.dumps({"load_seconds": time.perf_counter() - started}), flush=True)
    for line in sys.stdin:
        verb, ids, count = json.loads(line)
        seconds = peer.prefill(ids) if verb == "prefill" else peer.decode(ids, count)
        print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
