"""Llama against transformers: the same tiny random weights, from safetensors and from GGUF
files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.modelverse.cache import CacheStep
from clika_runtime.modelverse.engine import Sampling, Work
from clika_runtime.modelverse.loader import load_model
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
from tests.families.llama import tiny

TOLERANCE = 1e-4  # of the largest logit, float32 on the exact path
LENGTH = 90  # past the rotary scalings' borders and past several cache blocks

TinyOf = Callable[..., tiny.Tiny]


def prompts(variant: str = "") -> list[list[int]]:
    # Transformers turns texts within longrope's window by other factors than those beyond it.
    lengths = (40, 61, 50) if variant == "longrope" else (20, 61, 9)
    return [tiny.ids(length, seed) for seed, length in enumerate(lengths, 1)]


@pytest.mark.parametrize("variant", tiny.VARIANTS)
@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_float32_equals_transformers(
    variant: str, kind: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of(variant)
    path = checkpoint.folder
    if kind == "gguf":
        path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf")
    engine = make_engine(path)
    check_against_reference(engine, checkpoint.reference, tiny.ids(LENGTH), TOLERANCE)
    check_batch(engine, checkpoint.reference, prompts(variant), TOLERANCE)


# ---- scalings that follow the length of a text: here, the longest that the cache holds
@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_longrope_within_its_window_takes_the_short_factors(
    kind: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of("longrope")
    path = checkpoint.folder
    if kind == "gguf":
        path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf")
    engine = make_engine(path, cache={"max_tokens": tiny.WINDOW})
    check_against_reference(engine, checkpoint.reference, tiny.ids(tiny.WINDOW), TOLERANCE)
    check_batch(engine, checkpoint.reference, [tiny.ids(20, 1), tiny.ids(31, 2)], TOLERANCE)
    long = make_engine(path, cache={"max_tokens": tiny.WINDOW + 1})
    ids = tiny.ids(tiny.WINDOW)
    assert relative_error(long.logits(ids), checkpoint.reference(ids)) > 50 * TOLERANCE


def test_dynamic_scaling_equals_transformers_within_and_beyond_the_window(
    tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    checkpoint = tiny_of("dynamic")
    within = make_engine(checkpoint.folder, cache={"max_tokens": tiny.WINDOW})
    check_against_reference(within, checkpoint.reference, tiny.ids(tiny.WINDOW), TOLERANCE)
    check_batch(within, checkpoint.reference, [tiny.ids(20, 1), tiny.ids(31, 2)], TOLERANCE)
    # One pass of transformers over a text stretches by the text's own length.
    for length in (tiny.WINDOW + 1, LENGTH):
        full = make_engine(checkpoint.folder, cache={"max_tokens": length})
        check_against_reference(full, checkpoint.reference, tiny.ids(length), TOLERANCE)
        check_same_bits(full, tiny.ids(length)[:-1])


def test_dynamic_scaling_of_a_shorter_text_is_that_of_the_cache(
    tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    import copy

    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    checkpoint = tiny_of("dynamic")
    engine = make_engine(checkpoint.folder, cache={"max_tokens": LENGTH})
    model = copy.deepcopy(checkpoint.model)
    rotary = model.model.rotary_emb
    rotary.inv_freq, _ = ROPE_INIT_FUNCTIONS["dynamic"](model.config, seq_len=LENGTH)
    rotary.rope_type = "default"  # which keeps these frequencies for every length
    fixed = tiny.Tiny(checkpoint.folder, model)
    check_batch(engine, fixed.reference, prompts(), TOLERANCE)
    ids = tiny.ids(20, 1)
    assert relative_error(checkpoint.reference(ids), fixed.reference(ids)) > 50 * TOLERANCE


def test_the_context_of_a_scaled_checkpoint(tiny_of: TinyOf, tmp_path: Path) -> None:
    def window(variant: str, kind: str) -> int:
        checkpoint = tiny_of(variant)
        path = checkpoint.folder
        if kind == "gguf":
            path = tiny.write_gguf(checkpoint, tmp_path / f"{variant}.gguf")
        return int(load_model(path).config.max_position_embeddings)

    assert window("dynamic", "safetensors") == 4 * tiny.WINDOW
    for kind in ("safetensors", "gguf"):
        assert window("yarn", kind) == window("longrope", kind) == 256


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [
        ("plain", "bfloat16"),
        ("tied", "bfloat16"),
        ("biases", "bfloat16"),
        ("llama3", "bfloat16"),
        ("yarn", "bfloat16"),
        ("plain", "float16"),
        ("biases", "float16"),
    ],
)
def test_short_dtypes_are_no_farther_off_than_twice_transformers(
    variant: str, dtype: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    short = tiny_of(variant, dtype)
    exact = tiny.reload(short, "float32")
    ids = tiny.ids(LENGTH)
    expected = exact.reference(ids)
    allowed = 2 * relative_error(short.reference(ids), expected)
    engine = make_engine(short.folder)
    assert engine.cache.config.dtype.name == dtype
    check_against_reference(engine, exact.reference, ids, allowed)
    check_batch(engine, exact.reference, prompts(), allowed)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_weights_under_float32_lose_nothing(
    dtype: str, tmp_path: Path, make_engine: MakeEngine
) -> None:
    checkpoint = tiny.make(tmp_path, dtype=dtype)
    exact = tiny.reload(checkpoint, "float32")
    engine = make_engine(tmp_path, dtype="float32")
    assert engine.model.model.layers[0].mlp.up_proj.weight.dtype.name == dtype
    check_against_reference(engine, exact.reference, tiny.ids(LENGTH), TOLERANCE)


def test_shards_load_like_one_file(tmp_path: Path, make_engine: MakeEngine) -> None:
    checkpoint = tiny.make(tmp_path, shards=True)
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    engine = make_engine(tmp_path)
    check_against_reference(engine, checkpoint.reference, tiny.ids(40), TOLERANCE)


@pytest.mark.parametrize("scheme", ["Q4_0", "Q4_1", "Q8_0", "F16", "BF16"])
@pytest.mark.parametrize("variant", ["tied", "biases"])
def test_quantized_gguf_equals_the_dequantized_model(
    scheme: str, variant: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of(variant)
    path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf", lambda name: scheme)
    reference = tiny.dequantized(checkpoint, path).reference
    ids = tiny.ids(LENGTH)
    exact = make_engine(path, mode="exact")  # float32, of short weights too
    check_against_reference(exact, reference, ids, TOLERANCE)
    check_batch(exact, reference, prompts(), TOLERANCE)
    if scheme.startswith("Q"):
        weight = exact.model.model.layers[0].mlp.up_proj.weight
        assert weight.scheme and exact.model.model.embed_tokens.weight.scheme
        # Activations of 8 bits: off by a few percent at these weights, and never the same numbers.
        fast = make_engine(path, mode="fast")
        error = relative_error(fast.logits(ids), reference(ids))
        assert TOLERANCE < error < 0.2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_quantized_weights_serve_every_compute_dtype(
    dtype: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    import torch

    checkpoint = tiny_of("tied")
    path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf", lambda name: "Q8_0")
    exact = tiny.dequantized(checkpoint, path)
    ids = tiny.ids(LENGTH)
    expected = exact.reference(ids)
    exact.model.to(getattr(torch, dtype))
    theirs = relative_error(exact.reference(ids), expected)
    engine = make_engine(path, mode="exact", dtype=dtype)
    assert engine.cache.config.dtype.name == dtype
    assert relative_error(engine.logits(ids), expected) <= 2 * theirs
    # The activations' 8 bits come on top.
    fast = make_engine(path, mode="fast")
    quantization = relative_error(fast.logits(ids), expected)
    short = make_engine(path, mode="fast", dtype=dtype)
    assert relative_error(short.logits(ids), expected) <= 2 * (theirs + quantization)


# A row is rounded to one part in 256 (bfloat16), 2048 (float16), 16 (fp8), or 254 of a block's
# largest number (q8_0); the tiny models' large weights make more of it than trained ones do.
SHORT_CACHES = {"bfloat16": 0.1, "float16": 0.1, "q8_0": 0.5, "fp8": 1.0}


@pytest.mark.parametrize("kv_dtype", SHORT_CACHES)
def test_a_short_cache_moves_the_logits_a_little(
    kv_dtype: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    checkpoint = tiny_of("wide_heads")
    engine = make_engine(checkpoint.folder, cache={"dtype": kv_dtype})
    ids = tiny.ids(LENGTH)
    error = relative_error(engine.logits(ids), checkpoint.reference(ids))
    assert TOLERANCE < error < SHORT_CACHES[kv_dtype]


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "q8_0", "fp8"])
def test_a_short_cache_is_a_float32_cache_of_rounded_rows(
    kv_dtype: str, tiny_of: TinyOf, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, for the new tokens of a step too: they attend to what was rounded."""
    import clika_runtime as crt
    from clika_runtime.testing._numpy import q8_0_rows, q8_0_values, round_to

    folder, ids = tiny_of("wide_heads").folder, tiny.ids(40)
    want = make_engine(folder, cache={"dtype": kv_dtype}).logits(ids)
    attend = CacheStep.attend

    def rounded(rows: Any) -> Any:
        values = rows.numpy()
        if kv_dtype == "q8_0":
            held = q8_0_values(q8_0_rows(values))
        else:
            held = round_to(values, "float8_e4m3" if kv_dtype == "fp8" else kv_dtype)
        return crt.from_numpy(np.ascontiguousarray(held, np.float32))

    def attend_rounded(
        step: CacheStep,
        layer: int,
        q: Any,
        k: Any,
        v: Any,
        *,
        rotary: Any,
        positions: Any,
        **more: Any,
    ) -> Any:
        if rotary is not None:
            q, k = (rotary(rows, positions, step.max_tokens) for rows in (q, k))
        return attend(step, layer, q, rounded(k), rounded(v), **more)

    plain = make_engine(folder)
    monkeypatch.setattr(CacheStep, "attend", attend_rounded)
    (got,) = plain.extend([plain.cache.add()], [ids], plain.eager)
    assert (got.view(np.uint32) == want.view(np.uint32)).all()


@pytest.mark.parametrize("kv_dtype", SHORT_CACHES)
def test_a_short_cache_leaves_no_trace_of_chunks_batches_and_edits(
    kv_dtype: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    engine = make_engine(tiny_of("wide_heads").folder, cache={"dtype": kv_dtype})
    check_same_bits(engine, tiny.ids(LENGTH))
    check_traced_steps(engine, tiny.ids(LENGTH))
    check_cache_edits(engine, tiny.ids(54))


def test_the_window_of_a_gguf_and_its_tokens_come_from_metadata(
    tiny_of: TinyOf, tmp_path: Path
) -> None:
    checkpoint = tiny_of("llama3")
    config = load_model(tiny.write_gguf(checkpoint, tmp_path / "m.gguf")).config
    assert config.max_position_embeddings == 256
    assert config.vocab_size == tiny.VOCAB
    assert config.rope_interleaved


# ---- the numerics policy, through the whole model
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_chunks_and_batches_leave_no_trace(
    dtype: str, tiny_of: TinyOf, make_engine: MakeEngine
) -> None:
    engine = make_engine(tiny_of("plain").folder, dtype=dtype)
    check_same_bits(engine, tiny.ids(LENGTH))
    check_traced_steps(engine, tiny.ids(LENGTH))


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("scheme", ["Q4_0", "Q4_1", "Q8_0"])
def test_chunks_and_batches_leave_no_trace_in_quantized_models(
    scheme: str, mode: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    path = tiny.write_gguf(tiny_of("tied"), tmp_path / "m.gguf", lambda name: scheme)
    check_same_bits(make_engine(path, mode=mode), tiny.ids(LENGTH))


def test_paging_leaves_no_trace(tiny_of: TinyOf, make_engine: MakeEngine) -> None:
    folder = tiny_of("plain").folder
    ids = tiny.ids(LENGTH)
    layouts = [
        {"block_size": 1},
        {"block_size": 16},
        {"block_size": 64},
        {"layout": "continuous"},
    ]
    results = [make_engine(folder, cache=layout).logits(ids) for layout in layouts]
    for result in results[1:]:
        assert (result.view(np.uint32) == results[0].view(np.uint32)).all()


def test_truncate_fork_and_snapshot(tiny_of: TinyOf, make_engine: MakeEngine) -> None:
    check_cache_edits(make_engine(tiny_of("plain").folder), tiny.ids(54))


# ---- sensitivity: what the tests above would notice
def without_rotary(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in model.modules():
        if isinstance(module, Attention):
            module.rotary = None


def other_pairing(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model.model.rotary.interleaved = True


def without_scaling(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    old = model.model.rotary
    plain = Rotary(old.head_dim, old.theta, interleaved=old.interleaved)
    for module in model.modules():
        if isinstance(module, Attention):
            module.rotary = plain


def without_attention_factor(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rotary = model.model.rotary
    rotary.scaling = replace(rotary.scaling, attention_factor=1.0)


def without_long_factors(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rotary = model.model.rotary
    rotary.scaling = replace(rotary.scaling, long_factors=rotary.scaling.short_factors)


def without_mask(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attend = CacheStep.attend

    def uncausal(self: CacheStep, *args: Any, **kwargs: Any) -> Any:
        return attend(self, *args, **{**kwargs, "causal": False})

    monkeypatch.setattr(CacheStep, "attend", uncausal)


def without_attention_scale(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in model.modules():
        if isinstance(module, Attention):
            module.scale = 1.0


def without_norm_weight(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model.model.norm.weight = None


def without_a_bias(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model.model.layers[1].self_attn.k_proj.bias = None
    model.model.layers[1].self_attn.q_proj.bias = None


def without_mlp_bias(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model.model.layers[1].mlp.down_proj.bias = None


@pytest.mark.parametrize(
    ("variant", "change"),
    [
        ("plain", without_rotary),
        ("plain", other_pairing),
        ("plain", without_mask),
        ("plain", without_attention_scale),
        ("plain", without_norm_weight),
        ("linear", without_scaling),
        ("llama3", without_scaling),
        ("yarn", without_scaling),
        ("yarn", without_attention_factor),
        ("longrope", without_scaling),
        ("longrope", without_attention_factor),
        ("longrope", without_long_factors),
        ("biases", without_a_bias),
        ("biases", without_mlp_bias),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_leaving_out_a_part_moves_the_logits(
    variant: str, change: Callable[..., None], tiny_of: TinyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tiny_of(variant)
    model = load_model(checkpoint.folder).model
    change(model, monkeypatch)
    ids = tiny.ids(LENGTH)
    assert (
        relative_error(engine_over(model).logits(ids), checkpoint.reference(ids)) > 50 * TOLERANCE
    )


def test_a_backend_in_pure_python_runs_the_model(
    tiny_of: TinyOf, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clika_runtime import plugins
    from clika_runtime.testing import reference_backend

    monkeypatch.setattr(plugins, "_registry", plugins._registry)
    reference_backend.install()
    checkpoint = tiny_of("tied")
    engine = make_engine(checkpoint.folder, device="reference", cache={"device": "reference"})
    assert str(engine.model.model.norm.weight.device).startswith("reference")
    ids = tiny.ids(24)
    check_against_reference(engine, checkpoint.reference, ids, TOLERANCE)
    sequence = engine.cache.add()
    twin = engine.step([Work(sequence, ids[:20])]) or engine.cache.fork(sequence)
    token = engine.step([Work(twin, ids[20:], Sampling())])
    assert token == [int(checkpoint.reference(ids)[-1].argmax())]
    assert len(engine.step([Work(twin, token, Sampling(), 1)])) == 1
