"""Result dtypes of mixed operands, by PyTorch's rules.

Operands fall into three classes: tensors with dimensions, 0-d tensors, Python numbers ("weak"). A
lower class changes the result only when its kind (bool < integer < float) is above that of the
higher class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from .record import Meta

FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))
INTS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
BOOL = frozenset(("bool",))
NUMBERS = FLOATS | INTS
ALL = NUMBERS | BOOL
INDEX = frozenset(("int32", "int64"))

DEFAULT_FLOAT = dtypes.float32
_SIGNED = {16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def promote_types(a: Any, b: Any) -> Any:
    """The smallest dtype that holds both kinds and ranges.

    >>> promote_types(dtypes.uint8, dtypes.int8), promote_types(dtypes.int64, dtypes.float16)
    (clika_runtime.int16, clika_runtime.float16)
    """
    if a is b:
        return a
    if a.name not in ALL or b.name not in ALL:
        raise InvalidArgumentError(
            f"promotion: {a.name} and {b.name} have no common dtype; convert one with .to() first"
        )
    if a.kind == "b":
        return b
    if b.kind == "b":
        return a
    if a.kind == "f" or b.kind == "f":
        if a.kind != b.kind:
            return a if a.kind == "f" else b
        if a.bits == b.bits:  # float16 with bfloat16
            return dtypes.float32
        return a if a.bits > b.bits else b
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    wide = _SIGNED.get(unsigned.bits * 2)
    if wide is None:
        raise InvalidArgumentError(
            f"promotion: no integer dtype holds {a.name} and {b.name}; convert one with .to() first"
        )
    return wide


def _over(higher: Any, lower: Any) -> Any:
    """The result of a class of operands over the class below it; None stands for an empty class."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "f":
        return higher
    if higher.kind == "b" or lower.kind == "f":
        return promote_types(higher, lower)
    return higher


def result_type(*operands: Meta | None) -> Any:
    """The common dtype of operands; None entries (absent optionals) do not count."""
    found: list[Any] = [None, None, None]
    for meta in operands:
        if meta is None:
            continue
        rank = 2 if meta.weak else 1 if not meta.shape else 0
        found[rank] = meta.dtype if found[rank] is None else promote_types(found[rank], meta.dtype)
    return _over(found[0], _over(found[1], found[2]))


def to_float(dtype: Any) -> Any:
    """Integers and bool become float32; floating-point dtypes stay."""
    return dtype if dtype.kind == "f" else DEFAULT_FLOAT
