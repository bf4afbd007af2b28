"""The testing kit itself: it sees what is wrong, and its own numbers have oracles."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime import ops, plugins
from clika_runtime.testing import Case, Operand, _kit, _numpy, cases, reference_backend, run_cases


@pytest.fixture
def reference() -> Iterator[Any]:
    before = plugins._registry
    reference_backend.install()
    yield plugins.load_backend("reference")
    plugins._registry = before


def case(name: str, *, dtype: str = "float32") -> Case:
    return next(found for found in cases(name) if found.dtype == dtype)


# ---------------------------------------------------------------- comparison
@pytest.mark.parametrize(
    ("got", "want", "fits"),
    [
        (1.0, 1.0, True),
        (1.0 + 2**-23, 1.0, True),
        (1.0 + 2**-18, 1.0, False),
        (np.nan, np.nan, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, np.inf, True),
        (np.inf, -np.inf, False),
        (3e38, np.inf, False),
    ],
)
def test_float_comparison(got: float, want: float, fits: bool) -> None:
    given = np.array([got], np.float32)
    try:
        _kit.compare(case("exp"), 0, given, np.array([want]), "float32")
    except AssertionError:
        assert not fits
    else:
        assert fits


def test_exact_comparison() -> None:
    integers = np.array([1, 2], np.int64)
    _kit.compare(case("sort"), 1, integers, np.array([1, 2]), "int64")
    with pytest.raises(AssertionError, match=r"result 1 is wrong at 1 of 2 places; at \(1,\) got"):
        _kit.compare(case("sort"), 1, integers, np.array([1, 3]), "int64")
    almost = np.array([1.0 + 2**-23], np.float32)
    with pytest.raises(AssertionError):
        _kit.compare(case("relu"), 0, almost, np.array([1.0]), "float32")


# ---------------------------------------------------------------- a backend with mistakes
class Wrong:
    """The reference backend with one kernel replaced."""

    def __init__(self, kernels: Any, name: str, run: Any) -> None:
        self.kernels = kernels
        self.name = name
        self.wrong = run

    def get(self, name: str) -> Any:
        return self.wrong if name == self.name else self.kernels.get(name)


def shifted(call: Any) -> None:
    call.outputs[0][...] = np.floor(call.inputs[0]) + 1e-3


def broken(call: Any) -> None:
    raise ZeroDivisionError("kernel bug")


@pytest.mark.parametrize(
    ("kernel", "reason"), [(shifted, "result 0 is wrong at"), (broken, "ZeroDivisionError")]
)
def test_mistakes_are_found(kernel: Any, reason: str) -> None:
    from clika_runtime._native._core import register_backend

    kind = {"shifted": "cuda", "broken": "vulkan"}[kernel.__name__]  # names nobody uses here
    backend = reference_backend.ReferenceBackend()
    backend.kernels = Wrong(backend.kernels, "floor", kernel)  # type: ignore[assignment]
    register_backend(kind, backend)
    report = run_cases(kind, ops=["floor", "ceil"], dtypes=["float32"])
    assert not report
    assert {outcome.case.op for outcome in report.failed} == {"floor"}
    assert all(reason in outcome.reason for outcome in report.failed)
    assert str(report).startswith(f"{kind}: ")


def test_refusals_are_no_failures(reference: Any) -> None:
    report = run_cases("reference", ops=["dequantize"])
    packed = 2 * len(_numpy.SCHEMES)
    assert report and len(report.refused) == packed and len(report.outcomes) > packed


# ---------------------------------------------------------------- the pytest option
def run_pytest(folder: Path, *options: str) -> str:
    (folder / "conftest.py").write_text(
        "from clika_runtime.testing import reference_backend\nreference_backend.install()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_one_item_per_case(tmp_path: Path) -> None:
    count = len(cases("floor")) + len(cases("copy"))
    text = run_pytest(tmp_path, "--clika-backend", "reference", "--clika-ops", "floor,copy")
    assert f"{count} passed" in text, text


def test_refused_cases_are_skipped_or_fail(tmp_path: Path) -> None:
    options = ("--clika-backend", "reference", "--clika-ops", "dequantize")
    packed = 2 * len(_numpy.SCHEMES)
    assert f"{packed} skipped" in run_pytest(tmp_path, *options)
    assert f"{packed} failed" in run_pytest(tmp_path, *options, "--clika-strict")


# ---------------------------------------------------------------- numbers
def test_bfloat16_rounds_as_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, 20_000, dtype=np.uint32)
    halves = (rng.integers(0, 2**16, 2_000, dtype=np.uint32) << 16) | 0x8000
    values = np.concatenate([bits, halves]).view(np.float32)
    values = values[~np.isnan(values)]
    want = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    assert np.array_equal(_numpy.round_to(values, "bfloat16"), want)


@pytest.mark.parametrize("name", _numpy.SCHEMES)
def test_random_blocks_are_moderate(name: str) -> None:
    """Every scheme that the ``gguf`` package decodes, with numbers of both signs around 0."""
    columns, nbytes = _numpy.block_size(name)
    blocks = _numpy.random_blocks(np.random.default_rng(0), name, 7, 3 * columns)
    assert blocks.shape == (7, 3 * nbytes)
    values = _numpy.decode_blocks(blocks, name)
    assert values.shape == (7, 3 * columns)
    assert 1e-4 < np.abs(values).max() < 2000 and values.min() < 0 < values.max()


def test_schemes_are_all_that_gguf_decodes() -> None:
    gguf = pytest.importorskip("gguf")
    packed = {kind.name for kind in gguf.quants._type_traits if kind.name != "BF16"}
    assert set(_numpy.SCHEMES) == packed


@pytest.mark.parametrize("layout", ["plain", "transposed", "stepped", "offset", "expanded"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_layouts_hold_the_values(reference: Any, layout: str, dtype: str) -> None:
    operand = _kit.Make("copy").normal((4, 6), dtype, layout)
    tensor = operand.view(operand.stored("reference"))
    assert tuple(tensor.shape) == (4, 6)
    assert tensor.is_contiguous() == (layout in ("plain", "offset"))
    copied = _kit.read(ops.copy(tensor))
    assert np.array_equal(copied, operand.values)


def test_cases_are_the_same_every_time() -> None:
    first = [_first_values(found) for found in cases("add")]
    _kit._built.cache_clear()
    assert [_first_values(found) for found in cases("add")] == first


def _first_values(found: Case) -> list[Any]:
    operands = [value for value in found.args if isinstance(value, Operand)]
    return [operand.values.tolist() for operand in operands]
