"""Result dtypes against ``torch.result_type``, for every pair of dtypes and kinds of operand."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from clika_runtime import dtypes
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.ops import record
from clika_runtime.ops._promotion import promote_types, result_type
from clika_runtime.ops.record import Meta

# torch promotes no uint16, uint32 and uint64.
SHARED = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
NUMBERS = (True, 3, 2.5)


def meta(name: str, shape: tuple[int, ...], weak: bool = False) -> Meta:
    return Meta(shape, dtypes.by_name(name), weak=weak)


def number(value: Any) -> Meta:
    name = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return meta(name, (), weak=True)


@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())])
def test_tensors_with_tensors(shapes: Any) -> None:
    torch = pytest.importorskip("torch")
    for a, b in itertools.product(SHARED, repeat=2):
        operands = [
            torch.zeros(shape, dtype=getattr(torch, name))
            for name, shape in zip((a, b), shapes, strict=True)
        ]
        want = str(torch.result_type(*operands)).removeprefix("torch.")
        got = result_type(meta(a, shapes[0]), meta(b, shapes[1]))
        assert got.name == want, f"{a}{list(shapes[0])} with {b}{list(shapes[1])}"


@pytest.mark.parametrize("shape", [(2,), ()])
def test_tensors_with_numbers(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    for name, value in itertools.product(SHARED, NUMBERS):
        operand = torch.zeros(shape, dtype=getattr(torch, name))
        want = str(torch.result_type(operand, value)).removeprefix("torch.")
        assert result_type(meta(name, shape), number(value)).name == want, f"{name} with {value}"


def test_three_classes_of_operands() -> None:
    row, point = meta("bfloat16", (3,)), meta("float64", ())
    assert result_type(row, point, number(2.5)) is dtypes.bfloat16
    assert result_type(meta("int8", (3,)), point, number(2)) is dtypes.float64
    assert result_type(meta("bool", (3,)), meta("int32", ()), number(2.5)) is dtypes.float32


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ("uint16", "int16", "int32"),
        ("uint32", "int8", "int64"),
        ("uint16", "uint64", "uint64"),
        ("uint32", "float16", "float16"),
        ("uint64", "bool", "uint64"),
    ],
)
def test_wide_unsigned_integers(a: str, b: str, want: str) -> None:
    assert promote_types(dtypes.by_name(a), dtypes.by_name(b)).name == want
    assert promote_types(dtypes.by_name(b), dtypes.by_name(a)).name == want


@pytest.mark.parametrize(("a", "b"), [("uint64", "int64"), ("float8_e4m3", "float32")])
def test_pairs_without_a_common_dtype(a: str, b: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{a}.*{b}.*\.to\(\)"):
        promote_types(dtypes.by_name(a), dtypes.by_name(b))


def test_what_enters_a_kernel() -> None:
    """`promote` says the dtype of the operands, which is not always that of the result."""
    ints, floats = meta("int32", (2,)), meta("float32", (2,))
    assert record("add").promote(ints, floats, None) is dtypes.float32
    assert record("eq").promote(ints, number(0.5)) is dtypes.float32
    assert record("eq").infer(ints, number(0.5)).dtype is dtypes.bool
    assert record("logical_and").promote(ints, floats) is dtypes.bool
    assert record("div").promote(ints, ints, "none") is dtypes.float32
    assert record("div").promote(ints, ints, "floor") is dtypes.int32
    # the kernel reads int32 and adds in int64
    assert record("sum").promote(ints, None, False, None) is dtypes.int32
    assert record("sum").infer(ints, None, False, None).dtype is dtypes.int64
    assert record("where").promote(meta("bool", (2,)), ints, floats) == (
        None,
        dtypes.float32,
        dtypes.float32,
    )
    assert record("exp").promote(ints) is dtypes.float32
    assert record("copy_").promote(ints, floats) == (None, dtypes.int32)
