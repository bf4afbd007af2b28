"""The rows of the report of ``bench``, with what each column means. Imports nothing heavy, so that
help can show it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["COLUMNS", "Row"]


def _column(text: str, default: Any = None) -> Any:
    return field(default=default, metadata={"text": text})


@dataclass(slots=True)
class Row:
    """A cell of prompt and reply lengths at a number of sessions; None is an empty field. Times are
    in milliseconds, rates in tokens per second, over the timed passes."""

    isl: int = field(metadata={"text": "tokens of each prompt (input sequence length)"})
    osl: int = field(metadata={"text": "tokens of each reply (output sequence length)"})
    concurrency: int = field(metadata={"text": "sessions at once"})
    first_call_ms: float | None = _column("the whole first pass, with what is made only once")
    ttft_ms: float | None = _column(
        "from submission to a session's first token, mean (time to first token)"
    )
    prefill_tok_s: float | None = _column("prompt tokens per second of a session: isl / ttft")
    itl_p50_ms: float | None = _column(
        "gap between two tokens of a session in steps without prompts, median (inter-token latency)"
    )
    itl_p99_ms: float | None = _column("the same, 99th percentile")
    prefill_chunk_ms_p50: float | None = _column(
        "a step that reads prompts, median; 0 where one step read them all"
    )
    prefill_chunk_ms_max: float | None = _column("the same, the longest")
    decode_tok_s: float | None = _column(
        "reply tokens per second of all sessions together, in steps without prompts"
    )
    speedup_vs_c1: float | None = _column(
        "decode_tok_s / that of the cell's row with one session; empty without such a row"
    )
    batching_efficiency: float | None = _column(
        "speedup_vs_c1 / concurrency: 1 where sessions do not slow each other"
    )
    admitted_tok: int | None = _column(
        "prompt tokens of a pass that the prefix cache kept: whole units of 16 of what is before "
        "the last token; empty without the cache"
    )
    retires: int | None = _column("sessions that were run to their end, in all passes")
    peak_active_bytes: int | None = _column("most bytes in use in the device's memory pool so far")
    num_allocs: int | None = _column("allocations from the pool during the row")
    num_inflight_park_waits: int | None = _column("waits for parked sessions; empty: none park")
    status: str = _column("ok or error", "ok")
    reason: str = _column("why the row failed", "")
    notes: str = _column(
        "how prompts were drawn, and the share of the decode speed that reading weights and cache "
        "allows",
        "",
    )


#: Column -> what it means, in the order of the report.
COLUMNS: dict[str, str] = {item.name: item.metadata["text"] for item in fields(Row)}
