"""The generated reference page and type stub are those of the records."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clika_runtime import ops, plugins
from clika_runtime.ops._help import default_of
from clika_runtime.testing.operators.examples import examples, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> Iterator[Any]:
    before = plugins._registry
    path = ROOT / "scripts" / "generate_reference.py"
    spec = importlib.util.spec_from_file_location("generate_reference", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    plugins._registry = before


def test_every_operator_has_an_example() -> None:
    assert set(examples()) == set(ops.records())


@pytest.mark.parametrize("name", sorted(examples()))
def test_example_runs(name: str) -> None:
    assert str(run(name))


def test_the_page_is_current(generator: Any) -> None:
    assert generator.PAGE.read_text() == generator.page(), "run scripts/generate_reference.py"


def test_the_table_of_support_is_current(generator: Any) -> None:
    assert generator.SUPPORT.read_text() == generator.support(), "run scripts/generate_reference.py"


def test_the_table_of_onnx_is_current(generator: Any) -> None:
    assert generator.ONNX.read_text() == generator.onnx(), "run scripts/generate_reference.py"


def test_the_examples_of_help_are_current(generator: Any) -> None:
    text = generator.held_examples()
    assert generator.EXAMPLES.read_text() == text, "run scripts/generate_reference.py"


@pytest.mark.parametrize("name", sorted(ops.records()))
def test_help(name: str) -> None:
    """Summary, text, every argument with its default, errors, example and source."""
    record = ops.record(name)
    text = getattr(ops, name).__doc__
    assert record.summary in text and record.doc.split("\n")[0] in text
    for arg in record.args:
        (line,) = (line for line in text.split("\n") if line.startswith(f"    {arg.name}: "))
        assert arg.required or f"default {default_of(arg)}" in line
    assert "INVALID_ARGUMENT" in text and "\nExample:\n    >>> " in text
    assert not record.source or record.source in text


def test_the_stub_is_current(generator: Any) -> None:
    assert generator.STUB.read_text() == generator.stub(), "run scripts/generate_reference.py"


def test_the_stub_is_valid_and_names_everything(generator: Any) -> None:
    text = generator.stub()
    compile(text, "ops.pyi", "exec")
    for name in ops.__all__:
        assert f"def {name}(" in text or f"\n{name} = " in text
