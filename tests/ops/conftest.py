"""Totals over torch's samples (`test_opinfo`), which several processes may have run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

#: The largest share of samples that may be refused, by dtype, in a run of all operators.
REFUSED = 0.03

_totals: dict[str, Counter[str]] = {}
_names: set[str] = set()


def pytest_runtest_logreport(report: Any) -> None:
    # Under xdist reports with their properties reach the controlling process too.
    if report.when != "call":
        return
    for key, value in report.user_properties:
        if key == "opinfo":
            dtype, passed, skipped = value
            _names.add(report.nodeid)
            _totals.setdefault(dtype, Counter()).update(passed=passed, skipped=skipped)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: Any) -> None:
    if hasattr(session.config, "workerinput") or not _whole_run():
        return
    if any(_refused(counts) > REFUSED for counts in _totals.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _totals:
        return
    terminalreporter.section("torch's samples")
    terminalreporter.line(f"{len(_names)} OpInfos")
    for dtype, counts in _totals.items():
        over = "  MORE THAN MAY BE REFUSED" if _refused(counts) > REFUSED and _whole_run() else ""
        terminalreporter.line(
            f"{dtype}: {counts['passed']} samples agree, {counts['skipped']} refused "
            f"({_refused(counts):.1%}){over}"
        )


def _refused(counts: Counter[str]) -> float:
    return counts["skipped"] / max(counts.total(), 1)


def _whole_run() -> bool:
    """Whether all operators ran; a selection may be refused more often."""
    if not _names:
        return False
    from tests.oracles import opinfo

    return len(_names) == len(opinfo.covered())
