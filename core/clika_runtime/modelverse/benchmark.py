"""The speed of a loaded model under serving-shaped work: cells of prompt and reply lengths, each
for several sessions at once.

A pass of a cell submits all its sessions together and runs the scheduler's steps to the end.
Prompts are random tokens and nothing stops a reply early, so every pass does the same work.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import clika_runtime as crt

from ..errors import ClikaRTError
from .bench_rows import Row
from .engine import Sampling, Work
from .scheduler import Request, Scheduler

__all__ = ["Cell", "Protocol", "forward_once", "measure", "read_bandwidth"]

_READ = 256 << 20  # bytes of the buffer that stands for large weights


@dataclass(frozen=True, slots=True)
class Cell:
    """``isl`` tokens of prompt and ``osl`` of reply."""

    isl: int
    osl: int


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a cell is measured: ``warmup`` untimed passes, then ``iters`` timed ones, averaged.

    ``shared_prefix`` tokens begin every prompt of a pass; with ``repeat_prompts`` all passes have
    the same prompts, otherwise each has fresh ones. ``token_budget`` bounds the tokens of a step
    (0: the engine's chunk)."""

    warmup: int = 2
    iters: int = 1
    shared_prefix: int = 0
    repeat_prompts: bool = False
    token_budget: int = 0

    @property
    def notes(self) -> str:
        if self.repeat_prompts:
            text = "prompts=repeated (every pass has the same prompts)"
        else:
            text = (
                "prompts=cold (a fresh prompt every iteration; prefill_tok_s prices prompt ingest)"
            )
        return f"{text}; no parking: its column is empty"


@dataclass(slots=True)
class _Pass:
    """What a pass took."""

    wall: float = 0.0
    ttft: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)
    decoded: int = 0
    decode_seconds: float = 0.0
    admitted: int = 0


def measure(
    model: Any,
    cells: Sequence[Cell],
    ladder: Sequence[int],
    protocol: Protocol,
    profiled: Callable[[], AbstractContextManager[None]] | None = None,
) -> Iterator[Row]:
    """A row for each cell and number of sessions, as it is measured; a cell that fails is a row
    with the status ``error`` and the reason. After the timed passes of a cell one more runs within
    ``profiled()``, which is no part of the row.

    The model needs a window for the longest cell and as many sequences as the largest number of
    sessions.
    """
    device = crt.Device(model.loaded.options.device)
    bandwidth = read_bandwidth(device)
    for cell in cells:
        alone: float | None = None
        for sessions in ladder:
            row = Row(cell.isl, cell.osl, sessions, notes=protocol.notes)
            try:
                _measure(model, device, row, protocol, profiled)
            except ClikaRTError as error:
                row.status, row.reason = "error", str(error)
            if row.decode_tok_s:
                if sessions == 1:
                    alone = row.decode_tok_s
                if alone:
                    row.speedup_vs_c1 = row.decode_tok_s / alone
                    row.batching_efficiency = row.speedup_vs_c1 / sessions
                bound = bandwidth * sessions / _bytes_of_step(model, cell, sessions)
                share = 100 * row.decode_tok_s / bound
                row.notes += (
                    f"; decode at {share:.0f} % of what reading weights and cache at "
                    f"{bandwidth / 1e9:.1f} GB/s allows"
                )
            yield row


def forward_once(model: Any) -> None:
    """One token through the model, whose sequence is gone again."""
    cache = model.engine.cache
    sequence = cache.add()
    try:
        model.engine.step([Work(sequence, [0])])
    finally:
        cache.free(sequence)


def read_bandwidth(device: Any) -> float:
    """Bytes per second that a sum over 256 MiB of float32 reads: the best of five."""
    data = crt.full((_READ // 4,), 1.0).to(device)
    best = float("inf")
    for _ in range(6):
        begun = time.perf_counter()
        crt.sum(data).synchronize()
        best = min(best, time.perf_counter() - begun)
    return _READ / best


def _bytes_of_step(model: Any, cell: Cell, sessions: int) -> float:
    """What a decode step has to read: the weights but a table that is only gathered from, and the
    cache of every session at its middle length."""
    network = model.loaded.model
    weights = sum(tensor.nbytes for _, tensor in network.named_parameters())
    table = getattr(network, "table", None)
    if table is not None and not getattr(network, "tied", False):
        weights -= table.weight.nbytes
    cache = model.engine.cache.nbytes_per_token * (cell.isl + cell.osl / 2)
    return float(weights + sessions * cache)


def _measure(
    model: Any,
    device: Any,
    row: Row,
    protocol: Protocol,
    profiled: Callable[[], AbstractContextManager[None]] | None,
) -> None:
    before = crt.memory_stats(device).allocations
    drawn = random.Random(f"{row.isl}:{row.osl}:{row.concurrency}")
    prompts = _prompts(model, row, protocol, drawn)
    passes = []
    for _ in range(protocol.warmup + protocol.iters):
        passes.append(_run(model, prompts, row.osl, protocol.token_budget))
        if not protocol.repeat_prompts:
            prompts = _prompts(model, row, protocol, drawn)
    stats = crt.memory_stats(device)
    timed = passes[protocol.warmup :]
    row.first_call_ms = passes[0].wall * 1e3
    ttft = statistics.fmean([seconds for one in timed for seconds in one.ttft])
    row.ttft_ms = ttft * 1e3
    row.prefill_tok_s = row.isl / ttft
    gaps = sorted(gap for one in timed for gap in one.gaps)
    row.itl_p50_ms, row.itl_p99_ms = _percentile(gaps, 50) * 1e3, _percentile(gaps, 99) * 1e3
    chunks = sorted(chunk for one in timed for chunk in one.chunks)
    row.prefill_chunk_ms_p50 = _percentile(chunks, 50) * 1e3
    row.prefill_chunk_ms_max = (chunks[-1] if chunks else 0.0) * 1e3
    seconds = sum(one.decode_seconds for one in timed)
    row.decode_tok_s = sum(one.decoded for one in timed) / seconds if seconds else 0.0
    if model.prefixes is not None:
        row.admitted_tok = timed[-1].admitted
    row.retires = len(passes) * row.concurrency
    row.peak_active_bytes = stats.peak_bytes
    row.num_allocs = stats.allocations - before
    if profiled is not None:
        with profiled():
            _run(model, prompts, row.osl, protocol.token_budget)


def _prompts(model: Any, row: Row, protocol: Protocol, drawn: random.Random) -> list[list[int]]:
    def some(count: int) -> list[int]:
        return [drawn.randrange(model.loaded.model.vocab_size) for _ in range(count)]

    shared = some(min(protocol.shared_prefix, row.isl))
    return [shared + some(row.isl - len(shared)) for _ in range(row.concurrency)]


def _run(model: Any, prompts: list[list[int]], new_tokens: int, token_budget: int) -> _Pass:
    scheduler = Scheduler(model.engine, token_budget, model.prefixes)
    requests = [Request(prompt, Sampling(), new_tokens) for prompt in prompts]
    found = _Pass()
    begun = time.perf_counter()
    try:
        for request in requests:
            scheduler.submit(request)
        ended = begun
        while True:
            fed = [request.fed for request in requests]
            known = [len(request.produced) for request in requests]
            since = [request.last_token_time for request in requests]
            started = ended
            if not scheduler.step():
                break
            ended = time.perf_counter()
            for request in requests:
                if request.error is not None:
                    raise request.error
            if any(request.fed != old for request, old in zip(requests, fed, strict=True)):
                found.chunks.append(ended - started)
                continue
            found.decode_seconds += ended - started
            for request, count, before in zip(requests, known, since, strict=True):
                if len(request.produced) > count:
                    found.decoded += 1
                    found.gaps.append(request.last_token_time - before)
    finally:
        for request in requests:
            scheduler.cancel(request)
    found.wall = ended - begun
    found.admitted = scheduler.admitted
    found.ttft = [request.first_token_time - request.started for request in requests]
    if len(found.chunks) <= 1:
        found.chunks = []
    return found


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The value that ``percent`` of the ordered values do not exceed; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
