"""FP8: float8 weights with one scale for the tensor, for each row, or for each block, as
transformers' `fp8` (DeepSeek's blocks) and `fbgemm_fp8` publish them. value = code * scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import layouts
from .config import QuantizationConfig
from .source import FLOATS, Layer, Source, Weight

__all__ = ["find", "float8_weight"]

SCHEMES = {"float8_e4m3": "FP8_E4M3", "float8_e5m2": "FP8_E5M2"}
# DeepSeek's name for the multiplier, and everybody else's.
_SCALES = ("weight_scale_inv", "weight_scale")


def find(source: Source, config: QuantizationConfig) -> Iterator[Weight]:
    """Every float8 matrix that the configuration does not leave out."""
    block = block_size(config, "weight_block_size")
    for layer in source.layers("weight"):
        info = layer.info("weight")
        if info is not None and info.dtype in SCHEMES and not config.skips(layer.stem):
            yield float8_weight(layer, block)


def block_size(config: QuantizationConfig, key: str) -> tuple[int, int] | None:
    """Rows and columns that share a scale, or None: the whole tensor or a whole row does."""
    value = config.fields.get(key, None)
    if value is None:
        return None
    if (
        not isinstance(value, Sequence)
        or len(value) != 2
        or not all(type(size) is int and 0 < size < 1 << 20 for size in value)
    ):
        raise config.fields.fail(key, f"must be two sizes, found {str(value)[:80]}")
    if value[1] % 32:
        raise config.fields.unsupported(key, f"is {value}; served are multiples of 32 columns")
    return value[0], value[1]


def float8_weight(layer: Layer, block: tuple[int, int] | None) -> Weight:
    """The weight of a layer with `weight` in float8 and a scale beside it."""
    import numpy as np

    codes = layer.take("weight", *SCHEMES, rank=2)
    rows, columns = codes.shape
    name = _SCALES[0] if layer.info(_SCALES[0]) is not None else _SCALES[1]
    scales = layer.take(name, *FLOATS)
    each = columns
    tall = rows
    if block is not None:
        tall, each = block
        scales.check_shape((-(-rows // tall), -(-columns // each)))
    else:
        scales.check_shape((), (1,), (1, 1), (rows,), (rows, 1))

    def build() -> object:
        values = scales.floats()
        if block is not None:
            values = np.repeat(values, tall, 0)[:rows]
        else:
            values = values.reshape(-1, 1)
        scheme = SCHEMES[codes.info.dtype or ""]
        return layouts.pack_float8(scheme, codes.array(), values, max(1, each))

    return layer.weight(SCHEMES[codes.info.dtype or ""], (rows, columns), build)
