"""Qwen2 and Qwen3 against transformers: the same tiny random weights, from safetensors and from
GGUF files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.loader import identify, load_model, open_checkpoint
from clika_runtime.modelverse.modules import Attention, Rotary
from clika_runtime.testing.families import (
    check_against_reference,
    check_batch,
    check_cache_edits,
    check_same_bits,
    check_traced_steps,
    relative_error,
)
from tests.families.conftest import MakeEngine, engine_over
from tests.families.qwen import tiny

TOLERANCE = 1e-4  # of the largest logit, float32 on the exact path
LENGTH = 90  # past every window and every rotary scaling's border

TinyOf = Callable[..., tiny.Tiny]


def prompts() -> list[list[int]]:
    return [tiny.ids(20, 1), tiny.ids(61, 2), tiny.ids(9, 3)]


CASES = [(name, "safetensors") for name in tiny.VARIANTS] + [(n, "gguf") for n in tiny.IN_GGUF]


@pytest.mark.parametrize(("variant", "kind"), CASES)
def test_float32_equals_transformers(
    variant: str, kind: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of(variant)
    path = checkpoint.folder
    if kind == "gguf":
        path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf")
    engine = make_engine(path)
    check_against_reference(engine, checkpoint.reference, tiny.ids(LENGTH), TOLERANCE)
    check_batch(engine, checkpoint.reference, prompts(), TOLERANCE)


@pytest.mark.parametrize("variant", ["qwen2", "qwen2_sliding", "qwen3", "qwen3_tied"])
def test_bfloat16_is_no_farther_off_than_twice_transformers(
    variant: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    short = tiny_of(variant, "bfloat16")
    exact = tiny.reload(short, "float32")
    ids = tiny.ids(LENGTH)
    allowed = 2 * relative_error(short.reference(ids), exact.reference(ids))
    engine = make_engine(short.folder)
    assert engine.cache.config.dtype.name == "bfloat16"
    check_against_reference(engine, exact.reference, ids, allowed)
    check_batch(engine, exact.reference, prompts(), allowed)


@pytest.mark.parametrize("variant", ["qwen2", "qwen3"])
def test_quantized_gguf_equals_the_dequantized_model(
    variant: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of(variant)
    path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf", lambda name: "Q8_0")
    reference = tiny.dequantized(checkpoint, path).reference
    exact = make_engine(path, mode="exact", dtype="float32")
    check_against_reference(exact, reference, tiny.ids(LENGTH), TOLERANCE)


@pytest.mark.parametrize("variant", ["qwen2_sliding", "qwen3"])
def test_chunks_batches_and_edits_leave_no_trace(
    variant: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    engine = make_engine(tiny_of(variant).folder)
    check_same_bits(engine, tiny.ids(LENGTH))
    check_traced_steps(engine, tiny.ids(LENGTH))
    check_cache_edits(engine, tiny.ids(54))


# ---- sensitivity: what the tests above would notice
def attentions(model: Any) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, Attention)]


def without_biases(model: Any) -> None:
    for attention in attentions(model):
        attention.q_proj.bias = attention.k_proj.bias = None


def without_a_value_bias(model: Any) -> None:
    attentions(model)[1].v_proj.bias = None


def without_an_output_bias(model: Any) -> None:
    attentions(model)[1].o_proj.bias = None


def without_head_norms(model: Any) -> None:
    for attention in attentions(model):
        attention.q_norm = attention.k_norm = None


def without_a_key_norm_weight(model: Any) -> None:
    attentions(model)[1].k_norm.weight = None


def without_windows(model: Any) -> None:
    for attention in attentions(model):
        attention.window = 0


def windows_one_longer(model: Any) -> None:
    for attention in attentions(model):
        attention.window += bool(attention.window)


def windows_everywhere(model: Any) -> None:
    for attention in attentions(model):
        attention.window = tiny.WINDOW


def other_pairing(model: Any) -> None:
    model.model.rotary.interleaved = True


def without_scaling(model: Any) -> None:
    for attention in attentions(model):
        attention.rotary = Rotary(attention.head_dim, 10000.0)


@pytest.mark.parametrize(
    ("variant", "change"),
    [
        ("qwen2", without_biases),
        ("qwen2", without_a_value_bias),
        ("qwen2", other_pairing),
        ("qwen2_sliding", without_windows),
        ("qwen2_sliding", windows_one_longer),
        ("qwen2_sliding", windows_everywhere),
        ("qwen2_layer_types", without_windows),
        ("qwen2_yarn", without_scaling),
        ("qwen3", without_head_norms),
        ("qwen3", without_a_key_norm_weight),
        ("qwen3", other_pairing),
        ("qwen3_biases", without_biases),
        ("qwen3_biases", without_an_output_bias),
        ("qwen3_sliding", without_windows),
        ("qwen3_yarn", without_scaling),
        ("qwen3_longrope", without_scaling),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_leaving_out_a_part_moves_the_logits(
    variant: str, change: Callable[[Any], None], tiny_of: TinyOf
) -> None:
    checkpoint = tiny_of(variant)
    model = load_model(checkpoint.folder).model
    change(model)
    ids = tiny.ids(LENGTH)
    assert (
        relative_error(engine_over(model).logits(ids), checkpoint.reference(ids)) > 50 * TOLERANCE
    )


# ---- configurations
def config(**changes: Any) -> dict[str, Any]:
    """A small `config.json` of Qwen2."""
    return {
        "model_type": "qwen2",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 192,
        **changes,
    }


def read(tmp_path: Path, **changes: Any) -> Any:
    from clika_family_qwen.qwen import QwenConfig
    from clika_runtime.modelverse.config import Fields

    return QwenConfig.from_hf(Fields(config(**changes), str(tmp_path / "config.json")))


def test_values_that_a_checkpoint_leaves_out(tmp_path: Path) -> None:
    second, third = read(tmp_path), read(tmp_path, model_type="qwen3")
    assert (second.head_dim, third.head_dim) == (16, 128)
    assert (second.qkv_bias, second.output_bias, second.head_norms) == (True, False, False)
    assert (third.qkv_bias, third.output_bias, third.head_norms) == (False, False, True)
    assert second.max_position_embeddings == 32768
    assert second.windows == (0, 0)
    # Windows are stated in every file and used in few.
    assert read(tmp_path, sliding_window=8, max_window_layers=0).windows == (0, 0)


def test_the_architecture_says_more_than_the_model_type(tmp_path: Path) -> None:
    assert read(tmp_path, architectures=["Qwen3ForCausalLM"]).head_norms
    assert not read(tmp_path, architectures=["MyQwen2"]).head_norms
    with pytest.raises(UnsupportedError, match=r"config\.json: 'model_type' is 'abacus'"):
        read(tmp_path, model_type="abacus", architectures=[{}])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_sliding_window": True}, ("sliding_window", "missing")),
        ({"use_sliding_window": True, "sliding_window": 0}, ("sliding_window", "1 ..")),
        ({"use_sliding_window": True, "sliding_window": -4}, ("sliding_window", "-4")),
        ({"use_sliding_window": "yes"}, ("use_sliding_window", "'yes'")),
        ({"max_window_layers": -1}, ("max_window_layers", "-1")),
        ({"layer_types": ["full_attention"]}, ("layer_types", "2 names")),
        ({"layer_types": "full_attention"}, ("layer_types", "2 names")),
        ({"layer_types": ["sliding_attention"] * 2}, ("use_sliding_window", "off")),
        ({"num_key_value_heads": 3}, ("num_key_value_heads", "3", "4")),
        ({"num_hidden_layers": 10**9}, ("num_hidden_layers", "4096")),
        ({"head_dim": 7}, ("heads of 7", "even")),
        ({"model_type": "qwen3", "attention_bias": 1}, ("attention_bias", "1")),
        (
            {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}},
            ("1 short_factors", "8 pairs"),
        ),
    ],
)
def test_hostile_configs_are_refused_with_field_and_values(
    changes: dict[str, Any], words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read(tmp_path, **changes)
    assert caught.value.code_name == "MALFORMED_FILE"
    for word in ("config.json", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"layer_types": ["full_attention", ["x"]]}, "layer_types"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "full_attention"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    changes: dict[str, Any], word: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=word):
        read(tmp_path, **changes)


def test_mixtures_are_no_qwen_of_this_package(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config(model_type="qwen3_moe")))
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    with pytest.raises(UnsupportedError, match="qwen3_moe"):
        identify(open_checkpoint(tmp_path))


def test_a_window_in_a_gguf_is_refused(tiny_of: TinyOf, tmp_path: Path) -> None:
    checkpoint = tiny_of("qwen2_sliding")
    name = "attention.sliding_window"
    path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf", **{name: 16})
    with pytest.raises(UnsupportedError, match=r"qwen2\.attention\.sliding_window' is 16"):
        load_model(path)
    # One as long as the context changes nothing.
    assert load_model(tiny.write_gguf(checkpoint, tmp_path / "w.gguf", **{name: 256})).model


def test_tensors_that_do_not_fit_the_generation_are_refused(
    tiny_of: TinyOf, tmp_path: Path
) -> None:
    checkpoint = tiny_of("qwen2")
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((checkpoint.folder / name).read_bytes())
    raw = json.loads((tmp_path / "config.json").read_text())
    raw.update(architectures=["Qwen3ForCausalLM"], head_dim=16)
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(
        InvalidArgumentError, match=r"missing: .*q_norm.*unexpected: .*q_proj\.bias"
    ):
        load_model(tmp_path)
