"""The storable data types, one object each.

>>> float32.itemsize, bfloat16.is_floating_point, int4.bits
(4, True, 4)
>>> by_name("float32") is by_code(17) is float32
True
"""

from __future__ import annotations

import builtins
from typing import Final

from .errors import InvalidArgumentError

__all__ = [
    "ALL",
    "bfloat16",
    "bool",
    "by_code",
    "by_name",
    "dtype",
    "finfo",
    "float16",
    "float32",
    "float4_e2m1",
    "float64",
    "float6_e2m3",
    "float6_e3m2",
    "float8_e4m3",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0",
    "iinfo",
    "int16",
    "int2",
    "int32",
    "int4",
    "int64",
    "int8",
    "uint1",
    "uint16",
    "uint2",
    "uint32",
    "uint4",
    "uint64",
    "uint8",
]

_BY_CODE: dict[int, dtype] = {}
_BY_NAME: dict[str, dtype] = {}


class dtype:
    """A storable data type. There is one object per type, so ``is`` and ``==`` agree.

    ``name`` is its spelling, ``code`` its number in the plugin ABI, ``bits`` the width of an
    element, ``itemsize`` the bytes of an element on its own (1 for types narrower than a byte; see
    ``nbytes``).
    """

    __slots__ = ("bits", "code", "itemsize", "kind", "layout", "name")

    name: str
    code: int
    bits: int
    itemsize: int
    kind: str  # "b" bool, "i" signed, "u" unsigned, "f" floating point
    layout: tuple[int, int, int] | None  # exponent bits, mantissa bits, exponent bias

    def __new__(cls, name: str) -> dtype:
        """The data type of that name: ``dtype("float32") is float32``."""
        return by_name(name)

    @property
    def is_floating_point(self) -> builtins.bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> builtins.bool:
        """True for signed and unsigned integers; bool is none."""
        return self.kind in "iu"

    @property
    def is_signed(self) -> builtins.bool:
        return self.kind == "i" or (self.kind == "f" and self.name != "float8_e8m0")

    @property
    def is_complex(self) -> builtins.bool:
        """Always False: complex types are refused at every door."""
        return False

    @property
    def is_subbyte(self) -> builtins.bool:
        return self.bits < 8 and self.kind != "b"

    def nbytes(self, count: int) -> int:
        """Bytes that ``count`` elements take; elements narrower than a byte are packed.

        >>> int4.nbytes(3), float32.nbytes(3)
        (2, 12)
        """
        return (count * self.bits + 7) // 8

    def __repr__(self) -> str:
        return f"clika_runtime.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: object) -> dtype:
        return self


def _declare(
    name: str, code: int, bits: int, kind: str, layout: tuple[int, int, int] | None = None
) -> dtype:
    new = object.__new__(dtype)
    new.name = name
    new.code = code
    new.bits = bits
    new.itemsize = (bits + 7) // 8
    new.kind = kind
    new.layout = layout
    _BY_CODE[code] = new
    _BY_NAME[name] = new
    return new


# The codes are those of `enum clika_dtype` in plugin.h.
int2: Final = _declare("int2", 2, 2, "i")
int4: Final = _declare("int4", 3, 4, "i")
int8: Final = _declare("int8", 4, 8, "i")
int16: Final = _declare("int16", 5, 16, "i")
int32: Final = _declare("int32", 6, 32, "i")
int64: Final = _declare("int64", 7, 64, "i")
uint1: Final = _declare("uint1", 8, 1, "u")
uint2: Final = _declare("uint2", 9, 2, "u")
uint4: Final = _declare("uint4", 10, 4, "u")
uint8: Final = _declare("uint8", 11, 8, "u")
uint16: Final = _declare("uint16", 12, 16, "u")
uint32: Final = _declare("uint32", 13, 32, "u")
uint64: Final = _declare("uint64", 14, 64, "u")
float16: Final = _declare("float16", 15, 16, "f", (5, 10, 15))
bfloat16: Final = _declare("bfloat16", 16, 16, "f", (8, 7, 127))
float32: Final = _declare("float32", 17, 32, "f", (8, 23, 127))
float64: Final = _declare("float64", 18, 64, "f", (11, 52, 1023))
float8_e4m3: Final = _declare("float8_e4m3", 19, 8, "f", (4, 3, 7))
float8_e5m2: Final = _declare("float8_e5m2", 20, 8, "f", (5, 2, 15))
float8_e4m3fnuz: Final = _declare("float8_e4m3fnuz", 21, 8, "f", (4, 3, 8))
float8_e5m2fnuz: Final = _declare("float8_e5m2fnuz", 22, 8, "f", (5, 2, 16))
float8_e8m0: Final = _declare("float8_e8m0", 23, 8, "f", (8, 0, 127))
float6_e2m3: Final = _declare("float6_e2m3", 24, 6, "f", (2, 3, 1))
float6_e3m2: Final = _declare("float6_e3m2", 25, 6, "f", (3, 2, 3))
float4_e2m1: Final = _declare("float4_e2m1", 26, 4, "f", (2, 1, 1))
bool: Final = _declare("bool", 1, 8, "b")

#: Every storable data type, by code.
ALL: Final = tuple(_BY_CODE[code] for code in sorted(_BY_CODE))

_ALIASES: Final = {
    "bf16": "bfloat16",
    "double": "float64",
    "float": "float32",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
}


def by_code(code: int) -> dtype:
    """The data type with that number of the plugin ABI; ``InvalidArgumentError`` when there is
    none."""
    found = _BY_CODE.get(code)
    if found is None:
        raise InvalidArgumentError(f"dtypes.by_code: no storable data type has the code {code!r}")
    return found


def by_name(name: str) -> dtype:
    """The data type of that name. The short names of checkpoints and command lines (``bf16``,
    ``fp16``, ``half``, ...) and a leading module (``torch.float16``) are understood.

    >>> by_name("bf16"), by_name("torch.float16")
    (clika_runtime.bfloat16, clika_runtime.float16)
    """
    found = None
    if isinstance(name, str):
        bare = name.rpartition(".")[2]
        found = _BY_NAME.get(_ALIASES.get(bare, bare))
    if found is None:
        known = ", ".join(sorted(_BY_NAME))
        raise InvalidArgumentError(
            f"dtypes.by_name: {name!r} is not a data type; the data types are {known}"
        )
    return found


# Formats that keep no infinities and give the top exponent to numbers: the largest finite value.
_LARGEST: Final = {
    "float8_e4m3": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e8m0": 2.0**127,
    "float6_e2m3": 7.5,
    "float6_e3m2": 28.0,
    "float4_e2m1": 6.0,
}


class finfo:
    """Limits of a floating-point type: ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal``
    (also ``tiny``), ``smallest_subnormal`` and ``resolution``.

    >>> finfo(float16).max
    65504.0
    """

    __slots__ = (
        "bits",
        "dtype",
        "eps",
        "max",
        "min",
        "resolution",
        "smallest_normal",
        "smallest_subnormal",
        "tiny",
    )

    def __init__(self, type: dtype = float32) -> None:
        if not isinstance(type, dtype) or type.layout is None:
            raise TypeError(f"finfo: expected a floating-point data type, got {type!r}")
        _, mantissa, bias = type.layout
        self.dtype = type.name
        self.bits = type.bits
        self.eps = 2.0**-mantissa
        largest = _LARGEST.get(type.name)
        self.max = (2.0 - self.eps) * 2.0**bias if largest is None else largest
        if type is float8_e8m0:
            # Unsigned powers of two: no zero, no sign, no subnormals.
            self.min = self.smallest_normal = self.smallest_subnormal = 2.0**-127
        else:
            self.min = -self.max
            self.smallest_normal = 2.0 ** (1 - bias)
            self.smallest_subnormal = 2.0 ** (1 - bias - mantissa)
        self.tiny = self.smallest_normal
        self.resolution = 10.0 ** -int(mantissa * 0.30102999566398120)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer type: ``bits``, ``max`` and ``min``.

    >>> iinfo(int4).min, iinfo(uint8).max
    (-8, 255)
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or not type.is_integer:
            raise TypeError(f"iinfo: expected an integer data type, got {type!r}")
        self.dtype = type.name
        self.bits = type.bits
        if type.kind == "i":
            self.min = -(1 << (type.bits - 1))
            self.max = (1 << (type.bits - 1)) - 1
        else:
            self.min = 0
            self.max = (1 << type.bits) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
