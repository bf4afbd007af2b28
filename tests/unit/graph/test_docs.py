"""The examples in the docstrings of the graph package."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from clika_runtime import graph

# The examples of these two ask a graph that tests of their own make.
OTHERS = {"clika_runtime.graph.edits", "clika_runtime.graph.queries"}
MODULES = [
    info.name
    for info in pkgutil.walk_packages(graph.__path__, "clika_runtime.graph.")
    if info.name not in OTHERS
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
