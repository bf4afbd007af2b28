"""Fixtures of the gemma tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.families.gemma import tiny
from tests.families.tiny import Tiny


@pytest.fixture(scope="session")
def tiny_of(once: Callable[..., Any]) -> Callable[..., Tiny]:
    """``tiny_of(variant, dtype)``: a checkpoint, made once per session."""
    return lambda variant, dtype="float32": once(tiny.make, variant, dtype)
