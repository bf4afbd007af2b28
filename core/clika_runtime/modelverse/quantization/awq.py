"""AWQ: int4 codes in groups of input features, in AutoAWQ's `gemm` layout.

`qweight` int32 [K, N / 8] and `qzeros` int32 [G, N / 8] hold eight consecutive n in a word, at the
places 0 2 4 6 1 3 5 7 from the low bits on; `scales` [G, N]. value = scale * (code - zero)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import layouts
from .config import QuantizationConfig
from .gptq import group_size
from .source import FLOATS, Layer, Source, Weight

__all__ = ["ORDER", "find"]

# Bits 4 i .. 4 i + 3 of a word are those of row ORDER[i] of its eight.
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def find(source: Source, config: QuantizationConfig) -> Iterator[Weight]:
    """Every `qweight`."""
    fields = config.fields
    key = "bits" if fields.has("bits") or not fields.has("w_bit") else "w_bit"
    bits = fields.integer(key, low=1, high=32)
    if bits != 4:
        raise fields.unsupported(key, f"is {bits}; served is 4")
    key = (
        "group_size"
        if fields.has("group_size") or not fields.has("q_group_size")
        else ("q_group_size")
    )
    each = group_size(fields, key)
    version = fields.text("version", "gemm")
    if version.lower() != "gemm":
        raise fields.unsupported("version", f"is '{version}'; served is gemm")
    for layer in source.layers("qweight"):
        if not config.skips(layer.stem):
            yield _weight(layer, each)


def _weight(layer: Layer, group: int) -> Weight:
    import numpy as np

    codes = layer.take("qweight", "int32", rank=2)
    columns, rows = codes.shape[0], codes.shape[1] * 8
    each = columns if group == -1 else group
    groups = -(-columns // each) if each else 0
    scales = layer.take("scales", *FLOATS)
    scales.check_shape((groups, rows))
    zeros = layer.take("qzeros", "int32")
    zeros.check_shape((groups, rows // 8))

    def build() -> Any:
        words = np.ascontiguousarray(codes.array().view(np.uint32).T)  # [N / 8, K]
        even, odd = words[:, 0::2], words[:, 1::2]
        pairs = np.empty((rows // 8, 8, columns // 2), np.uint8)
        zero_words = zeros.array().view(np.uint32).T
        zero = np.empty((rows // 8, 8, groups), np.uint8)
        for i, row in enumerate(ORDER):
            pairs[:, row] = (even >> 4 * i & 15) | (odd >> 4 * i & 15) << 4
            zero[:, row] = zero_words >> 4 * i & 15
        return layouts.pack_int4(
            pairs.reshape(rows, columns // 2),
            np.ascontiguousarray(scales.floats().T),
            zero.reshape(rows, groups),
            each,
        )

    return layer.weight(layouts.int4_scheme(columns, each), (rows, columns), build)
