"""NVFP4 and FP8 as NVIDIA's Model Optimizer publishes them.

NVFP4: `weight` uint8 [N, K / 2] holds pairs of e2m1 codes, the even column in the low half,
`weight_scale` float8_e4m3 [N, K / 16], `weight_scale_2` one float32.
value = code * (weight_scale * weight_scale_2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import fp8, layouts
from .config import QuantizationConfig
from .source import Layer, Part, Source, Weight

__all__ = ["find", "nvfp4_weight"]


def find(source: Source, config: QuantizationConfig) -> Iterator[Weight]:
    """Every weight of the configuration's algorithm; none where only the cache has one."""
    if not config.fields.has("quant_algo") and config.fields.has("kv_cache_quant_algo"):
        return
    algorithm = config.fields.choice("quant_algo", ("NVFP4", "FP8"))
    if algorithm == "FP8":
        yield from fp8.find(source, config)
        return
    size = config.fields.integer("group_size", 16)
    if size != 16:
        raise config.fields.unsupported("group_size", f"is {size}; served with NVFP4 is 16")
    for layer in source.layers("weight"):
        info = layer.info("weight")
        if info is not None and info.dtype == "uint8" and not config.skips(layer.stem):
            codes = layer.take("weight", "uint8", rank=2)
            yield nvfp4_weight(layer, codes, "weight_scale_2", inverse=False)


def nvfp4_weight(layer: Layer, codes: Part, factor_name: str, inverse: bool) -> Weight:
    """The weight of pairs with `weight_scale` and a factor; ``inverse``: scales are divided by
    it."""
    import numpy as np

    rows, columns = codes.shape[0], codes.shape[1] * 2
    scales = layer.take("weight_scale", "float8_e4m3")
    scales.check_shape((rows, columns // 16))
    factor = layer.take(factor_name, "float32")
    factor.check_shape((), (1,))

    def build() -> Any:
        value = factor.floats().reshape(())
        factor.refuse_where(np.asarray(value <= 0), value, "a positive number")
        if inverse:
            with np.errstate(over="ignore"):
                value = np.float32(1) / value
            factor.refuse_where(~np.isfinite(np.asarray(value)), value, "a finite inverse")
        codes_of_scales = scales.array()
        scales.refuse_where(codes_of_scales >= 127, codes_of_scales, "a byte of 0 .. 126, no NaN")
        return layouts.pack_nvfp4(codes.array(), codes_of_scales, value)

    return layer.weight("NVFP4_E4M3", (rows, columns), build)
