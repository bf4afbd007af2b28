"""Totals over torch's samples (`test_opinfo`), which several processes may have run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

#: The largest share of samples that may be refused, by dtype, in a run of all operators.
REFUSED = 0.03
#: The least number of OpInfo names, variants not counted, that such a run covers.
COVERED = 250
SHOWN = 200  # characters of a reason

_totals: dict[str, Counter[str]] = {}
_reasons: Counter[str] = Counter()
_names: set[str] = set()


def pytest_runtest_logreport(report: Any) -> None:
    # Under xdist reports with their properties reach the controlling process too.
    if report.when != "call":
        return
    for key, value in report.user_properties:
        if key == "opinfo":
            name, dtype, passed, skipped = value
            _names.add(name)
            counts = _totals.setdefault(dtype, Counter())
            counts.update(passed=passed, skipped=sum(skipped.values()))
            for reason, count in skipped.items():
                _reasons[f"{name} {dtype}: {' '.join(reason.split())[:SHOWN]}"] += count


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: Any) -> None:
    if not hasattr(session.config, "workerinput") and _whole_run() and _problems():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _totals:
        return
    terminalreporter.section("torch's samples")
    terminalreporter.line(f"{len(_names)} OpInfos, {_distinct()} names without variants")
    for dtype, counts in _totals.items():
        terminalreporter.line(
            f"{dtype}: {counts['passed']} samples agree, {counts['skipped']} refused "
            f"({_refused(counts):.1%})"
        )
    for reason, count in _reasons.most_common():
        terminalreporter.line(f"refused {count}: {reason}")
    for problem in _problems() if _whole_run() else []:
        terminalreporter.line(f"FAILED torch's samples: {problem}")


def _refused(counts: Counter[str]) -> float:
    return counts["skipped"] / max(counts.total(), 1)


def _distinct() -> int:
    from tests.oracles import opinfo

    return len({opinfo.entries()[name].name for name in _names})


def _problems() -> list[str]:
    """What a run of all operators falls short of."""
    found = [
        f"{_refused(counts):.1%} of the samples in {dtype} are refused, {REFUSED:.0%} may be"
        for dtype, counts in _totals.items()
        if _refused(counts) > REFUSED
    ]
    if _distinct() < COVERED:
        found.append(f"{_distinct()} names are covered, {COVERED} have to be")
    return found


def _whole_run() -> bool:
    """Whether all operators ran; a selection may be refused more often."""
    if not _names:
        return False
    from tests.oracles import opinfo

    return len(_names) == len(opinfo.covered())
