"""Which operators a backend serves in which dtypes: with a kernel of its own, composed, or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..errors import InvalidArgumentError, UnsupportedError
from ..ops.record import VIEW, Record
from ._kit import Case, Operand, call, cases, inferred
from ._numpy import NATIVE, round_to

__all__ = ["COMPOSED", "DTYPES", "NATIVELY", "REFUSED", "VIEWED", "served"]

NATIVELY = "native"
VIEWED = "view"
COMPOSED = "composed"
REFUSED = "refused"
#: From the dtypes that every backend is asked for to the others.
DTYPES = tuple(dict.fromkeys(("float32", "bfloat16", "float16", "float64", *sorted(NATIVE))))

_TRIED = 40  # cases of an operator and dtype


def served(backend: str, name: str) -> dict[str, str]:
    """How a backend serves an operator, by dtype: `NATIVELY`, `VIEWED`, `COMPOSED` or `REFUSED`.

    The operator's cases run in every dtype. One that fails to be ``native`` where others are makes
    the dtype ``composed``; ``packed`` stands for packed weights, of operators that take them.

    Example: ``served("cpu", "softmax")["float32"]`` is ``"native"``.
    """
    record = ops.record(name)
    kept = record.compose
    composed: list[str] = []

    def compose(*args: Any, **kwargs: Any) -> Any:
        assert kept is not None
        composed.append(name)
        return kept(*args, **kwargs)

    if kept is not None:
        record.compose = compose
    try:
        found = {dtype: _best(backend, _in(name, dtype), composed) for dtype in DTYPES}
        if any(arg.packed for arg in record.tensors):
            packed = (case for case in cases(name) if _packed(case))
            found["packed"] = _best(backend, packed, composed)
    finally:
        record.compose = kept
    if VIEW in record.traits:
        found = {dtype: REFUSED if how == REFUSED else VIEWED for dtype, how in found.items()}
    return found


def _best(backend: str, tried: Iterator[Case], composed: list[str]) -> str:
    outcomes = set()
    for case in tried:
        try:
            inferred(case)
        except InvalidArgumentError:
            continue
        composed.clear()
        try:
            call(case, backend)
        except (InvalidArgumentError, UnsupportedError):
            continue
        outcomes.add(COMPOSED if composed else NATIVELY)
        if len(outcomes) == 2:
            break
    return COMPOSED if COMPOSED in outcomes else NATIVELY if outcomes else REFUSED


def _operands(case: Case) -> list[Operand]:
    found: list[Operand] = []
    for value in case.args:
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Operand):
                found.append(item)
    return found


def _packed(case: Case) -> bool:
    return any(operand.scheme for operand in _operands(case))


def _in(name: str, dtype: str) -> Iterator[Case]:
    """Cases of the operator in that dtype: its own, else others' with their dtype replaced."""
    record = ops.record(name)
    dense = [case for case in cases(name) if not _packed(case)]
    own = [case for case in dense if case.dtype == dtype and _operands(case)]
    if own:
        yield from own[:_TRIED]
        return
    if not any(map(_operands, dense)):
        for case in dense[:_TRIED]:
            yield from _with_static(record, case, dtype)
        return
    for case in dense[:_TRIED]:
        held = [operand.dtype for operand in _operands(case)]
        if not held:
            continue
        old = "float32" if "float32" in held else held[0]
        yield _replaced(case, old, dtype, first=False)
        yield _replaced(case, old, dtype, first=True)


def _with_static(record: Record, case: Case, dtype: str) -> Iterator[Case]:
    """A factory: its result is in that dtype."""
    named = [arg.name for arg in record.args]
    if "dtype" in named:
        at = named.index("dtype")
        args = (*case.args[:at], dtypes.by_name(dtype), *case.args[at + 1 :])
        yield replace(case, args=args, dtype=dtype)
    elif inferred(case)[0][1] == dtype:
        yield case


def _replaced(case: Case, old: str, new: str, *, first: bool) -> Case:
    """The case with the operands of one dtype, or only the first of them, in another."""
    left = [1 if first else 1 << 30]

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(item) for item in value]
        if not isinstance(value, Operand) or value.dtype != old or not left[0]:
            return value
        left[0] -= 1
        values: Any = value.values
        if new.startswith("u"):
            values = np.abs(values)
        return replace(value, values=round_to(values, new), dtype=new)

    return replace(case, args=tuple(map(changed, case.args)), dtype=new)
