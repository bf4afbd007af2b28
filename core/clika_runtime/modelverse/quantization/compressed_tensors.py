"""The formats of compressed-tensors that hold weights: `pack-quantized` (int4, int8),
`int-quantized`, `naive-quantized`, `float-quantized` (float8), `nvfp4-pack-quantized`.

`pack-quantized`: `weight_packed` int32 [N, K * bits / 32] holds code + 2^(bits - 1) of consecutive
columns from the low bits on; `weight_zero_point` the same of consecutive rows, int32
[N * bits / 32, G], or plain int8 [N, G]; `weight_g_idx` the group of each column. With all of them
value = weight_scale * (code - zero); of NVFP4 it is code * (weight_scale / weight_global_scale)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..config import Fields
from . import layouts
from .config import QuantizationConfig, names_of, stands_for
from .fp8 import block_size, float8_weight
from .gptq import column_order, group_size, unpack_words
from .modelopt import nvfp4_weight
from .source import FLOATS, Layer, Part, Source, Weight

__all__ = ["find"]

FORMATS = (
    "pack-quantized",
    "int-quantized",
    "naive-quantized",
    "float-quantized",
    "nvfp4-pack-quantized",
)
STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")


@dataclass(frozen=True)
class _Group:
    """One of `config_groups`: the modules that it is for, and how their weights are stored."""

    targets: tuple[str, ...]
    format: str
    weights: Fields
    bits: int
    kind: str
    strategy: str
    symmetric: bool

    def has(self, stem: str) -> bool:
        return any(name == "Linear" or stands_for(name, stem) for name in self.targets)


def _groups(fields: Fields) -> list[_Group]:
    outer = fields.section("config_groups")
    if outer is None:
        raise fields.fail("config_groups", "is missing")
    result = []
    for key in outer.raw:
        section = outer.section(key)
        weights = None if section is None else section.section("weights")
        if section is None or weights is None:
            continue  # a group about activations alone
        own = section if section.has("format") else fields
        if own.text("format", "") == "dense":
            continue
        result.append(
            _Group(
                names_of(section, "targets"),
                own.choice("format", FORMATS),
                weights,
                weights.integer("num_bits", low=1, high=64),
                weights.choice("type", ("int", "float"), "int"),
                weights.choice("strategy", STRATEGIES, "tensor"),
                weights.boolean("symmetric", True),
            )
        )
    return result


def find(source: Source, config: QuantizationConfig) -> Iterator[Weight]:
    """The weights of every module that a group is for and that is stored in codes."""
    fields = config.fields
    sparsity = fields.get("sparsity_config", None)
    if isinstance(sparsity, Mapping) and sparsity.get("format", "dense") != "dense":
        raise fields.unsupported("sparsity_config", f"has the format {sparsity.get('format')!r}")
    groups = _groups(fields)
    stems = [
        name.rpartition(".")[0]
        for name, info in source.tensors.items()
        if name.endswith(".weight_packed")
        or (name.endswith(".weight") and info.dtype in ("int8", "float8_e4m3", "float8_e5m2"))
    ]
    for stem in stems:
        if config.skips(stem):
            continue
        group = next((item for item in groups if item.has(stem)), None)
        if group is None:
            raise source.fail(
                f"'{stem}' is stored in codes and no group of the configuration has it"
            )
        yield _weight(Layer(source, stem), group, config)


def _weight(layer: Layer, group: _Group, config: QuantizationConfig) -> Weight:
    fields = group.weights
    if group.format == "nvfp4-pack-quantized":
        if (group.bits, group.kind) != (4, "float") or fields.integer("group_size", 16) != 16:
            raise fields.unsupported(
                "num_bits",
                f"is {group.bits} of {group.kind}; {group.format} holds 4 of float by 16",
            )
        codes = layer.take("weight_packed", "uint8", rank=2)
        return nvfp4_weight(layer, codes, "weight_global_scale", inverse=True)
    if group.format == "pack-quantized":
        if group.kind != "int" or group.bits not in (4, 8):
            raise fields.unsupported(
                "num_bits",
                f"is {group.bits} of {group.kind}; {group.format} is served with 4 and 8 of int",
            )
        _refuse_asymmetric(group)
        return _packed(layer, group)
    if group.bits != 8:
        raise fields.unsupported("num_bits", f"is {group.bits}; {group.format} is served with 8")
    if group.kind == "float":
        if group.strategy == "block":
            section = QuantizationConfig(config.method, fields)
            return float8_weight(layer, block_size(section, "block_structure"))
        if group.strategy not in ("tensor", "channel"):
            raise fields.unsupported("strategy", f"is '{group.strategy}' with float weights")
        return float8_weight(layer, None)
    _refuse_asymmetric(group)
    codes = layer.take("weight", "int8", rank=2)
    scales, each = _scales(layer, group, *codes.shape)
    zeros = layer.maybe("weight_zero_point")

    def build() -> Any:
        _refuse_zeros(layer, zeros, 0)
        return layouts.pack_int8(codes.array(), _matrix(scales), each)

    return layer.weight("INT8_G32", codes.shape, build)


def _refuse_asymmetric(group: _Group) -> None:
    if group.bits == 8 and not group.symmetric:
        raise group.weights.unsupported("symmetric", "is false with 8 bits of int; served is true")


def _scales(layer: Layer, group: _Group, rows: int, columns: int) -> tuple[Part, int]:
    """The scales of a matrix and the columns that share one."""
    scales = layer.take("weight_scale", *FLOATS)
    if group.strategy == "group":
        each = group_size(group.weights, "group_size")
        each = columns if each == -1 else each
        scales.check_shape((rows, -(-columns // max(1, each))))
    elif group.strategy == "channel":
        each = columns
        scales.check_shape((rows, 1), (rows,))
    elif group.strategy == "tensor":
        each = columns
        scales.check_shape((), (1,), (1, 1))
    else:
        raise group.weights.unsupported("strategy", f"is '{group.strategy}' with int weights")
    return scales, max(1, each)


def _matrix(scales: Part) -> Any:
    values = scales.floats()
    return values if values.ndim == 2 else values.reshape(-1, 1)


def _refuse_zeros(layer: Layer, zeros: Part | None, served: int) -> None:
    if zeros is None:
        return
    values = zeros.array()
    if (values != served).any():
        found = values[values != served].flat[0]
        raise layer.source.unsupported(
            f"tensor '{zeros.name}' has the zero point {found}; served with 8 bits is {served} "
            "(symmetric)"
        )


def _packed(layer: Layer, group: _Group) -> Weight:
    import numpy as np

    bits = group.bits
    per_word = 32 // bits
    codes = layer.take("weight_packed", "int32", rank=2)
    shape = layer.take("weight_shape", "int64", "int32")
    shape.check_shape((2,))
    rows, columns = (int(size) for size in shape.array())
    if list(codes.shape) != [rows, -(-columns // per_word)] or columns % per_word:
        raise layer.source.fail(
            f"tensor '{codes.name}' has shape {list(codes.shape)}, '{shape.name}' "
            f"[{rows}, {columns}] takes [{rows}, {columns / per_word:g}]"
        )
    scales, each = _scales(layer, group, rows, columns)
    groups = -(-columns // each)
    zeros = layer.maybe("weight_zero_point", "int32", "int8")
    if zeros is not None:
        tall = -(-rows // per_word) if zeros.info.dtype == "int32" else rows
        zeros.check_shape((tall, groups), *(((),) if group.strategy == "tensor" else ()))
    elif not group.symmetric:
        layer.take("weight_zero_point")
    index = layer.maybe("weight_g_idx", "int32", "int64")
    if index is not None:
        index.check_shape((columns,))

    def order() -> Any:
        return None if index is None else column_order(index, columns, each, groups)

    def build() -> Any:
        sorting = order()
        factors = _matrix(scales)
        words = codes.array()
        if bits == 8:
            whole = unpack_words(words, 8)
            signed = (whole if sorting is None else whole[:, sorting]) ^ np.uint8(128)
            return layouts.pack_int8(signed, factors, each)
        zero = np.full((1, groups), 8, np.uint8)
        if zeros is not None and zeros.info.dtype == "int32":
            zero = unpack_words(np.ascontiguousarray(zeros.array().T), 4).T[:rows]
        elif zeros is not None:
            values = zeros.array().reshape(-1, groups)
            zeros.refuse_where((values < -8) | (values > 7), values, "-8 .. 7")
            zero = (values + 8).astype(np.uint8)
        pairs = np.ascontiguousarray(words).view(np.uint8)
        if sorting is not None:
            pairs = layouts.neighbours(layouts.unpack_neighbours(pairs)[:, sorting])
        return layouts.pack_int4(pairs, factors, zero, each)

    scheme = "INT8_G32" if bits == 8 else layouts.int4_scheme(columns, each)
    return layer.weight(scheme, (rows, columns), build, order)
