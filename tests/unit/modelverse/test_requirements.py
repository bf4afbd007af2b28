"""The memory law on small checkpoints, term by term, and the refusal of a load that cannot fit."""

from __future__ import annotations

import json
import logging
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError, OutOfMemoryError
from clika_runtime.modelverse import fit, requirements
from clika_runtime.modelverse.generation import load_generative
from clika_runtime.modelverse.loader import LoadOptions, describe, open_checkpoint
from clika_runtime.modelverse.requirements import Budget, Place
from tests.cli.tiny import COUNTING, HEADS, HIDDEN, write_model

VOCABULARY = 259
HEAD_DIM = HIDDEN // HEADS
HERE = Place("here", "cpu", 1 << 40)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("law"), COUNTING, window=2048)


def budget(model: Path, place: Place = HERE, **options: Any) -> Budget:
    asked = LoadOptions(**options)
    found = describe(model, asked)
    return fit.budget_for(
        found.checkpoint, found.config, found.model, found.names, found.dtype, asked, place
    )


# ---------------------------------------------------------------- terms
def test_the_cache_is_keys_and_values_of_every_layer(model: Path) -> None:
    per_token = 2 * HEADS * HEAD_DIM * 4  # one layer, float32
    one = budget(model, max_seq=100)
    assert one.cache_per_token == per_token
    assert one.cache == 2 * 64 * per_token  # two blocks of 64
    assert budget(model, max_seq=100, max_sequences=3).cache == 3 * one.cache
    assert budget(model, max_seq=100, kvcache="continuous").cache == 100 * per_token
    short = budget(model, max_seq=100, kv_dtype="bfloat16")
    assert (short.cache, short.cache_dtype) == (one.cache // 2, "bfloat16")
    least = budget(model, max_seq=100, kv_dtype="fp8")
    assert (least.cache, least.cache_dtype) == (one.cache // 4, "fp8")
    blocks = budget(model, max_seq=100, kv_dtype="q8_0")
    assert (blocks.cache_per_token, blocks.cache_dtype) == (2 * HEADS * HEAD_DIM // 32 * 34, "q8_0")


@pytest.mark.parametrize("kv_dtype", [None, "bfloat16", "fp8", "q8_0"])
def test_the_cache_is_what_the_cache_makes(model: Path, kv_dtype: str | None) -> None:
    loaded = load_generative(model, max_seq=200, kv_dtype=kv_dtype)
    pools = sum(k.nbytes + v.nbytes for k, v in loaded.engine.cache.pools)
    assert budget(model, max_seq=200, kv_dtype=kv_dtype).cache == pools


def test_the_activations_are_the_arenas_of_the_plans(model: Path) -> None:
    """The arena of a chunk is that of the engine's own plan, to the byte."""
    loaded = load_generative(model, max_seq=2048)
    arena = loaded.engine.plan("fill", 512, 1).stats()["arena_bytes"]
    decode = 2 * 4 * (HIDDEN + 4 * HIDDEN + VOCABULARY)
    assert budget(model, max_seq=512).activations - decode >= arena
    # Here attention is the widest place: queries, keys, values and the output, beside the residual.
    assert budget(model, max_seq=512).activations - decode == 512 * 4 * 5 * HIDDEN
    assert budget(model, max_seq=2048).activations - decode == 2 * 512 * 4 * 5 * HIDDEN


def test_dense_weights_are_those_of_the_file(model: Path) -> None:
    header = 4 * VOCABULARY * HIDDEN  # the table, read row by row as tokens come
    found = describe(model, LoadOptions())
    total = sum(info.nbytes for info in found.checkpoint.tensors.values())
    # Matrices fill huge pages; the head has its own, norms lie beside them.
    vectors = 4 * HIDDEN * 3
    matrices = total - header - vectors
    own = requirements._pages(header) if header >= requirements.REGION_SHARE else 0
    pages = own + requirements._pages(matrices - (header if own else 0))
    assert budget(model, max_seq=2048).weights == pages + vectors + header
    touched = min(header, 2 * requirements.FAULT_AROUND)
    assert budget(model, max_seq=2).weights == pages + vectors + touched
    # On an accelerator the table is copied whole, and nothing of the host counts.
    device = budget(model, Place("cuda:0", "cuda", 1 << 40), max_seq=2)
    assert (device.weights, device.base, device.tokenizer) == (total, 0, 0)


def test_packed_weights_fill_whole_groups_and_pages(tmp_path: Path) -> None:
    path = quantized(tmp_path / "m.gguf", rows=24)
    one = budget(path, max_seq=16)
    linear = [(24, 64), (24, 64), (64, 24 * 4), (64, 64), (32, 64), (32, 64), (64, 64)]
    packed = sum(34 * (columns // 32) * (-(-rows // 16) * 16) for rows, columns in linear)
    assert one.weights % requirements.HUGE_PAGE < 4096  # norms beside the regions
    assert packed <= one.weights < packed + requirements.HUGE_PAGE + 4096
    assert one.loading > one.base + one.weights


@pytest.mark.parametrize(
    "options, kind",
    [
        ({}, "bfloat16"),
        ({"mode": "exact"}, "float32"),
        ({"dtype": "float32"}, "float32"),
        ({"dtype": "float16"}, "float16"),
        ({"kv_dtype": "float32"}, "float32"),
        ({"mode": "exact", "kv_dtype": "fp8"}, "fp8"),
    ],
    ids=str,
)
def test_the_cache_beside_quantized_weights(
    tmp_path: Path, options: dict[str, Any], kind: str
) -> None:
    path = quantized(tmp_path / "m.gguf", rows=32)
    found = budget(path, max_seq=16, **options)
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1}[kind]
    assert (found.cache_dtype, found.cache_per_token) == (kind, 2 * 32 * size)


@pytest.mark.parametrize("there", [False, True])
def test_the_cache_is_what_the_device_computes_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """A device without bfloat16 gets the dtype of activations."""
    checkpoint = open_checkpoint(quantized(tmp_path / "m.gguf", rows=32))
    about = SimpleNamespace(bf16=there)
    monkeypatch.setattr(crt, "get_device_properties", lambda device: about)
    rows = LoadOptions(device="cuda:0").cache_rows(crt.float32, checkpoint)
    assert rows.name == ("bfloat16" if there else "float32")


def quantized(path: Path, rows: int) -> Path:
    """A llama of one layer with Q8_0 matrices and a tied table."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(64)
    kind = gguf.GGMLQuantizationType.Q8_0

    def matrix(name: str, *shape: int) -> None:
        data = gguf.quants.quantize(np.ones(shape, np.float32), kind)
        writer.add_tensor(name, data, raw_dtype=kind)

    matrix("token_embd.weight", 64, 64)
    matrix("blk.0.attn_q.weight", 64, 64)
    for name in ("attn_k", "attn_v"):
        matrix(f"blk.0.{name}.weight", 32, 64)
    matrix("blk.0.attn_output.weight", 64, 64)
    for name in ("ffn_gate", "ffn_up"):
        matrix(f"blk.0.{name}.weight", 32, 64)
    matrix("blk.0.ffn_down.weight", 64, 32)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(64, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# ---------------------------------------------------------------- verdicts
def test_the_largest_window_is_the_last_that_fits(model: Path) -> None:
    need = budget(model, max_seq=777).total
    found = budget(model, Place("here", "cpu", need), max_seq=2048)
    assert found.fits is False
    assert found.largest_window is not None and 777 <= found.largest_window < 2048
    assert budget(model, max_seq=found.largest_window).total <= need
    assert budget(model, max_seq=found.largest_window + 1).total > need
    tiny = budget(model, Place("here", "cpu", 1 << 20), max_seq=16)
    assert (tiny.fits, tiny.largest_window) == (False, 0)
    unknown = budget(model, Place("here", "cpu", None), max_seq=16)
    assert (unknown.fits, unknown.largest_window) == (None, None)
    whole = budget(model)
    assert (whole.window, whole.context, whole.largest_window) == (2048, 2048, 2048)


def test_the_need_grows_with_every_option(model: Path) -> None:
    one = budget(model, max_seq=512).total
    assert budget(model, max_seq=513).total >= one
    assert budget(model, max_seq=512, max_sequences=2).total > one
    assert budget(model, max_seq=512, prefill_chunk=64).total < one


def test_every_load_logs_its_budget(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "clika_runtime.modelverse"):
        load_generative(model, max_seq=100)
    (line,) = [r.getMessage() for r in caplog.records if r.getMessage().startswith("memory on")]
    assert line.startswith("memory on CPU:0: ")
    assert "for 100 tokens in float32" in line and ", fits (weights " in line
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "clika_runtime.modelverse"):
        load_generative(model, max_seq=100)
    terms = {r.getMessage().split()[1] for r in caplog.records if "memory " in r.getMessage()}
    assert {name.replace("_", "-") for name in budget(model).terms()} <= terms


def test_a_load_that_cannot_fit_is_refused_with_the_largest_window(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = budget(model, max_seq=512).total
    monkeypatch.setattr(fit, "place_of", lambda device: Place("CPU:0", "cpu", need))
    load_generative(model, max_seq=512)
    with pytest.raises(OutOfMemoryError, match="the model needs") as error:
        load_generative(model)
    assert error.value.code_name == "OUT_OF_MEMORY"
    text = str(error.value)
    largest = int(text.split("the largest window that fits is ")[1].split()[0])
    assert 512 <= largest < 2048
    load_generative(model, max_seq=largest)
    with pytest.raises(OutOfMemoryError):
        load_generative(model, max_seq=largest + 64)


def test_weights_beyond_this_machine_are_refused_before_anything_is_allocated(
    tmp_path: Path,
) -> None:
    """A checkpoint with a header and a sparse file, larger than any memory here."""
    hidden, wide, layers = 8192, 32768, 512
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_hidden_layers": layers,
        "num_attention_heads": 64,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    header: dict[str, Any] = {}
    end = 0

    def add(name: str, *shape: int) -> None:
        nonlocal end
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size

    add("model.embed_tokens.weight", 32000, hidden)
    add("model.norm.weight", hidden)
    for layer in range(layers):
        start = f"model.layers.{layer}."
        for name in ("q", "k", "v", "o"):
            add(f"{start}self_attn.{name}_proj.weight", hidden, hidden)
        add(f"{start}mlp.gate_proj.weight", wide, hidden)
        add(f"{start}mlp.up_proj.weight", wide, hidden)
        add(f"{start}mlp.down_proj.weight", hidden, wide)
        for name in ("input_layernorm", "post_attention_layernorm"):
            add(f"{start}{name}.weight", hidden)
    data = json.dumps(header).encode()
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(data)) + data)
        try:
            file.truncate(8 + len(data) + end)
        except OSError:
            pytest.skip("no sparse file of this size can be made here")
    assert end > 2e12
    with pytest.raises(OutOfMemoryError, match="no window fits; take a smaller"):
        load_generative(tmp_path, max_seq=128)


# ---------------------------------------------------------------- devices
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("phone=8G", Place("phone", "cpu", 8 << 30)),
        ("phone=512MiB", Place("phone", "cpu", 512 << 20)),
        ("phone=1.5g", Place("phone", "cpu", 3 << 29)),
        ("cuda:1=80G", Place("cuda:1", "cuda", 80 << 30)),
        ("Metal=16GB", Place("Metal", "metal", 16 << 30)),
        ("x=4194304", Place("x", "cpu", 4 << 20)),
    ],
)
def test_assumed_devices(text: str, place: Place) -> None:
    assert fit.parse_place(text) == place


@pytest.mark.parametrize(
    "text",
    ["", "phone", "=8G", "phone=", "phone=G", "phone=-8G", "phone=8X", "phone=0", "a b=1G",
     "x=99999999999T", "x=nan", "x=1e9", "phone=8"],
)  # fmt: skip
def test_assumed_devices_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        fit.parse_place(text)


def test_a_control_group_limits_the_host(tmp_path: Path) -> None:
    root, cgroup = tmp_path / "sys", tmp_path / "cgroup"
    (root / "a" / "b").mkdir(parents=True)
    cgroup.write_text("0::/a/b\n")
    assert fit._group_limit(cgroup, str(root)) is None
    (root / "a" / "memory.max").write_text("4096\n")
    (root / "a" / "b" / "memory.max").write_text("max\n")
    assert fit._group_limit(cgroup, str(root)) == 4096
    (root / "a" / "b" / "memory.max").write_text("1024\n")
    assert fit._group_limit(cgroup, str(root)) == 1024
    # version 1: a controller of its own
    (root / "memory" / "c").mkdir(parents=True)
    (root / "memory" / "c" / "memory.limit_in_bytes").write_text("2048\n")
    cgroup.write_text("3:cpu,cpuacct:/c\n2:memory:/c\n")
    assert fit._group_limit(cgroup, str(root)) == 2048
    cgroup.write_text("nonsense\n")
    assert fit._group_limit(cgroup, str(root)) is None
    assert fit._group_limit(tmp_path / "absent", str(root)) is None


def test_check_judges_the_host_first(model: Path) -> None:
    found = fit.check(model, max_seq=256, assume=["phone=1G", "speck=1M"])
    assert [item.device for item in found][0] == "CPU:0"
    assert [item.device for item in found][-2:] == ["phone", "speck"]
    assert [item.fits for item in found][-2:] == [True, False]
    assert len({item.total for item in found if item.base}) == 1
    for item in found:
        assert replace(item, device="", memory=None).window == 256
