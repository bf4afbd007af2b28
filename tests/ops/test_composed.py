"""Composed forms against the references, on a backend whose kernels are the references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clika_runtime import ops, plugins
from clika_runtime.errors import UnsupportedError
from clika_runtime.testing import cases, check_case, reference_backend

CASES = [
    case
    for name, record in ops.records().items()
    if record.compose is not None
    for case in cases(name)
]


@pytest.fixture(scope="module", autouse=True)
def backend() -> Iterator[None]:
    before = plugins._registry
    reference_backend.install()
    yield
    plugins._registry = before


@pytest.mark.parametrize("case", CASES, ids=str)
def test_composed(case: Any) -> None:
    try:
        check_case(case, "reference")
    except UnsupportedError:
        given = [item for arg in case.args for item in (arg if isinstance(arg, list) else [arg])]
        if any(getattr(item, "scheme", 0) for item in given):
            pytest.skip("a packed weight")
        raise
