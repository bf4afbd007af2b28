"""bitsandbytes: NF4 in blocks, with absmax plain or quantized itself, and int8 with row scales.

NF4: `weight` holds N K / 2 bytes, two codes each, the first in the high half; `weight.absmax` one
scale for each block of the flattened matrix; `weight.quant_state.bitsandbytes__nf4` a JSON text
with the rest. Quantized absmax: uint8 codes into `nested_quant_map`, times `nested_absmax` of
their block, plus `nested_offset`. int8: `weight` int8 [N, K], `SCB` float32 [N]; value =
code * SCB / 127.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from ..config import Fields
from . import layouts
from .config import QuantizationConfig
from .source import Layer, Source, Weight

__all__ = ["NF4", "find"]

# Dettmers et al., QLoRA, arXiv:2305.14314, appendix E.
NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
_STATE = "weight.quant_state.bitsandbytes__"


def find(source: Source, config: QuantizationConfig) -> Iterator[Weight]:
    """Every weight with a quantization state, or with `SCB`."""
    fields = config.fields
    if fields.boolean("load_in_8bit", False):
        for layer in source.layers("SCB"):
            if not config.skips(layer.stem):
                yield _int8(layer)
        return
    if not fields.boolean("load_in_4bit", False):
        raise fields.fail("load_in_4bit", "or load_in_8bit must be true")
    fields.choice("bnb_4bit_quant_type", ("nf4",), None)
    for layer in source.layers(f"{_STATE}fp4"):
        raise source.unsupported(f"'{layer.stem}.weight' is quantized to FP4; served is NF4")
    for layer in source.layers(f"{_STATE}nf4"):
        if not config.skips(layer.stem):
            yield _nf4(layer)


def _int8(layer: Layer) -> Weight:
    import numpy as np

    codes = layer.take("weight", "int8", rank=2)
    rows, columns = codes.shape
    scales = layer.take("SCB", "float32")
    scales.check_shape((rows,), (rows, 1), (1, rows))
    layout = layer.maybe("weight_format", "uint8")

    def build() -> Any:
        if layout is not None:
            values = layout.array()
            layout.refuse_where(values != 0, values, "0 (rows)")
        factors = scales.floats().reshape(rows, 1) / np.float32(127)
        return layouts.pack_int8(codes.array(), factors, max(1, columns))

    return layer.weight("INT8_G32", (rows, columns), build)


def _state(layer: Layer) -> Fields:
    part = layer.take(f"{_STATE}nf4", "uint8", rank=1)
    where = f"{layer.source.file.path}: tensor '{part.name}'"
    if part.info.nbytes > 1 << 20:
        raise layer.source.fail(f"tensor '{part.name}' has {part.info.nbytes} bytes of JSON")
    try:
        state = json.loads(part.bytes().tobytes())
    except (ValueError, RecursionError) as error:
        raise layer.source.fail(f"tensor '{part.name}' is no JSON text: {error}") from None
    return Fields(state, where)


def _nf4(layer: Layer) -> Weight:
    import numpy as np

    codes = layer.take("weight")
    state = _state(layer)
    state.choice("quant_type", ("nf4",))
    size = state.integer("blocksize", low=1, high=1 << 20)
    if size % 64:
        raise state.unsupported("blocksize", f"is {size}; served are multiples of 64")
    shape = state.get("shape")
    if (
        not isinstance(shape, list)
        or len(shape) != 2
        or not all(type(item) is int and 0 <= item < 1 << 31 for item in shape)
    ):
        raise state.fail("shape", f"must be [N, K], found {str(shape)[:80]}")
    rows, columns = shape
    if codes.info.nbytes * 2 != rows * columns:
        raise layer.source.fail(
            f"tensor '{codes.name}' has {codes.info.nbytes} bytes, the shape {shape} of its state "
            f"takes {rows * columns / 2:g}"
        )
    count = math.ceil(rows * columns / size)
    scales = layer.take("weight.absmax", "float32", "uint8")
    scales.check_shape((count,))
    table = layer.maybe("weight.quant_map", "float32")
    nested = None
    if scales.info.dtype == "uint8":
        nested_size = state.integer("nested_blocksize", low=1, high=1 << 20)
        offset = state.number("nested_offset")
        outer = layer.take("weight.nested_absmax", "float32")
        outer.check_shape((math.ceil(count / nested_size),))
        levels = layer.take("weight.nested_quant_map", "float32")
        levels.check_shape((256,))
        nested = (nested_size, np.float32(offset), outer, levels)

    def absmax() -> Any:
        if nested is None:
            return scales.floats()
        nested_size, offset, outer, levels = nested
        spread = np.repeat(outer.floats(), nested_size)[:count]
        return levels.floats()[scales.array()] * spread + offset

    def build() -> Any:
        if table is not None:
            table.check_shape((16,))
            values = table.array()
            table.refuse_where(values != np.array(NF4, np.float32), values, "the NF4 table's value")
        block = np.arange(rows * columns // 64) * 64 // size
        factors = absmax()[block].reshape(rows, columns // 64)
        return layouts.pack_nf4(codes.bytes().reshape(rows, columns // 2), factors)

    return layer.weight("NF4", (rows, columns), build)
