"""``bench --profile``: where the time of a model's steps goes, operator by operator.

A clock runs around every instruction of the engine's plans while passes run; the report adds up
what they took by step (the name of the plan's graph) and operator. The time of an If, Loop or Scan
is its own: what runs within it is counted by itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from .tables import table

__all__ = ["OperatorTime", "StepProfile"]

_TOP = 10  # operators of the ranking
_HEAD = ("Step", "Op", "Calls", "Self(us)", "AvgSelf(us)", "Self(%)")


@dataclass(slots=True)
class OperatorTime:
    """An operator within the steps of a kind: how often it ran, and its seconds without what runs
    within it."""

    step: str
    operator: str
    calls: int = 0
    seconds: float = 0.0


class StepProfile:
    """The operators' times in the passes that run within `measured`."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._found: dict[tuple[str, str], OperatorTime] = {}
        self._runs = 0
        self._unseen = 0  # plans that were compiled under way
        self._wall = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Adds the steps of the block: those whose plan was there before it."""
        compiled = self._engine.compiled
        with ExitStack() as stack:
            # No roofline is shown, so none is measured.
            reports = [
                stack.enter_context(plan.profile_runs(bandwidth=1.0, peak=1.0))
                for plan in self._engine.plans
            ]
            begun = time.perf_counter()
            yield
            self._wall += time.perf_counter() - begun
        self._unseen += self._engine.compiled - compiled
        for report in reports:
            self._runs += max((row.calls for row in report.rows if not row.depth), default=0)
            for row in report.rows:
                key = report.name, row.operator
                found = self._found.setdefault(key, OperatorTime(*key))
                found.calls += row.calls
                found.seconds += row.seconds

    @property
    def rows(self) -> list[OperatorTime]:
        """The operators, the slowest first."""
        return sorted(self._found.values(), key=lambda row: -row.seconds)

    def __str__(self) -> str:
        rows = self.rows
        within = sum(row.seconds for row in rows)
        lines = [
            "Profiling Report Summary:",
            f"  {self._runs} steps in {self._wall * 1e3:.1f} ms, "
            f"{within * 1e3:.1f} ms of it in operators",
        ]
        if self._unseen:
            lines.append(
                f"  left out: the steps of {self._unseen} plan(s) that were compiled under way"
            )
        lines.append("  top_ops:")
        for place, (operator, seconds) in enumerate(_ranking(rows)[:_TOP], start=1):
            share = 100 * seconds / within if within else 0.0
            lines.append(f"    {place:2d}. {operator}: {seconds * 1e3:.3f} ms ({share:.1f} %)")
        whole = table(_HEAD, [_cells(row, within) for row in rows])
        return "\n".join([*lines, "", *whole.splitlines()])


def _ranking(rows: Iterable[OperatorTime]) -> list[tuple[str, float]]:
    """Operators by their seconds in all steps, the slowest first."""
    seconds: dict[str, float] = {}
    for row in rows:
        seconds[row.operator] = seconds.get(row.operator, 0.0) + row.seconds
    return sorted(seconds.items(), key=lambda item: -item[1])


def _cells(row: OperatorTime, within: float) -> tuple[str, ...]:
    return (
        row.step,
        row.operator,
        str(row.calls),
        f"{row.seconds * 1e6:.1f}",
        f"{row.seconds * 1e6 / row.calls:.2f}",
        f"{100 * row.seconds / within:.1f}" if within else "-",
    )
