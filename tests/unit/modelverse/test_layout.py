from __future__ import annotations

import pytest

from clika_runtime.modelverse.sources.layout import other_formats, select, weight_options


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
