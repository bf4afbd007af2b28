"""The examples in the docstrings of the model library run and give what they show."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "cli.tables",
        "config",
        "console",
        "constraints.spec",
        "family",
        "modules.rope",
        "quantization.config",
        "tools.events",
        "tools.format",
    ],
)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"clika_runtime.modelverse.{name}")
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
