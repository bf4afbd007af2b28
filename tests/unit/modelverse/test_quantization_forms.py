"""Every published form of quantized weights: values and logits against the dequantized model in
transformers."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import nn
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.io import SCHEMES_BY_NAME
from clika_runtime.modelverse.loader import LoadOptions, load_model, open_checkpoint
from clika_runtime.testing.families import relative_error
from tests.families.conftest import engine_over
from tests.families.tiny import ids
from tests.unit.modelverse.quantized import FORMS, write

# Of the largest logit, float32 on both sides: the same numbers in another order of sums.
EXACT_TOLERANCE = 1e-4
# Products round their inputs to 1/254 of a block's largest: through two layers of random weights up
# to 0.12 was seen, where a weight that is bound wrongly moves logits by half.
FAST_TOLERANCE = 0.2


@pytest.mark.parametrize("name", FORMS)
def test_logits_and_values(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    written = write(tmp_path, form)
    checkpoint = open_checkpoint(tmp_path)
    numbers = {SCHEMES_BY_NAME[scheme].number for scheme in form.schemes}
    found = set()
    for key, dense in written.dense.items():
        tensor = checkpoint.tensor(key)
        found.add(tensor.scheme)
        order = checkpoint.input_order(key)
        expected = dense if order is None else dense[:, order.numpy()]
        values = crt.dequantize(tensor).numpy()
        if form.exact:
            assert np.array_equal(values, expected), key
        else:
            np.testing.assert_allclose(values, expected, rtol=2.0**-22, atol=0)
    assert found == numbers
    tokens = ids(20)
    expected = written.twin.reference(tokens)
    for mode, tolerance in (("exact", EXACT_TOLERANCE), ("fast", FAST_TOLERANCE)):
        loaded = load_model(tmp_path, LoadOptions(mode=mode))
        schemes = {
            module.weight.scheme
            for _, module in loaded.model.named_modules()
            if isinstance(module, nn.Linear)
        }
        assert schemes == numbers | {0}  # the head is dense
        assert relative_error(engine_over(loaded.model).logits(tokens), expected) <= tolerance


def test_another_family(tmp_path: Path) -> None:
    """Qwen2 has biases beside its quantized weights."""
    written = write(tmp_path, FORMS["gptq_act"], family="qwen")
    tokens = ids(20)
    loaded = load_model(tmp_path, LoadOptions(mode="exact"))
    expected = written.twin.reference(tokens)
    assert relative_error(engine_over(loaded.model).logits(tokens), expected) <= EXACT_TOLERANCE


@pytest.mark.parametrize("shift", [1, 0])
def test_the_first_version_of_gptq_stores_zeros_less_one(shift: int, tmp_path: Path) -> None:
    """A stored 15 is the zero 0 in the first version, 15 in the second."""
    import torch

    name = "gptq_64" if shift else "gptq_v2"
    written = write(tmp_path, FORMS[name])
    stem = "model.layers.0.mlp.up_proj"
    zeros = written.tensors[f"{stem}.qzeros"]
    written.tensors[f"{stem}.qzeros"] = torch.full_like(zeros, -1)
    written.tensors[f"{stem}.qweight"].zero_()
    written.tensors[f"{stem}.scales"].fill_(1.0)
    written.save()
    values = crt.dequantize(open_checkpoint(tmp_path).tensor(f"{stem}.weight")).numpy()
    assert (values == (0 if shift else -15)).all()


def test_modules_that_the_configuration_leaves_out_stay_dense(tmp_path: Path) -> None:
    import torch

    written = write(tmp_path, FORMS["awq_32"])
    stem = "model.layers.1.self_attn.q_proj"
    for suffix in ("qweight", "qzeros", "scales"):
        del written.tensors[f"{stem}.{suffix}"]
    written.tensors[f"{stem}.weight"] = torch.from_numpy(written.dense[f"{stem}.weight"])
    written.config["quantization_config"] = {
        **FORMS["awq_32"].config,
        "modules_to_not_convert": [stem],
    }
    written.save()
    loaded = load_model(tmp_path, LoadOptions(mode="exact"))
    layers = loaded.model.model.layers
    assert layers[1].self_attn.q_proj.weight.scheme == 0
    assert layers[0].self_attn.q_proj.weight.scheme != 0
    expected = written.twin.reference(ids(20))
    assert relative_error(engine_over(loaded.model).logits(ids(20)), expected) <= EXACT_TOLERANCE


def test_the_order_of_a_checkpoint_is_kept(tmp_path: Path) -> None:
    """A quantized weight stands where its first part stood; parts do not show."""
    write(tmp_path, FORMS["gptq_64"])
    names = list(open_checkpoint(tmp_path).tensors)
    assert not [name for name in names if name.rpartition(".")[2] not in ("weight", "bias")]
    assert len(names) == len(set(names)) == 2 * 9 + 3


@pytest.mark.parametrize("name", ["modelopt_nvfp4", "modelopt_fp8"])
def test_model_optimizers_own_file(name: str, tmp_path: Path) -> None:
    """`hf_quant_config.json` says what `quantization_config` would."""
    form = FORMS[name]
    written = write(tmp_path, form)
    tokens = ids(20)
    expected = engine_over(load_model(tmp_path).model).logits(tokens)
    del written.config["quantization_config"]
    written.save()
    section = {
        "quant_algo": form.config["quant_algo"],
        "kv_cache_quant_algo": None,
        "exclude_modules": ["lm_head"],
    }
    document = {"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": section}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(document))
    found = load_model(tmp_path)
    assert found.checkpoint.packed
    assert np.array_equal(engine_over(found.model).logits(tokens), expected)


# As vLLM, compressed-tensors and Model Optimizer name them.
CACHE_SCALES = {
    "fp8_tensor": ("self_attn.k_scale", "self_attn.v_scale", "self_attn.kv_scale"),
    "ct_float": ("self_attn.k_proj.output_scale", "self_attn.q_scale", "self_attn.prob_scale"),
    "modelopt_nvfp4": ("self_attn.k_proj.k_scale", "self_attn.v_proj.v_scale"),
}


@pytest.mark.parametrize("name", CACHE_SCALES)
def test_scales_of_a_quantized_cache_are_left_out(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import torch

    written = write(tmp_path, FORMS[name])
    tokens = ids(20)
    expected = engine_over(load_model(tmp_path).model).logits(tokens)
    scales = [f"model.layers.{i}.{part}" for i in range(2) for part in CACHE_SCALES[name]]
    written.tensors |= {scale: torch.tensor(0.5) for scale in scales}
    written.save()
    with caplog.at_level(logging.WARNING):
        loaded = load_model(tmp_path)
    assert set(loaded.checkpoint.cache_scales) == set(scales)
    (record,) = caplog.records
    assert f"{len(scales)} scales of a quantized cache are left out" in record.getMessage()
    assert scales[0] in record.getMessage()
    assert np.array_equal(engine_over(loaded.model).logits(tokens), expected)


def test_a_quantized_cache_alone(tmp_path: Path) -> None:
    """Model Optimizer may have quantized the cache and no weight."""
    import torch

    written = write(tmp_path, FORMS["modelopt_fp8"])
    dense = {key: torch.from_numpy(value) for key, value in written.dense.items()}
    others = {
        key: value
        for key, value in written.tensors.items()
        if not any(key.startswith(name.removesuffix("weight")) for name in dense)
    }
    scale = {"model.layers.0.self_attn.k_proj.k_scale": torch.tensor(0.5)}
    written.tensors = {**others, **dense, **scale}
    written.config["quantization_config"] = {
        "quant_method": "modelopt",
        "kv_cache_quant_algo": "FP8",
    }
    written.save()
    loaded = load_model(tmp_path)
    assert not loaded.checkpoint.packed and loaded.checkpoint.cache_scales == tuple(scale)
    expected = written.twin.reference(ids(20))
    assert relative_error(engine_over(loaded.model).logits(ids(20)), expected) <= EXACT_TOLERANCE


def test_without_a_quantization_such_scales_are_unexpected(tmp_path: Path) -> None:
    import torch

    written = write(tmp_path, FORMS["fp8_tensor"])
    del written.config["quantization_config"]
    written.tensors["model.layers.0.self_attn.k_scale"] = torch.tensor(0.5)
    written.save()
    with pytest.raises(InvalidArgumentError, match="unexpected: "):
        load_model(tmp_path)
