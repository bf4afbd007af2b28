"""GPTQ: int4 or int8 codes in groups of input features, as AutoGPTQ and GPTQModel publish them.

`qweight` int32 [K * bits / 32, N] holds codes of consecutive k from the low bits on, `qzeros` int32
[G, N * bits / 32] zeros of consecutive n, `scales` [G, N], `g_idx` int32 [K] the group of each k.
value = scale * (code - zero); the first version of the format stores zero - 1. With act-order the
columns are sorted by group here, and the layer gathers its input in that order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..config import Fields
from . import layouts
from .config import QuantizationConfig
from .source import FLOATS, Part, Source, Weight

__all__ = ["column_order", "find", "group_size", "unpack_words"]

FORMATS = ("gptq", "gptq_v2")


def group_size(fields: Fields, key: str, default: Any = None) -> int:
    """Columns of a group; -1: the whole row."""
    size: int = (
        fields.integer(key, low=-1) if default is None else fields.integer(key, default, low=-1)
    )
    if size != -1 and (size <= 0 or size % 32):
        raise fields.unsupported(key, f"is {size}; served are -1 and multiples of 32")
    return size


def unpack_words(words: Any, bits: int) -> Any:
    """Words int32 [R, C] as codes uint8 [R, C * 32 / bits], from the low bits on."""
    import numpy as np

    data = np.ascontiguousarray(words).view(np.uint8)
    return layouts.unpack_neighbours(data) if bits == 4 else data


def column_order(index: Part, columns: int, each: int, groups: int) -> Any:
    """The columns sorted by group, or None where they are. Every group must be full."""
    import numpy as np

    values = index.array().astype(np.int64)
    if values.size and (values == -1).all():
        return None  # no act-order
    index.refuse_where((values < 0) | (values >= groups), values, f"a group in 0 .. {groups - 1}")
    order = np.argsort(values, kind="stable")
    expected = np.arange(columns) // each
    if not np.array_equal(values[order], expected):
        at = int(np.flatnonzero(values[order] != expected)[0])
        raise index.source.unsupported(
            f"tensor '{index.name}': group {int(expected[at])} has not {each} columns; groups of "
            "unequal sizes are not served"
        )
    return None if np.array_equal(values, expected) else order.astype(np.int32)


def find(source: Source, config: QuantizationConfig) -> Iterator[Weight]:
    """Every `qweight`."""
    fields = config.fields
    bits = fields.integer("bits", low=1, high=32)
    if bits not in (4, 8):
        raise fields.unsupported("bits", f"is {bits}; served are 4 and 8")
    each = group_size(fields, "group_size")
    version = fields.choice("checkpoint_format", FORMATS, "gptq")
    if fields.boolean("is_marlin_format", False):
        raise fields.unsupported("is_marlin_format", "is true; served is the plain layout")
    if fields.get("dynamic", None):
        raise fields.unsupported("dynamic", "gives modules sizes of their own; that is not served")
    for layer in source.layers("qweight"):
        if not config.skips(layer.stem):
            yield _weight(source, layer, bits, each, 1 if version == "gptq" else 0)


def _weight(source: Source, layer: Any, bits: int, group: int, shift: int) -> Weight:
    import numpy as np

    per_word = 32 // bits
    codes = layer.take("qweight", "int32", rank=2)
    columns, rows = codes.shape[0] * per_word, codes.shape[1]
    each = columns if group == -1 else group
    groups = -(-columns // each) if each else 0
    scales = layer.take("scales", *FLOATS)
    scales.check_shape((groups, rows))
    zeros = layer.take("qzeros", "int32")
    zeros.check_shape((groups, -(-rows // per_word)))
    index = layer.maybe("g_idx", "int32", "int64")
    if index is not None:
        index.check_shape((columns,))

    def order() -> Any:
        return None if index is None else column_order(index, columns, each, groups)

    def build() -> Any:
        sorting = order()
        factors = np.ascontiguousarray(scales.floats().T)
        zero = unpack_words(zeros.array(), bits)[:, :rows].T
        zero = (zero + np.uint8(shift)) & np.uint8(2**bits - 1)
        packed = np.ascontiguousarray(codes.array().T)  # [N, words]
        if bits == 8:
            if (zero != 128).any():
                at = np.argwhere(zero.T != 128)[0]
                raise source.unsupported(
                    f"tensor '{zeros.name}' gives group {at[0]} of row {at[1]} the zero "
                    f"{int(zero.T[tuple(at)])}; served is 128 with 8 bits (symmetric)"
                )
            whole = unpack_words(packed, 8)
            signed = (whole if sorting is None else whole[:, sorting]) ^ np.uint8(128)
            return layouts.pack_int8(signed, factors, each)
        pairs = packed.view(np.uint8)
        if sorting is not None:
            pairs = layouts.neighbours(layouts.unpack_neighbours(pairs)[:, sorting])
        return layouts.pack_int4(pairs, factors, zero, each)

    scheme = "INT8_G32" if bits == 8 else layouts.int4_scheme(columns, each)
    return layer.weight(scheme, (rows, columns), build, order)  # type: ignore[no-any-return]
