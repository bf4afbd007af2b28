"""Every operator that has a twin among torch's OpInfos, on torch's own samples.

What counts and how results are compared stands in `tests.oracles.opinfo`. The totals and the
reasons of refusals are printed at the end of the run (`conftest`). A run of all operators fails
where too many samples are refused or too few names are covered.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from tests.oracles import opinfo


@pytest.mark.parametrize("name", opinfo.covered())
def test_samples(name: str, record_property: Any) -> None:
    problems = []
    passed = 0
    for dtype in opinfo.dtypes_of(opinfo.entries()[name]):
        outcome = opinfo.run(name, dtype)
        record_property("opinfo", (name, dtype, outcome.passed, dict(outcome.skipped)))
        passed += outcome.passed
        problems += [f"{dtype} {problem}" for problem in outcome.failed]
    assert not problems, f"{len(problems)} samples disagree:\n" + "\n".join(problems[:10])
    assert passed, f"{name}: every sample was refused"
