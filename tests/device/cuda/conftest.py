"""Tests on a GPU: ``pytest tests/device/cuda``. Without one they are skipped, with the reason.

The report (device, driver, what passed, figures) is printed at the end as one JSON line, and
written to the file that ``CLIKA_CUDA_REPORT`` names.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clika_runtime import plugins

ROOT = Path(__file__).resolve().parents[3]
REPORT: dict[str, Any] = {"operators": {}, "figures": {}}
SECONDS: dict[str, float] = {}  # of each test, with what it sets up
SLOWEST = 25


def _register() -> None:
    """In a checkout nothing is installed: what is missing is added for this process."""
    known = {entry.name for entry in plugins.entries("clika_runtime.backends")}
    added = []
    for name in ("cpu", "cuda"):
        if name in known:
            continue
        source = ROOT / "plugins" / name / "src"
        if str(source) not in sys.path:
            sys.path.append(str(source))
        module, distribution = f"clika_runtime_{name}.plugin", f"clika-runtime-{name}"
        added.append(plugins.Entry("clika_runtime.backends", name, module, distribution, "0.1.0"))
    if added:
        plugins._registry = plugins.Registry(installed=[*plugins.entries(), *added])


def _reason() -> str | None:
    if "fake" in os.environ.get("CLIKA_RT_CUDA_DRIVER", ""):
        return "the driver is a fake one"
    _register()
    return plugins.probe("cuda")


@pytest.fixture(scope="session", autouse=True)
def gpu() -> dict[str, Any]:
    reason = _reason()
    if reason is not None:
        pytest.skip(f"no CUDA device here: {reason}")
    import clika_runtime as crt

    facts = crt.get_device_properties("cuda")
    REPORT["device"] = facts._asdict()
    # Every kernel, on all processors, rather than each where a test first needs it.
    from clika_runtime_cuda.start import prepare

    begun = time.perf_counter()
    REPORT["kernels"] = {"programs": prepare("cuda"), "seconds": time.perf_counter() - begun}
    return REPORT


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    SECONDS[report.nodeid] = SECONDS.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if "device" not in REPORT:
        return
    from clika_runtime_cuda import _backend

    REPORT["compiler"] = _backend.counters()
    REPORT["failed"] = session.testsfailed
    slowest = sorted(SECONDS, key=lambda name: -SECONDS[name])[:SLOWEST]
    REPORT["seconds"] = {
        "all": sum(SECONDS.values()),
        "slowest": {name: round(SECONDS[name], 2) for name in slowest},
    }
    path = os.environ.get("CLIKA_CUDA_REPORT")
    if path:
        Path(path).write_text(json.dumps(REPORT, indent=1) + "\n", encoding="utf-8")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if "device" in REPORT:
        terminalreporter.write_line("CUDA report: " + json.dumps(REPORT))
