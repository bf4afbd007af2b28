"""The testing kit: what every operator means, and how a backend is checked against it.

For each operator there is a plain NumPy reference, cases with seeded inputs, and an error bound per
dtype. They ship with the runtime, so that a backend of someone else is checked the same way::

    from clika_runtime.testing import run_cases
    report = run_cases(backend="otter")
    print(report)  # otter: 1204 passed, 0 failed, 96 refused

or, from the command line, as one pytest item per case::

    python -m pytest --clika-backend otter

NumPy is imported on first use only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._kit import (
        Case,
        Operand,
        Outcome,
        Report,
        cases,
        check_case,
        check_rule,
        expected,
        run_cases,
    )
    from .null_backend import NullBackend

_HOME = {
    "Case": "_kit",
    "NullBackend": "null_backend",
    "Operand": "_kit",
    "Outcome": "_kit",
    "Report": "_kit",
    "cases": "_kit",
    "check_case": "_kit",
    "check_rule": "_kit",
    "expected": "_kit",
    "run_cases": "_kit",
}

__all__ = [
    "Case",
    "NullBackend",
    "Operand",
    "Outcome",
    "Report",
    "cases",
    "check_case",
    "check_rule",
    "expected",
    "run_cases",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
