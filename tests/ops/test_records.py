"""Guards over all records: documented, tested, cheap to load, and one name from end to end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clika_runtime import ops
from clika_runtime.errors import NotFoundError
from clika_runtime.ops.record import RECORDS
from clika_runtime.testing import _kit, cases

HERE = Path(__file__).parent
RECORD = ops.records()
STATICS = {"int", "float", "bool", "str", "number", "ints", "floats", "dtype", "device"}


@pytest.mark.parametrize("name", sorted(RECORD))
def test_record_is_complete(name: str) -> None:
    record = RECORD[name]
    assert re.fullmatch(r"[A-Za-z0-9|(\-].*[.:].*", record.summary), record.summary
    assert len(record.summary) <= 300
    seen = set()
    for arg in record.args:
        assert arg.name.isidentifier() and arg.name not in seen
        seen.add(arg.name)
        assert arg.kind in ("tensor", "static", "scalar")
        if arg.kind == "static":
            assert arg.type in STATICS
        if arg.kind == "scalar":
            assert arg.type in ("int", "float", "number")
        if arg.modes:
            assert arg.type == "str" and arg.default in arg.modes
    assert all(index < len(record.tensors) for index in record.written)
    assert record.outputs == 0 or len(record.mutates) <= record.outputs
    if record.method:
        assert record.args[0].kind == "tensor" and not record.args[0].sequence


@pytest.mark.parametrize("name", sorted(RECORD))
def test_record_has_reference_and_cases(name: str) -> None:
    found = cases(name)
    assert len(found) >= 4, f"{name} has {len(found)} cases"
    assert len({str(case) for case in found}) == len(found), "two cases of one name"
    assert name in _kit.OPERATORS


def test_every_group_and_operator_has_a_test_file() -> None:
    homes = {ops._HOME[name] for name in RECORD}
    homes -= {"randn"}  # stands in test_rand.py
    missing = [home for home in sorted(homes) if not (HERE / f"test_{home}.py").is_file()]
    if "zeros" in missing:
        missing.remove("zeros")
    assert missing == []


def test_names_and_modules_agree() -> None:
    assert set(ops._HOME) == set(RECORD) | ops._HELPERS
    assert ops.__all__ == sorted({*ops._HOME, *ops._ALIASES})
    assert set(ops._ALIASES.values()) <= set(ops._HOME) and not set(ops._ALIASES) & set(ops._HOME)
    assert set(ops.__all__) <= set(dir(ops))
    for name, home in ops._HOME.items():
        assert sys.modules[f"clika_runtime.ops.{home}"]
        if name in RECORD and home not in ops._GROUPS:
            assert home == name


def test_an_operator_is_not_hidden_by_its_module() -> None:
    import importlib

    module = importlib.import_module("clika_runtime.ops.softmax")
    assert ops.softmax is not module and callable(ops.softmax)
    assert ops.softmax is ops.softmax
    assert ops.softmax.record is RECORDS["softmax"]


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sofmax'"):
        ops.sofmax  # noqa: B018
    with pytest.raises(NotFoundError, match="there is no operator 'sofmax'"):
        ops.record("sofmax")


def test_methods() -> None:
    assert ops.method_record("softmax") is RECORDS["softmax"]
    assert ops.method_record("cat") is None
    assert ops.method_record("no_such") is None
    assert ops.method_record("split").name == "split"
    assert ops.method_record("manual_seed") is None


def test_further_names() -> None:
    for name, target in ops._ALIASES.items():
        assert getattr(ops, name) is getattr(ops, target)
        assert ops.method_record(name) == ops.method_record(target)


PROBE = """
import sys, time
import clika_runtime
before = set(sys.modules)
start = time.process_time()
from clika_runtime import ops
found = ops.records()
loading = time.process_time() - start
heavy = {"numpy", "torch", "clika_runtime._native._core"} & (set(sys.modules) - before)
modules = [sys.modules["clika_runtime.ops." + home] for home in set(ops._HOME.values())]
codes = [(module.__spec__.loader.get_code(module.__name__), module) for module in modules]
ops.RECORDS.clear()
start = time.process_time()
for code, module in codes:
    exec(code, dict(module.__dict__))
declaring = time.process_time() - start
assert len(ops.RECORDS) == len(found)
print(len(found), loading * 1000, declaring * 1000, sorted(heavy))
"""


def test_loading_all_records_is_cheap(tmp_path: Path) -> None:
    """Declaring all of them takes at most 10 ms. Reading some ninety module files comes on top
    where somebody asks for all at once; neither NumPy nor the native core is loaded."""
    environment: dict[str, Any] = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    loading, declaring = [], []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        count, load, declare, heavy = done.stdout.split(maxsplit=3)
        assert int(count) == len(RECORD) and heavy.strip() == "[]"
        loading.append(float(load))
        declaring.append(float(declare))
    assert min(declaring) < 10, declaring
    assert min(loading) < 40, loading
