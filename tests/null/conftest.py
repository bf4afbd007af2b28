"""The null backend, installed as a plugin for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clika_runtime import plugins
from clika_runtime.testing import null_backend


@pytest.fixture
def null() -> Iterator[Any]:
    """The backend object itself; its ``calls`` are counted from zero."""
    before = plugins._registry
    null_backend.install()
    backend = plugins.load_backend("null")
    backend.calls.clear()
    yield backend
    plugins._registry = before
