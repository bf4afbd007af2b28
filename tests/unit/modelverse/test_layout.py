from __future__ import annotations

import pytest

from clika_runtime.modelverse.sources.layout import (
    other_formats,
    own_checkpoint,
    sidecars,
    weight_options,
)
from clika_runtime.modelverse.sources.options import (
    default_option,
    quant_tag,
    select,
    selector_of,
)


def test_a_single_gguf_is_one_option():
    (option,) = weight_options(["pkg/model.Q4_1.gguf", "pkg/__init__.py"])
    assert (option.kind, option.name, option.root) == ("gguf", "model.Q4_1", "pkg")
    assert option.files == ("pkg/model.Q4_1.gguf",)


def test_the_parts_of_a_split_are_one_option_in_order():
    names = [f"big-{i:05d}-of-00003.gguf" for i in (3, 1, 2)]
    (option,) = weight_options(names)
    assert option.name == "big"
    assert option.weights == tuple(sorted(names))


def test_sidecars_are_no_options():
    names = ["mmproj-model.gguf", "model.imatrix.gguf", "adapter_model.safetensors", "model.gguf"]
    assert [option.name for option in weight_options(names)] == ["model"]


def test_a_safetensors_folder_brings_its_companions_and_nothing_else():
    names = [
        "m/model-00001-of-00002.safetensors",
        "m/model-00002-of-00002.safetensors",
        "m/model.safetensors.index.json",
        "m/config.json",
        "m/tokenizer.json",
        "m/README.md",
        "m/modeling_custom.py",
        "m/1_Pooling/config.json",
        "config.json",
    ]
    (option,) = weight_options(names)
    assert option.kind == "safetensors"
    assert option.root == "m"
    assert option.weights == tuple(names[:2])
    assert option.companions == (
        "m/config.json",
        "m/model.safetensors.index.json",
        "m/tokenizer.json",
    )


def test_model_safetensors_is_the_checkpoint_of_its_folder():
    names = ["model.safetensors", "model.fp32.safetensors", "config.json"]
    assert [option.weights for option in weight_options(names)] == [("model.safetensors",)]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("m-Q4_K_M", ["m-Q4_K_M"]),
        ("q8_0", ["m-Q8_0"]),
        ("*q4*", ["m-Q4_K_M", "m-Q4_K_S"]),
        ("Q4_K", ["m-Q4_K_M", "m-Q4_K_S"]),
        ("Q2", []),
        ("m-q8_0.gguf", ["m-Q8_0"]),
    ],
)
def test_selectors(selector, expected):
    options = weight_options(["m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf"])
    assert [option.name for option in select(options, selector)] == expected


def test_formats_that_no_loader_reads_are_named():
    text = other_formats(["a.onnx", "b.onnx", "c.onnx", "d.onnx", "w.pth", "x.py"])
    assert text == "ONNX (a.onnx, b.onnx, c.onnx and 1 more), torch container (w.pth)"
    assert other_formats(["x.py"]) == ""


def test_a_folder_of_one_split_names_the_option():
    names = [f"UD-Q2_K_XL/m-UD-Q2_K_XL-{i:05d}-of-00002.gguf" for i in (1, 2)]
    (option,) = weight_options(names)
    assert (option.name, option.root, option.weights) == ("UD-Q2_K_XL", "UD-Q2_K_XL", tuple(names))


def test_options_of_one_name_are_told_apart_by_their_folders():
    options = weight_options(["q4/model.gguf", "q8/model.gguf", "other.gguf"])
    assert [option.name for option in options] == ["other", "q4/model", "q8/model"]
    assert [selector_of(option, options) for option in options] == [o.name for o in options]


def test_sidecars_are_counted():
    names = ["mmproj-a.gguf", "a.imatrix.gguf", "adapter_model.safetensors", "a.gguf", "x.json"]
    assert sidecars(names) == ["a.imatrix.gguf", "adapter_model.safetensors", "mmproj-a.gguf"]


def test_a_tag_that_is_part_of_others_still_names_its_own_option():
    names = ["m-Q2_K.gguf", "m-Q2_K_L.gguf", "m-UD-Q2_K_XL.gguf"]
    options = weight_options(names)
    assert [option.name for option in select(options, "q2_k")] == ["m-Q2_K"]
    assert [selector_of(option, options) for option in options] == ["Q2_K", "Q2_K_L", "UD-Q2_K_XL"]
    assert len(select(options, "Q2_K_")) == 2


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("Qwen3-4B-Q4_K_M", "Q4_K_M"),
        ("Qwen3-Embedding-0.6B-f16", "f16"),
        ("whisper-large-v3-turbo-q4_0", "q4_0"),
        ("Qwen3.5-35B-A3B-MXFP4_MOE", "MXFP4_MOE"),
        ("m-IQ3_XXS", "IQ3_XXS"),
        ("THUDM_GLM-4-9B-0414-bf16", "bf16"),
        ("gemma-4-31B_q4_0-it", ""),
        ("Q8_0", "Q8_0"),
        ("faq4_0", ""),
    ],
)
def test_quantization_tags(name, tag):
    assert quant_tag(name) == tag


def test_the_default_option():
    options = weight_options(["m-BF16.gguf", "m-Q8_0.gguf", "m-Q4_0.gguf"])
    assert default_option(options).name == "m-Q4_0"
    options = weight_options(["m-Q4_K_M.gguf", "model.safetensors", "sub/model.safetensors"])
    assert default_option(options).kind == "safetensors"
    assert default_option(weight_options(["b.gguf", "a.gguf"])).name == "a"


def test_the_checkpoint_at_the_top_is_what_a_repository_stands_for():
    names = ["config.json", "model.safetensors", "original/model.safetensors", "m-Q4_0.gguf"]
    own = own_checkpoint(weight_options(names), names)
    assert own is not None
    assert own.weights == ("model.safetensors",)
    assert own_checkpoint(weight_options(names[1:]), names[1:]) is None


def test_the_modules_of_a_chain_are_companions():
    names = [
        "config.json",
        "model.safetensors",
        "modules.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "2_Dense/pytorch_model.bin",
        "onnx/config.json",
    ]
    (option,) = weight_options(names)
    assert option.weights == ("model.safetensors",)
    assert sorted(option.companions) == sorted([names[0], names[2], names[3], names[4], names[5]])
