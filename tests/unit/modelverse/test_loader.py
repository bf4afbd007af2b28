"""Loading: names, shapes, dtypes, and everything that a checkpoint can get wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import ClikaRTError, InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.modelverse.family import Family
from clika_runtime.modelverse.loader import Checkpoint, LoadOptions, load_model
from tests.unit.modelverse import models


def test_dense_weights_are_those_of_the_file(tmp_path: Path) -> None:
    models.write_model(tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.family.name == "llama"
    assert loaded.dtype is crt.float32
    values = models.tensors(loaded.checkpoint.config)
    for name, tensor in loaded.model.state_dict().items():
        assert (tensor.numpy() == values[name]).all(), name
    table, head = loaded.model.model.embed_tokens.weight, loaded.model.lm_head.weight
    for weight in (table, head):
        with pytest.raises(ValueError, match="read-only"):
            weight.numpy()[0, 0] = 1.0
    # What is only gathered from is a view of the file, what is multiplied with lies as the backend
    # reads it.
    assert (table.layout, head.layout != 0) == (0, True)


def test_compute_in_a_shorter_dtype_converts_the_weights(tmp_path: Path) -> None:
    models.write_model(tmp_path)
    loaded = load_model(tmp_path, LoadOptions(dtype="bfloat16"))
    assert loaded.dtype is crt.bfloat16
    assert all(tensor.dtype is crt.bfloat16 for tensor in loaded.model.state_dict().values())


@pytest.mark.parametrize("dtype", ["int8", "float64", "float8_e4m3"])
def test_a_dtype_that_nothing_computes_in_is_refused(dtype: str, tmp_path: Path) -> None:
    models.write_model(tmp_path)
    with pytest.raises(UnsupportedError, match=f"dtype {dtype} is not served"):
        load_model(tmp_path, LoadOptions(dtype=dtype))


def test_options_are_checked() -> None:
    for bad in ({"mode": "quick"}, {"max_seq": -1}, {"max_sequences": 0}, {"prefill_chunk": True}):
        with pytest.raises(InvalidArgumentError, match=next(iter(bad))):
            LoadOptions(**bad)  # type: ignore[arg-type]


def test_a_tied_checkpoint_may_repeat_the_table(tmp_path: Path) -> None:
    config = models.write_model(tmp_path, tie_word_embeddings=True)
    values = models.tensors(config)
    values["lm_head.weight"] = values["model.embed_tokens.weight"]
    models.write_weights(tmp_path, values)
    model = load_model(tmp_path).model
    assert "lm_head.weight" not in model.state_dict()


def test_old_rotary_tables_are_passed_over(tmp_path: Path) -> None:
    values = models.tensors(models.write_model(tmp_path))
    values["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    models.write_weights(tmp_path, values)
    load_model(tmp_path)


def test_missing_and_unexpected_tensors_are_both_named(tmp_path: Path) -> None:
    values = models.tensors(models.write_model(tmp_path))
    values["model.layers.7.extra.weight"] = values.pop("model.layers.1.mlp.up_proj.weight")
    models.write_weights(tmp_path, values)
    with pytest.raises(InvalidArgumentError) as caught:
        load_model(tmp_path)
    assert caught.value.code_name == "MALFORMED_FILE"
    for part in (
        str(tmp_path),
        "config.json",
        "missing: 'model.layers.1.mlp.up_proj.weight'",
        "unexpected: 'model.layers.7.extra.weight'",
    ):
        assert part in str(caught.value)


def test_a_shape_that_contradicts_the_config_names_both(tmp_path: Path) -> None:
    values = models.tensors(models.write_model(tmp_path))
    values["model.norm.weight"] = np.ones(7, np.float32)
    models.write_weights(tmp_path, values)
    with pytest.raises(
        InvalidArgumentError, match=r"'model\.norm\.weight' has shape \[7\].*config\.json.*\[32\]"
    ):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 0}, ("hidden_size", "0")),
        ({"hidden_size": 1 << 40}, ("hidden_size",)),
        ({"hidden_size": "32"}, ("hidden_size", "'32'")),
        ({"hidden_size": 33}, ("hidden_size", "33", "num_attention_heads", "4")),
        ({"hidden_size": None}, ("hidden_size", "missing")),
        ({"num_attention_heads": 0}, ("num_attention_heads", "0")),
        ({"num_key_value_heads": 3}, ("num_key_value_heads", "3", "4")),
        ({"num_hidden_layers": 10**9}, ("num_hidden_layers",)),
        ({"num_hidden_layers": 3}, ("missing", "model.layers.2.")),
        ({"vocab_size": 10}, ("model.embed_tokens.weight", "10")),
        ({"head_dim": 7}, ("heads of 7", "even")),
        ({"rms_norm_eps": -1.0}, ("rms_norm_eps", "-1")),
        ({"max_position_embeddings": 0}, ("max_position_embeddings", "0")),
        ({"tie_word_embeddings": "yes"}, ("tie_word_embeddings", "'yes'")),
        ({"eos_token_id": 10**6}, ("eos_token_id", "1000000")),
    ],
)
def test_absurd_configs_are_refused_with_field_and_values(
    change: dict[str, Any], words: tuple[str, ...], tmp_path: Path
) -> None:
    config = models.write_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(ClikaRTError) as caught:
        load_model(tmp_path)
    for word in ("config.json", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_act": "gelu"}, ("hidden_act", "'gelu'", "silu")),
        ({"rope_scaling": {"rope_type": "su", "factor": 4.0}}, ("rope_type", "'su'", "longrope")),
        ({"partial_rotary_factor": 0.5}, ("partial_rotary_factor", "0.5")),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    change: dict[str, Any], words: tuple[str, ...], tmp_path: Path
) -> None:
    models.write_model(tmp_path, **change)
    with pytest.raises(UnsupportedError) as caught:
        load_model(tmp_path)
    for word in ("config.json", *words):
        assert word in str(caught.value)


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    models.write_model(tmp_path, architectures=["OtterForCausalLM"], model_type="otter")
    with pytest.raises(UnsupportedError, match="OtterForCausalLM") as caught:
        load_model(tmp_path)
    assert caught.value.code_name == "FAMILY_UNKNOWN"


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        load_model(tmp_path / "nowhere")
    models.write_model(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(NotFoundError, match=r"config\.json"):
        load_model(tmp_path)
    models.write_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(NotFoundError, match=r"no \.safetensors"):
        load_model(tmp_path)
    models.write_model(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InvalidArgumentError, match="expected an object"):
        load_model(tmp_path)


def test_integer_weights_are_refused(tmp_path: Path) -> None:
    from clika_runtime.io import write_safetensors

    values = models.tensors(models.write_model(tmp_path))
    write_safetensors(
        tmp_path / "model.safetensors",
        {
            name: ("int32", tuple(a.shape), a.astype(np.int32))
            if name == "model.norm.weight"
            else ("float32", tuple(a.shape), a)
            for name, a in values.items()
        },
    )
    with pytest.raises(UnsupportedError, match="int32"):
        load_model(tmp_path)


# ---- names
def test_gguf_names_become_the_trees() -> None:
    family = Family(
        "f",
        dict,  # type: ignore[arg-type]
        dict,  # type: ignore[arg-type]
        gguf_names={"blk.{}.attn_q": "model.layers.{}.self_attn.q_proj", "output": "lm_head"},
        renames={"transformer.": "model."},
        ignored=(r".*\.inv_freq",),
    )
    assert (
        family.tree_name("blk.12.attn_q.weight", "gguf")
        == "model.layers.12.self_attn.q_proj.weight"
    )
    assert family.tree_name("blk.0.attn_q.bias", "gguf") == "model.layers.0.self_attn.q_proj.bias"
    assert family.tree_name("output.weight", "gguf") == "lm_head.weight"
    assert family.tree_name("blk.0.other.weight", "gguf") == "blk.0.other.weight"
    assert family.tree_name("weight", "gguf") == "weight"
    assert family.tree_name("transformer.x.weight", "safetensors") == "model.x.weight"
    assert family.is_ignored("a.inv_freq") and not family.is_ignored("a.inv_freqs")


def test_the_dtype_of_a_checkpoint_is_that_of_most_matrix_elements(tmp_path: Path) -> None:
    models.write_model(tmp_path)
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.weight_dtype() is crt.float32
    assert (checkpoint.architecture, checkpoint.model_type) == ("LlamaForCausalLM", "llama")
    assert not checkpoint.packed


@pytest.mark.parametrize("device", ["cuda", "cpu:1", "meta"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_read(device: str) -> None:
    with pytest.raises(ClikaRTError) as caught:
        load_model("nowhere", LoadOptions(device=device))
    assert not isinstance(caught.value, NotFoundError)
    assert device.split(":")[0] in str(caught.value)
