"""Quantized weights of safetensors checkpoints: what `quantization_config` describes, presented as
packed weights.

``read`` parses the configuration once and gives the quantized weights of a checkpoint by the names
of dense ones; a method is one module with one function, ``find``, in the table here. Weights are
converted when they are taken, without a change of value, into a scheme of this runtime
(``layouts``). Activation quantization that a checkpoint asks for is not imitated: activations keep
the precision of the forward pass, and so does the cache: scales for a quantized one are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import awq, bitsandbytes, compressed_tensors, fp8, gptq, modelopt, mxfp4
from .config import QuantizationConfig, parse
from .source import Source, Weight

__all__ = ["METHODS", "Quantized", "QuantizationConfig", "Weight", "parse", "read"]

METHODS = {
    "awq": awq.find,
    "bitsandbytes": bitsandbytes.find,
    "compressed-tensors": compressed_tensors.find,
    "fbgemm_fp8": fp8.find,
    "fp8": fp8.find,
    "gptq": gptq.find,
    "modelopt": modelopt.find,
    "mxfp4": mxfp4.find,
}


# Scales and zero points for keys, values, queries and probabilities of attention in 8 bits.
_CACHE_SCALE = re.compile(
    r"(.*\.)?((q|k|v|kv|prob)_(scale|zero_point)|(q|k|v|qkv)_proj\.output_scale)"
)
_FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")


@dataclass(frozen=True)
class Quantized:
    """What the quantization of a checkpoint comes to: ``weights`` by name, and ``cache_scales``,
    tensors for a quantized cache, which this runtime's cache has no use for."""

    weights: Mapping[str, Weight] = field(default_factory=dict)
    cache_scales: tuple[str, ...] = ()

    def merged(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tensors of a checkpoint with each quantized weight in the place of its parts."""
        if not self.weights and not self.cache_scales:
            return tensors
        return _merged(tensors, self.weights, self.cache_scales)


def read(config: Mapping[str, Any], file: Any, where: str) -> Quantized:
    """The quantization of a checkpoint, empty for one without.

    ``file`` is the opened safetensors checkpoint, ``where`` the name of its `config.json`. Refuses
    what does not fit, with file, tensor or field, and both values."""
    parsed = parse(config, where, tuple(METHODS))
    if parsed is None:
        return Quantized()
    source = Source(file)
    for name, info in source.tensors.items():
        if info.dtype in _FNUZ:
            raise source.unsupported(
                f"tensor '{name}' has dtype {info.dtype}; served are float8_e4m3 and float8_e5m2"
            )
    weights = {weight.info.name: weight for weight in METHODS[parsed.method](source, parsed)}
    scales = tuple(name for name in source.tensors if _CACHE_SCALE.fullmatch(name))
    return Quantized(weights, scales)


def _merged(
    tensors: Mapping[str, Any], weights: Mapping[str, Weight], without: tuple[str, ...]
) -> dict[str, Any]:
    first: dict[str, Weight] = {}
    hidden = set(without)
    for weight in weights.values():
        first[weight.parts[0]] = weight
        hidden.update(weight.parts, weight.unused)

    def rows() -> Iterator[tuple[str, Any]]:
        for name, info in tensors.items():
            if name in first:
                yield first[name].info.name, first[name].info
            elif name not in hidden:
                yield name, info

    return dict(rows())
