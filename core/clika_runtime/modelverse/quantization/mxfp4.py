"""MXFP4 as split pairs: `NAME_blocks` uint8 [..., K / 32, 16] holds pairs of e2m1 codes, the even
column in the low half, and `NAME_scales` uint8 [..., K / 32] the exponents of 2^(e - 127)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .config import QuantizationConfig
from .source import Layer, Source, Weight

__all__ = ["find"]


def find(source: Source, config: QuantizationConfig) -> Iterator[Weight]:
    """Every pair."""
    for name in source.tensors:
        stem, dot, part = name.rpartition(".")
        if dot and part.endswith("_blocks") and not config.skips(stem):
            yield _weight(Layer(source, stem), part.removesuffix("_blocks"))


def _weight(layer: Layer, name: str) -> Weight:
    import numpy as np

    blocks = layer.take(f"{name}_blocks", "uint8")
    scales = layer.take(f"{name}_scales", "uint8", "float8_e8m0")
    if len(blocks.shape) < 3 or blocks.shape[-1] != 16:
        raise layer.source.fail(
            f"tensor '{blocks.name}' has shape {list(blocks.shape)}, expected [..., K / 32, 16]"
        )
    scales.check_shape(blocks.shape[:-1])
    shape = (*blocks.shape[:-2], blocks.shape[-2] * 32)

    def build() -> Any:
        import clika_runtime as crt

        exponents = scales.array()
        scales.refuse_where(exponents == 255, exponents, "an exponent of at most 254")
        rows = math.prod(shape[:-1])
        woven = np.concatenate([blocks.array(), exponents[..., None]], axis=-1)
        payload = woven.reshape(rows, shape[-1] // 32 * 17)
        tensor = crt.Tensor.from_buffer(payload, payload.shape, crt.uint8, mapped=False)
        return crt.make_quantized(tensor, "MXFP4_E8M0", list(reversed(shape))).tensor

    return layer.weight("MXFP4_E8M0", shape, build, name=f"{layer.stem}.{name}")
