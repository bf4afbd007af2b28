"""Tiny llama checkpoints in published quantized forms, with the numbers that they stand for.

Each form is written here from its public description, codes and scales at random: a function gives
the tensors of one linear by their suffixes, and its dense float32 values [N, K]."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.families import tiny
from tests.families.tiny import SIZES, Tiny

# K is 128 and 192: a whole group of 128 and a group and a half.
CONFIG: dict[str, Any] = {
    **SIZES,
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
}
Parts = tuple[dict[str, Any], Any]
Make = Callable[[Any, int, int], Parts]

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
NF4 = np.array(
    "-1.0 -0.6961928009986877 -0.5250730514526367 -0.39491748809814453 -0.28444138169288635 "
    "-0.18477343022823334 -0.09105003625154495 0.0 0.07958029955625534 0.16093020141124725 "
    "0.24611230194568634 0.33791524171829224 0.44070982933044434 0.5626170039176941 "
    "0.7229568362236023 1.0".split(),
    np.float32,
)


def words(codes: Any, axis: int, bits: int = 4, order: Any = None) -> torch.Tensor:
    """Codes as int32 words along an axis, number i of a word at bits i * bits."""
    codes = np.moveaxis(np.asarray(codes).astype(np.uint32), axis, -1)
    split = codes.reshape(*codes.shape[:-1], -1, 32 // bits)
    if order is not None:
        split = split[..., order]
    packed = (split << (np.arange(32 // bits, dtype=np.uint32) * bits)).sum(-1, dtype=np.uint32)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(packed, -1, axis)).view(np.int32))


def scales_of(rng: Any, *shape: int, size: float = 0.03) -> torch.Tensor:
    return torch.from_numpy(rng.uniform(0.5 * size, 1.5 * size, shape).astype(np.float32))


def float8(
    kind: str = "tensor", dtype: Any = torch.float8_e4m3fn, name: str = "weight_scale_inv"
) -> Make:
    def make(rng: Any, rows: int, columns: int) -> Parts:
        codes = torch.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32) * 3)
        codes = codes.to(dtype)
        if kind == "block":
            scale = scales_of(rng, -(-rows // 128), -(-columns // 128))
            wide = scale.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
        else:
            scale = scales_of(rng, *((rows, 1) if kind == "channel" else ()))
            wide = scale.expand(rows, columns)
        return {"weight": codes, name: scale}, (codes.float() * wide).numpy()

    return make


def group_of(columns: int, size: int) -> Any:
    return np.arange(columns) // (columns if size == -1 else size)


def gptq(size: int, bits: int = 4, act: bool = False, version: int = 1) -> Make:
    def make(rng: Any, rows: int, columns: int) -> Parts:
        index = group_of(columns, size)
        if act:
            index = index[rng.permutation(columns)]
        groups = int(index.max()) + 1
        codes = rng.integers(0, 2**bits, (columns, rows))
        zeros = rng.integers(1, 16, (groups, rows)) if bits == 4 else np.full((groups, rows), 128)
        factor = 1.0 if bits == 4 else 0.05
        scales = scales_of(rng, groups, rows, size=0.03 * factor).half()
        dense = scales.float().numpy()[index] * (codes - zeros[index]).astype(np.float32)
        parts = {
            "qweight": words(codes, 0, bits),
            "qzeros": words(zeros - (1 if version == 1 else 0), 1, bits),
            "scales": scales,
            "g_idx": torch.from_numpy(index.astype(np.int32)),
        }
        return parts, np.ascontiguousarray(dense.T)

    return make


def awq(size: int) -> Make:
    def make(rng: Any, rows: int, columns: int) -> Parts:
        index = group_of(columns, size)
        groups = int(index.max()) + 1
        codes = rng.integers(0, 16, (columns, rows))
        zeros = rng.integers(0, 16, (groups, rows))
        scales = scales_of(rng, groups, rows).half()
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        dense = scales.float().numpy()[index] * (codes - zeros[index]).astype(np.float32)
        parts = {
            "qweight": words(codes, 1, order=order),
            "qzeros": words(zeros, 1, order=order),
            "scales": scales,
        }
        return parts, np.ascontiguousarray(dense.T)

    return make


def nf4(double: bool = False, size: int = 64) -> Make:
    def make(rng: Any, rows: int, columns: int) -> Parts:
        codes = rng.integers(0, 16, rows * columns)
        count = -(-rows * columns // size)
        state: dict[str, Any] = {
            "quant_type": "nf4",
            "blocksize": size,
            "dtype": "float32",
            "shape": [rows, columns],
        }
        pairs = (codes[0::2] << 4 | codes[1::2]).astype(np.uint8)
        parts: dict[str, Any] = {
            "weight": torch.from_numpy(pairs).reshape(-1, 1),
            "weight.quant_map": torch.from_numpy(NF4.copy()),
        }
        if double:
            levels = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
            nested = rng.integers(0, 256, count)
            outer = rng.uniform(0.1, 0.2, -(-count // 256)).astype(np.float32)
            absmax = levels[nested] * outer[np.arange(count) // 256] + np.float32(0.25)
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.25}
            parts |= {
                "weight.absmax": torch.from_numpy(nested.astype(np.uint8)),
                "weight.nested_absmax": torch.from_numpy(outer),
                "weight.nested_quant_map": torch.from_numpy(levels),
            }
        else:
            absmax = rng.uniform(0.1, 0.5, count).astype(np.float32)
            parts["weight.absmax"] = torch.from_numpy(absmax)
        text = json.dumps(state).encode()
        parts["weight.quant_state.bitsandbytes__nf4"] = torch.tensor(list(text), dtype=torch.uint8)
        dense = NF4[codes] * np.repeat(absmax, size)[: rows * columns]
        return parts, dense.reshape(rows, columns)

    return make


def rows_of_int8(rng: Any, rows: int, columns: int) -> Parts:
    """bitsandbytes' int8."""
    codes = rng.integers(-127, 128, (rows, columns), dtype=np.int8)
    largest = rng.uniform(0.2, 0.5, rows).astype(np.float32)
    parts = {
        "weight": torch.from_numpy(codes),
        "SCB": torch.from_numpy(largest),
        "weight_format": torch.tensor(0, dtype=torch.uint8),
    }
    return parts, codes * (largest / np.float32(127))[:, None]


def packed_ints(size: int, bits: int = 4, zeros: bool = False, act: bool = False) -> Make:
    """pack-quantized of compressed-tensors."""

    def make(rng: Any, rows: int, columns: int) -> Parts:
        index = group_of(columns, size)
        if act:
            index = index[rng.permutation(columns)]
        groups = int(index.max()) + 1
        half = 2 ** (bits - 1)
        codes = rng.integers(-half, half, (rows, columns))
        zero = rng.integers(-8, 8, (rows, groups)) if zeros else np.zeros((rows, groups), int)
        scales = scales_of(rng, rows, groups, size=0.03 if bits == 4 else 0.002).bfloat16()
        dense = scales.float().numpy()[:, index] * (codes - zero[:, index]).astype(np.float32)
        parts = {
            "weight_packed": words(codes + half, 1, bits),
            "weight_scale": scales,
            "weight_shape": torch.tensor([rows, columns]),
        }
        if zeros:
            parts["weight_zero_point"] = words(zero + half, 0, bits)
        if act:
            parts["weight_g_idx"] = torch.from_numpy(index.astype(np.int32))
        return parts, dense

    return make


def plain_ints(rng: Any, rows: int, columns: int) -> Parts:
    """int-quantized of compressed-tensors."""
    codes = rng.integers(-128, 128, (rows, columns), dtype=np.int8)
    scales = scales_of(rng, rows, 1, size=0.002)
    return {"weight": torch.from_numpy(codes), "weight_scale": scales}, codes * scales.numpy()


def nvfp4(inverse: bool) -> Make:
    def make(rng: Any, rows: int, columns: int) -> Parts:
        codes = rng.integers(0, 16, (rows, columns))
        pairs = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
        scales = torch.from_numpy(rng.uniform(0.5, 400, (rows, columns // 16)).astype(np.float32))
        scales = scales.to(torch.float8_e4m3fn)
        factor = torch.tensor([3000.0 if inverse else 0.0003])
        wide = scales.float() / factor if inverse else scales.float() * factor
        dense = E2M1[codes] * wide.repeat_interleave(16, 1).numpy()
        parts = {
            "weight_packed" if inverse else "weight": torch.from_numpy(pairs),
            "weight_scale": scales,
            "weight_global_scale" if inverse else "weight_scale_2": factor,
            "input_global_scale" if inverse else "input_scale": torch.tensor([1.0]),
        }
        return parts, dense

    return make


def mxfp4(rng: Any, rows: int, columns: int) -> Parts:
    codes = rng.integers(0, 16, (rows, columns))
    pairs = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
    exponents = rng.integers(120, 125, (rows, columns // 32), dtype=np.uint8)
    dense = E2M1[codes] * np.repeat(np.float32(2.0) ** (exponents.astype(np.float32) - 127), 32, 1)
    parts = {
        "weight_blocks": torch.from_numpy(pairs.reshape(rows, columns // 32, 16)),
        "weight_scales": torch.from_numpy(exponents),
    }
    return parts, dense


@dataclass(frozen=True)
class Form:
    """A published form: its `quantization_config`, its linears, its scheme here."""

    make: Make
    config: dict[str, Any]
    schemes: tuple[str, ...]
    key: str = "quantization_config"
    exact: bool = True  # the values are those of the reference to the bit


def compressed(format: str, **weights: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"symmetric": True, **weights}}
    return {
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
GPTQ = {"quant_method": "gptq", "bits": 4, "sym": False, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "zero_point": True, "version": "gemm"}
NF4_CONFIG = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "load_in_8bit": False,
    "bnb_4bit_quant_type": "nf4",
}
INT4 = {"num_bits": 4, "type": "int"}
INT8 = {"num_bits": 8, "type": "int"}
FLOAT8 = {"num_bits": 8, "type": "float"}
BOTH = ("INT4_G32", "INT4_G128")

FORMS: dict[str, Form] = {
    "fp8_tensor": Form(float8(), FP8, ("FP8_E4M3",)),
    "fp8_block": Form(float8("block"), {**FP8, "weight_block_size": [128, 128]}, ("FP8_E4M3",)),
    "fp8_e5m2": Form(float8(dtype=torch.float8_e5m2), FP8, ("FP8_E5M2",)),
    "fbgemm_fp8": Form(
        float8("channel", name="weight_scale"), {"quant_method": "fbgemm_fp8"}, ("FP8_E4M3",)
    ),
    "modelopt_fp8": Form(
        float8(name="weight_scale"),
        {"quant_method": "modelopt", "quant_algo": "FP8"},
        ("FP8_E4M3",),
    ),
    "gptq_128": Form(gptq(128), {**GPTQ, "group_size": 128}, BOTH),
    "gptq_64": Form(gptq(64), {**GPTQ, "group_size": 64}, ("INT4_G32",)),
    "gptq_row": Form(gptq(-1), {**GPTQ, "group_size": -1}, BOTH),
    "gptq_act": Form(
        gptq(32, act=True), {**GPTQ, "group_size": 32, "desc_act": True}, ("INT4_G32",)
    ),
    "gptq_v2": Form(
        gptq(32, version=2),
        {**GPTQ, "group_size": 32, "checkpoint_format": "gptq_v2"},
        ("INT4_G32",),
    ),
    "gptq_8": Form(
        gptq(64, bits=8, act=True), {**GPTQ, "bits": 8, "group_size": 64}, ("INT8_G32",)
    ),
    "awq_128": Form(awq(128), {**AWQ, "group_size": 128}, BOTH),
    "awq_32": Form(awq(32), {**AWQ, "group_size": 32}, ("INT4_G32",)),
    "nf4": Form(nf4(), NF4_CONFIG, ("NF4",)),
    "nf4_double": Form(
        nf4(double=True), {**NF4_CONFIG, "bnb_4bit_use_double_quant": True}, ("NF4",)
    ),
    "nf4_128": Form(nf4(size=128), NF4_CONFIG, ("NF4",)),
    "bnb_int8": Form(
        rows_of_int8, {"quant_method": "bitsandbytes", "load_in_8bit": True}, ("INT8_G32",)
    ),
    "ct_int4": Form(
        packed_ints(64),
        compressed("pack-quantized", strategy="group", group_size=64, **INT4),
        ("INT4_G32",),
        key="compression_config",
    ),
    "ct_int4_zeros": Form(
        packed_ints(32, zeros=True),
        compressed("pack-quantized", strategy="group", group_size=32, symmetric=False, **INT4),
        ("INT4_G32",),
    ),
    "ct_int4_act": Form(
        packed_ints(32, act=True),
        compressed("pack-quantized", strategy="group", group_size=32, actorder="group", **INT4),
        ("INT4_G32",),
    ),
    "ct_int8_packed": Form(
        packed_ints(-1, bits=8),
        compressed("pack-quantized", strategy="channel", **INT8),
        ("INT8_G32",),
    ),
    "ct_int8": Form(
        plain_ints, compressed("int-quantized", strategy="channel", **INT8), ("INT8_G32",)
    ),
    "ct_float": Form(
        float8("channel", name="weight_scale"),
        compressed("float-quantized", strategy="channel", **FLOAT8),
        ("FP8_E4M3",),
    ),
    "ct_float_block": Form(
        float8("block", name="weight_scale"),
        compressed("float-quantized", strategy="block", block_structure=[128, 128], **FLOAT8),
        ("FP8_E4M3",),
    ),
    "ct_naive": Form(
        float8(name="weight_scale"),
        compressed("naive-quantized", strategy="tensor", **FLOAT8),
        ("FP8_E4M3",),
    ),
    "ct_nvfp4": Form(
        nvfp4(inverse=True),
        compressed(
            "nvfp4-pack-quantized",
            strategy="tensor_group",
            group_size=16,
            num_bits=4,
            type="float",
        ),
        ("NVFP4_E4M3",),
        # scale / global_scale and scale * (1 / global_scale) differ in the last bit
        exact=False,
    ),
    "modelopt_nvfp4": Form(
        nvfp4(inverse=False),
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
        ("NVFP4_E4M3",),
    ),
    "mxfp4": Form(mxfp4, {"quant_method": "mxfp4"}, ("MXFP4_E8M0",)),
}


@dataclass
class Written:
    """A quantized checkpoint: its folder, tensors and config as written, and the dense twin in
    transformers."""

    folder: Path
    tensors: dict[str, torch.Tensor]
    config: dict[str, Any]
    dense: dict[str, Any]
    twin: Tiny

    def save(self) -> Path:
        from safetensors.torch import save_file

        save_file(
            {name: value.contiguous() for name, value in self.tensors.items()},
            self.folder / "model.safetensors",
        )
        (self.folder / "config.json").write_text(json.dumps(self.config))
        return self.folder


def write(folder: Path, form: Form, seed: int = 0, family: str = "llama") -> Written:
    """A checkpoint whose linears but the head are quantized."""
    import transformers

    name = {"llama": "Llama", "qwen": "Qwen2"}[family]
    config = getattr(transformers, f"{name}Config")(**CONFIG)
    twin = tiny.make(folder, getattr(transformers, f"{name}ForCausalLM"), config)
    rng = np.random.default_rng(seed)
    tensors: dict[str, torch.Tensor] = {}
    dense: dict[str, Any] = {}
    state = {name: value.detach().clone() for name, value in twin.model.state_dict().items()}
    for key, value in state.items():
        stem = key.removesuffix(".weight")
        if not stem.endswith("_proj"):
            tensors[key] = value
            continue
        parts, values = form.make(rng, *value.shape)
        values = np.ascontiguousarray(values.astype(np.float32))
        dense[key] = values
        state[key] = torch.from_numpy(values)
        tensors |= {f"{stem}.{suffix}": part for suffix, part in parts.items()}
    twin.model.load_state_dict(state)
    raw = json.loads((folder / "config.json").read_text())
    written = Written(folder, tensors, {**raw, form.key: form.config}, dense, twin)
    written.save()
    return written
