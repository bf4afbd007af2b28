"""Quantized weights of safetensors checkpoints: what `quantization_config` describes, presented as
packed weights.

``read`` parses the configuration once and gives the quantized weights of a checkpoint by the names
of dense ones; a method is one module with one function, ``find``, in the table here. Weights are
converted when they are taken, without a change of value, into a scheme of this runtime
(``layouts``). Activation quantization that a checkpoint asks for is not imitated: activations keep
the precision of the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import awq, bitsandbytes, compressed_tensors, fp8, gptq, modelopt, mxfp4
from .config import QuantizationConfig, parse
from .source import Source, Weight

__all__ = ["METHODS", "QuantizationConfig", "Weight", "merged", "parse", "read"]

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


def read(config: Mapping[str, Any], file: Any, where: str) -> dict[str, Weight]:
    """The quantized weights of a checkpoint by name; empty without a `quantization_config`.

    ``file`` is the opened safetensors checkpoint, ``where`` the name of its `config.json`. Refuses
    what does not fit, with file, tensor or field, and both values."""
    parsed = parse(config, where, tuple(METHODS))
    if parsed is None:
        return {}
    return {weight.info.name: weight for weight in METHODS[parsed.method](Source(file), parsed)}


def merged(tensors: Mapping[str, Any], weights: Mapping[str, Weight]) -> dict[str, Any]:
    """The tensors of a checkpoint with each quantized weight in the place of its parts."""
    first: dict[str, Weight] = {}
    hidden: set[str] = set()
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
