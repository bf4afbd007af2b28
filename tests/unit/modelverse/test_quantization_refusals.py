"""What a quantized checkpoint can get wrong: each refusal names the file, the tensor or field, and
both values; nothing crashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clika_runtime.errors import ClikaRTError, InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.config import Fields
from clika_runtime.modelverse.loader import load_model, open_checkpoint
from clika_runtime.modelverse.quantization import config as quantization_config
from tests.unit.modelverse.quantized import FORMS, Written, write

STEM = "model.layers.0.mlp.up_proj"
Change = Callable[[Written], None]


def drop(suffix: str) -> Change:
    def change(written: Written) -> None:
        del written.tensors[f"{STEM}.{suffix}"]

    return change


def put(suffix: str, place: int, value: float) -> Change:
    """One value of a part, by its place in the flattened tensor."""

    def change(written: Written) -> None:
        tensor = written.tensors[f"{STEM}.{suffix}"]
        tensor.view(torch.uint8 if "float8" in str(tensor.dtype) else tensor.dtype).view(-1)[
            place
        ] = value

    return change


def cut(suffix: str, dim: int = 0) -> Change:
    """A part without its last entry along a dim."""

    def change(written: Written) -> None:
        name = f"{STEM}.{suffix}"
        tensor = written.tensors[name]
        written.tensors[name] = tensor.narrow(dim, 0, tensor.shape[dim] - 1)

    return change


def cast(suffix: str, dtype: torch.dtype) -> Change:
    def change(written: Written) -> None:
        name = f"{STEM}.{suffix}"
        written.tensors[name] = written.tensors[name].to(dtype)

    return change


def say(**values: Any) -> Change:
    """Other values in the configuration; those of compressed-tensors' weights go there."""

    def change(written: Written) -> None:
        key = (
            "compression_config"
            if "compression_config" in written.config
            else ("quantization_config")
        )
        section = json.loads(json.dumps(written.config[key]))
        group = section.get("config_groups", {}).get("group_0", {})
        for name, value in values.items():
            target = group["weights"] if name in group.get("weights", {}) else section
            target[name] = value
        written.config[key] = section

    return change


def state(**values: Any) -> Change:
    """Other values in the state of an NF4 weight."""

    def change(written: Written) -> None:
        name = f"{STEM}.weight.quant_state.bitsandbytes__nf4"
        found = json.loads(bytes(written.tensors[name].tolist()))
        text = json.dumps({**found, **values}).encode()
        written.tensors[name] = torch.tensor(list(text), dtype=torch.uint8)

    return change


def garbage(written: Written) -> None:
    name = f"{STEM}.weight.quant_state.bitsandbytes__nf4"
    written.tensors[name] = torch.tensor([0x7B, 0xFF], dtype=torch.uint8)


def other_state(written: Written) -> None:
    """The state of an FP4 weight, in a configuration that does not name the type."""
    name = f"{STEM}.weight.quant_state.bitsandbytes__"
    written.tensors[f"{name}fp4"] = written.tensors.pop(f"{name}nf4")
    say(bnb_4bit_quant_type=None)(written)


def add_zero_point(written: Written) -> None:
    rows = written.tensors[f"{STEM}.weight"].shape[0]
    written.tensors[f"{STEM}.weight_zero_point"] = torch.full((rows, 1), 3, dtype=torch.int8)


def uneven(written: Written) -> None:
    index = written.tensors[f"{STEM}.g_idx"]
    index[index == 3] = 0


NAN = float("nan")
BAD = InvalidArgumentError
UNSERVED = UnsupportedError
CASES: dict[str, tuple[str, Change, type[ClikaRTError], str]] = {
    "method": (
        "gptq_64",
        say(quant_method="hqq"),
        UNSERVED,
        r"'quant_method' is 'hqq'; served are",
    ),
    "method_missing": ("gptq_64", say(quant_method=None), BAD, "'quant_method' is missing"),
    "gptq_bits": ("gptq_64", say(bits=3), UNSERVED, "'bits' is 3; served are 4 and 8"),
    "gptq_bits_text": ("gptq_64", say(bits="four"), BAD, "'bits' must be a whole number"),
    "gptq_group": ("gptq_64", say(group_size=48), UNSERVED, "'group_size' is 48; served are -1"),
    "gptq_other_group": (
        "gptq_64",
        say(group_size=32),
        BAD,
        r"scales' has shape \[\d, \d+\], expected \[\d, \d+\]",
    ),
    "gptq_format": ("gptq_64", say(checkpoint_format="marlin"), UNSERVED, "is 'marlin'; served"),
    "gptq_dynamic": ("gptq_64", say(dynamic={"x": {}}), UNSERVED, "'dynamic'"),
    "gptq_scales": (
        "gptq_64",
        drop("scales"),
        BAD,
        "up_proj.scales' is missing; '.*qweight' needs",
    ),
    "gptq_zeros": ("gptq_64", drop("qzeros"), BAD, "up_proj.qzeros' is missing"),
    "gptq_nan": (
        "gptq_64",
        put("scales", 5, NAN),
        BAD,
        r"scales'\[0, 5\] is nan, expected a finite",
    ),
    "gptq_dtype": ("gptq_64", cast("qweight", torch.int64), BAD, "dtype int64, expected int32"),
    "gptq_rows": (
        "gptq_64",
        cut("qzeros", 1),
        BAD,
        r"qzeros' has shape \[2, 23\], expected \[2, 24",
    ),
    "gptq_index": (
        "gptq_act",
        put("g_idx", 7, 99),
        BAD,
        r"g_idx'\[7\] is 99, expected a group in 0 .. 3",
    ),
    "gptq_negative": ("gptq_act", put("g_idx", 7, -2), BAD, r"g_idx'\[7\] is -2, expected a group"),
    "gptq_uneven": ("gptq_act", uneven, UNSERVED, "group 0 has not 32 columns|unequal"),
    "gptq_8_zero": ("gptq_8", put("qzeros", 0, 0), UNSERVED, "the zero 1; served is 128"),
    "gptq_shape": ("gptq_64", cut("qweight", 1), BAD, "has shape"),
    "awq_bits": ("awq_32", say(bits=8), UNSERVED, "'bits' is 8; served is 4"),
    "awq_group": ("awq_32", say(group_size=0), UNSERVED, "'group_size' is 0"),
    "awq_version": ("awq_32", say(version="gemv"), UNSERVED, "'version' is 'gemv'"),
    "awq_scales": ("awq_32", drop("scales"), BAD, "scales' is missing"),
    "awq_nan": ("awq_32", put("scales", 0, NAN), BAD, r"scales'\[0, 0\] is nan"),
    "fp8_scale": ("fp8_tensor", drop("weight_scale_inv"), BAD, "weight_scale' is missing"),
    "fp8_nan": (
        "fp8_block",
        put("weight_scale_inv", 1, NAN),
        BAD,
        r"\[1, 0\] is nan|\[0, 1\] is nan",
    ),
    "fp8_inf": ("fp8_tensor", put("weight_scale_inv", 0, float("inf")), BAD, "is inf, expected a"),
    "fp8_blocks": (
        "fp8_block",
        cut("weight_scale_inv"),
        BAD,
        r"weight_scale_inv' has shape \[1, 1\], expected \[2, 1\]",
    ),
    "fp8_columns": ("fp8_block", say(weight_block_size=[128, 48]), UNSERVED, "multiples of 32"),
    "fp8_size": ("fp8_block", say(weight_block_size=[128]), BAD, "must be two sizes, found"),
    "fp8_fnuz": (
        "fp8_tensor",
        cast("weight", torch.float8_e4m3fnuz),
        UNSERVED,
        "up_proj.weight' has dtype float8_e4m3fnuz; served are float8_e4m3 and",
    ),
    "ct_fnuz": (
        "ct_float",
        cast("weight", torch.float8_e5m2fnuz),
        UNSERVED,
        "up_proj.weight' has dtype float8_e5m2fnuz; served are float8_e4m3 and",
    ),
    "modelopt_algorithm": (
        "modelopt_fp8",
        say(quant_algo="W4A8_AWQ"),
        UNSERVED,
        "'quant_algo' is 'W4A8_AWQ'; served are NVFP4, FP8",
    ),
    "modelopt_none": ("modelopt_fp8", say(quant_algo=None), BAD, "'quant_algo' is missing"),
    "fp8_channel": (
        "fbgemm_fp8",
        cut("weight_scale"),
        BAD,
        r"has shape \[191, 1\], expected \[\] or",
    ),
    "nf4_table": ("nf4", put("weight.quant_map", 3, 0.5), BAD, r"quant_map'\[3\] is 0.5, expected"),
    "nf4_absmax": ("nf4", drop("weight.absmax"), BAD, "weight.absmax' is missing"),
    "nf4_nan": ("nf4", put("weight.absmax", 9, NAN), BAD, r"absmax'\[9\] is nan"),
    "nf4_kind": ("nf4", say(bnb_4bit_quant_type="fp4"), UNSERVED, "is 'fp4'; served are nf4"),
    "fp4": ("nf4", other_state, UNSERVED, "up_proj.weight' is quantized to FP4; served is NF4"),
    "nf4_json": ("nf4", garbage, BAD, "is no JSON text"),
    "nf4_size": ("nf4", state(blocksize=48), UNSERVED, "'blocksize' is 48; served are multiples"),
    "nf4_shape": ("nf4", state(shape=[192, 64]), BAD, "has 12288 bytes, the shape .* takes 6144"),
    "nf4_shape_kind": ("nf4", state(shape="all"), BAD, r"'shape' must be \[N, K\], found all"),
    "nf4_count": ("nf4", cut("weight.absmax"), BAD, r"has shape \[383\], expected \[384\]"),
    "nf4_outer": ("nf4_double", drop("weight.nested_absmax"), BAD, "nested_absmax' is missing"),
    "nf4_offset": ("nf4_double", state(nested_offset="x"), BAD, "'nested_offset' must be a number"),
    "int8_rows": ("bnb_int8", cut("SCB"), BAD, r"SCB' has shape \[191\], expected \[192\]"),
    "int8_order": ("bnb_int8", put("weight_format", 0, 2), BAD, "weight_format' is 2, expected 0"),
    "ct_bits": ("ct_int4", say(num_bits=2), UNSERVED, "'num_bits' is 2 of int"),
    "ct_format": ("ct_int4", say(format="marlin-24"), UNSERVED, "'format' is 'marlin-24'; served"),
    "ct_group": ("ct_int4", say(group_size=24), UNSERVED, "'group_size' is 24"),
    "ct_groups": ("ct_int4", say(config_groups=None), BAD, "'config_groups' is missing"),
    "ct_scale": ("ct_int4", drop("weight_scale"), BAD, "weight_scale' is missing"),
    "ct_shape": ("ct_int4", put("weight_shape", 1, 64), BAD, r"takes \[192, 8\]"),
    "ct_negative": ("ct_int4", put("weight_shape", 1, -128), BAD, r"takes \[192, -16\]"),
    "ct_zero": ("ct_int4_zeros", drop("weight_zero_point"), BAD, "weight_zero_point' is missing"),
    "ct_index": ("ct_int4_act", put("weight_g_idx", 0, 4), BAD, r"\[0\] is 4, expected a group"),
    "ct_ints": ("ct_int8", put("weight_scale", 0, NAN), BAD, r"weight_scale'\[0, 0\] is nan"),
    "ct_sparse": ("ct_int8", say(sparsity_config={"format": "24"}), UNSERVED, "'sparsity_config'"),
    "ct_asymmetric": ("ct_int8_packed", say(symmetric=False), UNSERVED, "'symmetric' is false wi"),
    "ct_asymmetric_plain": ("ct_int8", say(symmetric=False), UNSERVED, "'symmetric' is false with"),
    "ct_zero_point": ("ct_int8", add_zero_point, UNSERVED, "has the zero point 3; served with 8"),
    "ct_targets": ("ct_float", say(config_groups={}), BAD, "no group of the configuration has it"),
    "nvfp4_nan": ("modelopt_nvfp4", put("weight_scale", 3, 127), BAD, r"\[0, 3\] is 127, expected"),
    "nvfp4_factor": ("modelopt_nvfp4", put("weight_scale_2", 0, -1.0), BAD, "a positive number"),
    "nvfp4_missing": ("modelopt_nvfp4", drop("weight_scale_2"), BAD, "weight_scale_2' is missing"),
    "nvfp4_inverse": ("ct_nvfp4", put("weight_global_scale", 0, 1e-45), BAD, "a finite inverse"),
    "mxfp4_nan": ("mxfp4", put("weight_scales", 2, 255), BAD, r"scales'\[0, 2\] is 255, expected"),
    "mxfp4_scales": ("mxfp4", drop("weight_scales"), BAD, "weight_scales' is missing"),
    "mxfp4_shape": ("mxfp4", cut("weight_blocks", 2), BAD, r"expected \[..., K / 32, 16\]"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Written]:
    """A checkpoint of a form, written once; each test changes a copy."""
    known: dict[str, Written] = {}

    def make(name: str) -> Written:
        if name not in known:
            known[name] = write(tmp_path_factory.mktemp(name), FORMS[name])
        return known[name]

    return make


@pytest.mark.parametrize("name", CASES)
def test_refused_by_name(name: str, made: Callable[[str], Written], tmp_path: Path) -> None:
    form, change, error, message = CASES[name]
    original = made(form)
    written = Written(
        tmp_path,
        {key: value.clone() for key, value in original.tensors.items()},
        dict(original.config),
        original.dense,
        original.twin,
    )
    change(written)
    written.save()
    with pytest.raises(error, match=message) as caught:
        load_model(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("value", [3, "fp8", []])
def test_a_section_that_is_no_object(value: Any, made: Callable[[str], Written], tmp_path: Path):
    original = made("fp8_tensor")
    config = {**original.config, "quantization_config": value}
    Written(tmp_path, original.tensors, config, {}, original.twin).save()
    with pytest.raises(InvalidArgumentError, match="must be an object"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("[]", InvalidArgumentError, "is a list, expected an object"),
        ("{}", InvalidArgumentError, "'quantization' is missing"),
        ('{"quantization": 4}', InvalidArgumentError, "'quantization' must be an object"),
        ('{"quantization": {}}', InvalidArgumentError, "'quant_algo' is missing"),
        ('{"quantization": {"quant_algo": "INT8_SQ"}}', UnsupportedError, "is 'INT8_SQ'; served"),
        ('{"quantization": {"quant_algo": 1}}', InvalidArgumentError, "must be a string, found 1"),
        ("{", InvalidArgumentError, "JSON"),
    ],
)
def test_model_optimizers_own_file_is_checked(
    content: str,
    error: type[ClikaRTError],
    message: str,
    made: Callable[[str], Written],
    tmp_path: Path,
) -> None:
    original = made("modelopt_nvfp4")
    config = {key: value for key, value in original.config.items() if "quant" not in key}
    Written(tmp_path, original.tensors, config, {}, original.twin).save()
    (tmp_path / "hf_quant_config.json").write_text(content)
    with pytest.raises(error, match=message) as caught:
        open_checkpoint(tmp_path)
    assert str(tmp_path / "hf_quant_config.json") in str(caught.value)


@pytest.mark.parametrize("pattern", ["(a+)+b", ".*.*.*.*x", "(", "a{2}{3}+(b)*"])
def test_regular_expressions_that_may_not_end_are_refused(pattern: str) -> None:
    fields = Fields({"ignore": [f"re:{pattern}"]}, "config.json")
    with pytest.raises(ClikaRTError, match="regular expression"):
        quantization_config.names_of(fields, "ignore")


def test_columns_that_are_no_whole_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 columns are half a block of NF4."""
    from tests.unit.modelverse import quantized

    sizes = {**quantized.CONFIG, "hidden_size": 96}
    monkeypatch.setattr(quantized, "CONFIG", sizes)
    write(tmp_path, FORMS["nf4"])
    with pytest.raises(UnsupportedError, match="has 96 columns, NF4 takes multiples of 64"):
        open_checkpoint(tmp_path)


def test_random_configurations_are_refused_or_read(
    made: Callable[[str], Written], tmp_path: Path
) -> None:
    """Any value in any field gives a typed error or a checkpoint, never another exception."""
    rng = np.random.default_rng(1)
    values = [None, True, -1, 0, 2**70, 1e308, "", "4", [], [1, 2], {}, {"format": 1}, [None]]
    for form in ("gptq_64", "awq_32", "fp8_block", "nf4", "ct_int4", "modelopt_nvfp4", "mxfp4"):
        original = made(form)
        folder = tmp_path / form
        folder.mkdir()
        Written(folder, original.tensors, original.config, {}, original.twin).save()
        for key in FORMS[form].config:
            value = values[int(rng.integers(len(values)))]
            section = {**FORMS[form].config, key: value}
            config = {**original.config, FORMS[form].key: section}
            (folder / "config.json").write_text(json.dumps(config))
            try:
                open_checkpoint(folder)
            except ClikaRTError as error:
                assert error.code_name
