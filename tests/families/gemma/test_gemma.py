"""Gemma 1, 2 and 3 against transformers: the same tiny random weights, from safetensors and from
GGUF files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.config import Fields
from clika_runtime.modelverse.loader import load_model
from clika_runtime.modelverse.modules import Attention, Rotary
from clika_runtime.nn import RMSNorm
from clika_runtime.testing.families import (
    check_against_reference,
    check_batch,
    check_cache_edits,
    check_same_bits,
    check_traced_steps,
    relative_error,
)
from tests.families.conftest import MakeEngine, engine_over
from tests.families.gemma import tiny

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


@pytest.mark.parametrize("variant", ["gemma", "gemma2", "gemma3"])
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


@pytest.mark.parametrize("variant", ["gemma", "gemma2", "gemma3"])
def test_quantized_gguf_equals_the_dequantized_model(
    variant: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of(variant)
    path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf", lambda name: "Q8_0")
    reference = tiny.dequantized(checkpoint, path).reference
    exact = make_engine(path, mode="exact", dtype="float32")
    assert exact.model.model.embed_tokens.weight.scheme
    check_against_reference(exact, reference, tiny.ids(LENGTH), TOLERANCE)


@pytest.mark.parametrize("variant", ["gemma2", "gemma3"])
def test_chunks_batches_and_edits_leave_no_trace(
    variant: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    engine = make_engine(tiny_of(variant).folder)
    check_same_bits(engine, tiny.ids(LENGTH))
    check_traced_steps(engine, tiny.ids(LENGTH))
    check_cache_edits(engine, tiny.ids(54))


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "q8_0", "fp8"])
def test_a_short_cache_with_windows_and_caps(
    kv_dtype: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    checkpoint = tiny_of("gemma2_wide")
    engine = make_engine(checkpoint.folder, cache={"dtype": kv_dtype})
    check_same_bits(engine, tiny.ids(LENGTH))
    check_cache_edits(engine, tiny.ids(54))
    error = relative_error(engine.logits(tiny.ids(54)), checkpoint.reference(tiny.ids(54)))
    assert error < (1.0 if kv_dtype == "fp8" else 0.1)


def test_the_token_table_is_scaled_as_in_transformers(tiny_of: TinyOf) -> None:
    import torch

    import clika_runtime as crt

    # sqrt(66) is no number of bfloat16: the rounded factor differs by three steps of the result.
    ids = tiny.ids(40)
    for dtype in ("float32", "bfloat16"):
        checkpoint = tiny_of("gemma", dtype)
        model = load_model(checkpoint.folder).model.model
        rows = model.embed(crt.tensor(ids, dtype=crt.int32)).to(crt.float32).numpy()
        expected = checkpoint.model.model.embed_tokens(torch.tensor(ids)).detach().float().numpy()
        assert (rows == expected).all()


@pytest.mark.parametrize(("hidden", "scale"), [(2048, 45.25), (3072, 55.5)])
def test_the_scale_is_rounded_to_the_dtype_of_the_rows(hidden: int, scale: float) -> None:
    import clika_runtime as crt
    from clika_family_gemma.gemma import GemmaForCausalLM

    config = read(hidden_size=hidden)
    assert GemmaForCausalLM(config, crt.bfloat16).model.embed_scale == scale
    exact = GemmaForCausalLM(config).model.embed_scale
    assert exact == pytest.approx(math.sqrt(hidden), rel=1e-7) and exact != scale


# ---- sensitivity: what the tests above would notice
def attentions(model: Any) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, Attention)]


def without_embedding_scale(model: Any) -> None:
    model.model.embed_scale = 1.0


def without_norm_offset(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.offset = 0.0


def without_a_head_norm_offset(model: Any) -> None:
    attentions(model)[1].k_norm.offset = 0.0


def without_head_norms(model: Any) -> None:
    for attention in attentions(model):
        attention.q_norm = attention.k_norm = None


def silu_for_gelu(model: Any) -> None:
    for layer in model.model.layers:
        layer.mlp.activation = "swiglu"


def without_scores_cap(model: Any) -> None:
    for attention in attentions(model):
        attention.softcap = 0.0


def without_logits_cap(model: Any) -> None:
    model.softcap = 0.0


def scale_by_the_head_size(model: Any) -> None:
    for attention in attentions(model):
        attention.scale = attention.head_dim**-0.5


def without_windows(model: Any) -> None:
    for attention in attentions(model):
        attention.window = 0


def windows_one_longer(model: Any) -> None:
    for attention in attentions(model):
        attention.window += bool(attention.window)


def windows_everywhere(model: Any) -> None:
    for attention in attentions(model):
        attention.window = tiny.WINDOW


def one_base_for_all(model: Any) -> None:
    for attention in attentions(model):
        attention.rotary = model.model.rotary


def without_scaling(model: Any) -> None:
    for attention in attentions(model):
        if not attention.window:
            attention.rotary = Rotary(attention.head_dim, 1e6)


def without_the_norm_behind_the_mlp(model: Any) -> None:
    model.model.layers[1].post_feedforward_layernorm = lambda x: x


def without_the_norm_behind_attention(model: Any) -> None:
    model.model.layers[1].post_attention_layernorm = lambda x: x


def other_pairing(model: Any) -> None:
    model.model.rotary.interleaved = True


@pytest.mark.parametrize(
    ("variant", "change"),
    [
        ("gemma", without_embedding_scale),
        ("gemma", without_norm_offset),
        ("gemma", silu_for_gelu),
        ("gemma", other_pairing),
        ("gemma2", without_embedding_scale),
        ("gemma2", without_norm_offset),
        ("gemma2", without_scores_cap),
        ("gemma2", without_logits_cap),
        ("gemma2_wide", without_scores_cap),
        ("gemma2", without_windows),
        ("gemma2", windows_one_longer),
        ("gemma2", windows_everywhere),
        ("gemma2", without_the_norm_behind_the_mlp),
        ("gemma2", without_the_norm_behind_attention),
        ("gemma3", without_head_norms),
        ("gemma3", without_a_head_norm_offset),
        ("gemma3", without_windows),
        ("gemma3", windows_one_longer),
        ("gemma3", windows_everywhere),
        ("gemma3", one_base_for_all),
        ("gemma3_linear", without_scaling),
        ("gemma3_yarn", without_scaling),
        ("gemma3_capped", without_logits_cap),
        ("gemma3_scalar", scale_by_the_head_size),
        ("gemma3_layer_types", one_base_for_all),
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
def read(where: str = "config.json", **changes: Any) -> Any:
    """The configuration of a small `config.json`, Gemma 1 unless `model_type` says otherwise."""
    from clika_family_gemma.gemma import GemmaConfig

    raw = {
        "model_type": "gemma",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "vocab_size": 192,
        **changes,
    }
    return GemmaConfig.from_hf(Fields(raw, where))


def test_values_that_a_checkpoint_leaves_out() -> None:
    first, second, third = read(), read(model_type="gemma2"), read(model_type="gemma3_text")
    for config in (first, second, third):
        assert (config.head_dim, config.query_pre_attn_scalar) == (256, 256)
        assert config.tie_word_embeddings and config.norm_offset == 1.0
    assert (first.sandwich, second.sandwich, third.sandwich) == (False, True, True)
    assert (first.head_norms, second.head_norms, third.head_norms) == (False, False, True)
    assert (second.attn_softcap, second.final_softcap) == (50.0, 30.0)
    assert (third.attn_softcap, third.final_softcap) == (0.0, 0.0)
    assert first.windows == (0,) * 7
    assert second.windows == (4096, 0, 4096, 0, 4096, 0, 4096)
    assert third.windows == (4096, 4096, 4096, 4096, 4096, 0, 4096)
    assert (second.rope_theta, second.local_theta) == (1e4, 1e4)
    assert (third.rope_theta, third.local_theta) == (1e6, 1e4)
    positions = [config.max_position_embeddings for config in (first, second, third)]
    assert positions == [8192, 8192, 131072]


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "gelu"},
        {"hidden_act": "gelu", "hidden_activation": None},
        {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"},
        {"model_type": "gemma2", "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"},
    ],
)
def test_every_spelling_of_the_activation_is_read(changes: dict[str, Any]) -> None:
    assert read(**changes)


def test_the_settings_of_gemma3_in_both_forms() -> None:
    old = read(
        model_type="gemma3_text",
        rope_theta=2e6,
        rope_local_base_freq=2e4,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
        sliding_window=8,
        sliding_window_pattern=3,
    )
    new = read(
        model_type="gemma3_text",
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
        },
        sliding_window=8,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2
        + ["sliding_attention"],
    )
    assert old == new
    assert old.rope_scaling.kind == "linear" and old.local_scaling.kind == "default"
    assert old.windows == (8, 8, 0, 8, 8, 0, 8)


def test_gemma2_turns_every_layer_alike() -> None:
    config = read(model_type="gemma2", rope_scaling={"type": "linear", "factor": 2.0})
    assert config.local_scaling == config.rope_scaling
    assert config.rope_scaling.kind == "linear"


def test_a_text_model_keeps_its_settings_one_level_down() -> None:
    text = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "vocab_size": 192,
        "sliding_window": 8,
    }
    raw = {"model_type": "gemma3", "architectures": ["Gemma3ForCausalLM"], "text_config": text}
    assert read(**raw).windows[0] == 8
    with pytest.raises(InvalidArgumentError, match=r"'text_config': 'hidden_size' is missing"):
        read(**{**raw, "text_config": {}})


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]},
        {"model_type": "gemma3"},
    ],
)
def test_a_multimodal_checkpoint_is_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="'gemma3', text and images"):
        read(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_act": "relu"}, ("hidden_act", "'relu'")),
        ({"model_type": "gemma2", "hidden_activation": "gelu"}, ("hidden_activation", "'gelu'")),
        ({"use_bidirectional_attention": True}, ("use_bidirectional_attention",)),
        (
            {"model_type": "gemma3_text", "attn_logit_softcapping": 50.0},
            ("attn_logit_softcapping", "50"),
        ),
        ({"model_type": "gemma2", "layer_types": ["chunked"] * 7}, ("layer_types", "chunked")),
        ({"model_type": "gemma4"}, ("model_type", "gemma4")),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read(**changes)
    for word in ("config.json", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gemma2", "sliding_window": -1}, ("sliding_window", "-1")),
        ({"model_type": "gemma2", "query_pre_attn_scalar": 0}, ("query_pre_attn_scalar", "0")),
        ({"model_type": "gemma2", "attn_logit_softcapping": -5}, ("attn_logit_softcapping", "-5")),
        (
            {"model_type": "gemma2", "final_logit_softcapping": float("nan")},
            ("final_logit_softcapping", "nan"),
        ),
        ({"model_type": "gemma2", "layer_types": [3]}, ("layer_types", "7 names")),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 0}, ("sliding_window_pattern",)),
        ({"model_type": "gemma3_text", "rope_local_base_freq": 0}, ("rope_local_base_freq",)),
        (
            {"model_type": "gemma3_text", "rope_parameters": {"rope_type": "default"}},
            ("full_attention", "missing"),
        ),
        ({"model_type": "gemma3_text", "text_config": [1]}, ("text_config", "object")),
        ({"head_dim": 1 << 20}, ("head_dim", "4096")),
        ({"num_key_value_heads": 3}, ("num_key_value_heads", "3")),
    ],
)
def test_hostile_configs_are_refused_with_field_and_values(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read(**changes)
    assert caught.value.code_name == "MALFORMED_FILE"
    for word in ("config.json", *words):
        assert word in str(caught.value)


# ---- GGUF metadata
def read_gguf(architecture: str, shapes: dict[str, tuple[int, ...]] | None = None, **keys: Any):
    from clika_family_gemma.gemma import GemmaConfig

    raw = {
        "embedding_length": 64,
        "feed_forward_length": 96,
        "block_count": 7,
        "attention.head_count": 4,
        "attention.key_length": 16,
        "context_length": 256,
        "vocab_size": 192,
        **{name.replace("__", "."): value for name, value in keys.items()},
    }
    fields = Fields(
        {f"{architecture}.{k}": v for k, v in raw.items()}, "m.gguf", architecture + "."
    )
    return GemmaConfig.from_gguf(fields, shapes or {})


def test_what_gguf_files_leave_out() -> None:
    first, second, third = (read_gguf(name) for name in ("gemma", "gemma2", "gemma3"))
    for config in (first, second, third):
        assert (config.norm_offset, config.query_pre_attn_scalar) == (0.0, 16.0)
        assert config.tie_word_embeddings
    assert second.windows == (4096, 0, 4096, 0, 4096, 0, 4096)
    assert (second.attn_softcap, second.final_softcap) == (50.0, 30.0)
    # A file without a window has no sliding layers.
    assert third.windows == (0,) * 7 and third.final_softcap == 0.0
    assert (third.rope_theta, third.local_theta) == (1e6, 1e4)
    assert read_gguf("gemma3", attention__sliding_window=8).windows == (8, 8, 8, 8, 8, 0, 8)


def test_the_largest_models_scale_scores_by_the_hidden_size_per_head() -> None:
    sizes = {"embedding_length": 4608, "attention__head_count": 32, "attention__key_length": 128}
    assert read_gguf("gemma2", block_count=46, **sizes).query_pre_attn_scalar == 144.0
    assert read_gguf("gemma2", block_count=42, **sizes).query_pre_attn_scalar == 128.0
    assert read_gguf("gemma3", block_count=62, **sizes).query_pre_attn_scalar == 144.0


def test_patterns_of_windows() -> None:
    def windows(pattern: Any) -> Any:
        keys = {"attention__sliding_window": 8, "attention__sliding_window_pattern": pattern}
        return read_gguf("gemma3", **keys).windows

    assert windows(2) == (8, 0, 8, 0, 8, 0, 8)
    assert windows([True] * 6 + [False]) == (8,) * 6 + (0,)
    for bad in (0, "x", [True], [1] * 7, [], -1):
        with pytest.raises(InvalidArgumentError, match="sliding_window_pattern"):
            windows(bad)


def test_the_local_base_of_a_file() -> None:
    assert read_gguf("gemma3", rope__freq_base_swa=3e4).local_theta == 3e4
    assert read_gguf("gemma2", rope__freq_base=3e4).local_theta == 3e4
    tensors = {f"rope_factors_{name}.weight": (8,) for name in ("short", "long")}
    assert read_gguf("gemma2", tensors).local_scaling.kind == "longrope"
    with pytest.raises(UnsupportedError, match="freq_base_swa"):
        read_gguf("gemma2", tensors, rope__freq_base_swa=3e4)


def test_an_unfitting_gguf_is_refused(tiny_of: TinyOf, tmp_path: Path) -> None:
    checkpoint = tiny_of("gemma3_layer_types")
    path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf", expert_count=4)
    with pytest.raises(UnsupportedError, match=r"gemma3\.expert_count' is 4"):
        load_model(path)


def test_tensors_of_another_generation_are_refused(tiny_of: TinyOf, tmp_path: Path) -> None:
    checkpoint = tiny_of("gemma")
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((checkpoint.folder / name).read_bytes())
    raw = json.loads((tmp_path / "config.json").read_text())
    raw.update(architectures=["Gemma2ForCausalLM"])
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(InvalidArgumentError, match=r"missing: .*pre_feedforward_layernorm"):
        load_model(tmp_path)
