"""The examples in the docstrings of the graph package."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from clika_runtime import graph

MODULES = [info.name for info in pkgutil.walk_packages(graph.__path__, "clika_runtime.graph.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
