"""Adapters that do not fit, contradict themselves or are not served: refused by name, before
anything of them is bound. And what the memory law says of them."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import (
    ClikaRTError,
    InvalidArgumentError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
)
from clika_runtime.io import write_safetensors
from clika_runtime.modelverse import fit
from clika_runtime.modelverse.adapter_files import open_adapter
from clika_runtime.modelverse.adapters import AdapterSpec, spec_of
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.loader import LoadOptions, describe
from clika_runtime.modelverse.requirements import Place
from tests.families import lora
from tests.unit.modelverse import models

HIDDEN, INNER, RANK = 32, 48, 4
QUERY = "model.layers.0.self_attn.q_proj"
DOWN = "model.layers.1.mlp.down_proj"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    models.write_model(folder)
    return folder


def pair(outputs: int, inputs: int, rank: int = RANK, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    down = rng.standard_normal((rank, inputs)).astype(np.float32)
    return down, rng.standard_normal((outputs, rank)).astype(np.float32)


def good() -> dict[str, tuple[Any, Any]]:
    return {QUERY: pair(HIDDEN, HIDDEN), DOWN: pair(HIDDEN, INNER)}


def refused(base: Path, adapter: Any, kind: type[ClikaRTError], *words: str) -> None:
    """Refused by the load and by the headers alone, in a message with all of the words."""
    with pytest.raises(kind) as error:
        describe(base, LoadOptions(adapters=[adapter]))
    for word in words:
        assert word in str(error.value)


# ---- PEFT
def test_a_good_one_changes_the_text(base: Path, tmp_path: Path) -> None:
    where = lora.write_peft(tmp_path / "a", good())
    model = load_generative(base, adapters=[where])
    plain = load_generative(base)
    assert model.report["adapters"] == f"{where} (x1)"
    assert "adapters" not in plain.report
    assert not np.allclose(model.logits([5, 6, 7]), plain.logits([5, 6, 7]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_dora": True}, ("use_dora",)),
        ({"use_qalora": True}, ("use_qalora",)),
        ({"modules_to_save": ["lm_head"]}, ("modules_to_save",)),
        ({"bias": "all"}, ("bias", "all")),
        ({"lora_bias": True}, ("lora_bias",)),
        ({"fan_in_fan_out": True}, ("fan_in_fan_out",)),
        ({"peft_type": "IA3"}, ("peft_type", "IA3")),
        ({"task_type": "SEQ_CLS"}, ("task_type", "SEQ_CLS")),
        ({"init_lora_weights": "pissa"}, ("init_lora_weights", "pissa")),
        ({"layer_replication": [[0, 1]]}, ("layer_replication",)),
        ({"alpha_pattern": {"(a+)+$": 2}}, ("alpha_pattern", "(a+)+$")),
    ],
)
def test_kinds_that_are_not_served(
    changes: dict[str, Any], words: tuple[str, ...], base: Path, tmp_path: Path
) -> None:
    refused(base, lora.write_peft(tmp_path / "a", good(), **changes), UnsupportedError, *words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"r": 0}, ("'r'", "0")),
        ({"r": -1}, ("'r'",)),
        ({"r": "4"}, ("'r'",)),
        ({"r": 1 << 40}, ("'r'",)),
        ({"r": 5}, ("rank 4", "r = 5")),
        ({"lora_alpha": None}, ("lora_alpha",)),
        ({"lora_alpha": float("nan")}, ("lora_alpha",)),
        ({"lora_alpha": 1e300}, ("lora_alpha",)),
        ({"use_rslora": 1}, ("use_rslora",)),
        ({"target_modules": ["q_proj", "down_proj", "wq"]}, ("target_modules", "wq")),
        ({"target_modules": 3}, ("target_modules",)),
        ({"alpha_pattern": {"q_proj": "x"}}, ("q_proj",)),
        ({"alpha_pattern": [1]}, ("alpha_pattern",)),
    ],
)
def test_configurations_that_mean_nothing(
    changes: dict[str, Any], words: tuple[str, ...], base: Path, tmp_path: Path
) -> None:
    folder = lora.write_peft(tmp_path / "a", good(), **changes)
    refused(base, folder, InvalidArgumentError, *words)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({QUERY: pair(HIDDEN, 31)}, (QUERY, "[32, 31]", "[32, 32]")),
        ({QUERY: pair(33, HIDDEN)}, (QUERY, "[33, 32]", "[32, 32]")),
        ({"model.layers.9.self_attn.q_proj": pair(HIDDEN, HIDDEN)}, ("layers.9", "no such module")),
        ({"model.layers.0.self_attn.wq": pair(HIDDEN, HIDDEN)}, ("wq", "no such module")),
        ({"model.norm": pair(HIDDEN, HIDDEN)}, ("model.norm", "no linear layer")),
        ({"model.embed_tokens": pair(261, HIDDEN)}, ("embed_tokens", "no linear layer")),
        ({QUERY: (pair(HIDDEN, HIDDEN)[0], pair(HIDDEN, HIDDEN, 3)[1])}, (QUERY, "[4, 32]")),
        ({QUERY: pair(HIDDEN, HIDDEN, 0)}, (QUERY, "[0, 32]")),
        ({QUERY: (np.zeros(32, np.float32), np.zeros((32, 1), np.float32))}, (QUERY, "[32]")),
        ({}, ("no tensors",)),
    ],
)
def test_matrices_that_do_not_fit(
    values: dict[str, Any], words: tuple[str, ...], base: Path, tmp_path: Path
) -> None:
    folder = lora.write_peft(tmp_path / "a", values, r=RANK, target_modules=None)
    refused(base, folder, InvalidArgumentError, *words)


def rewrite(folder: Path, tensors: dict[str, Any]) -> Path:
    rows = {name: ("float32", array.shape, array) for name, array in tensors.items()}
    write_safetensors(folder / "adapter_model.safetensors", rows)
    return folder


def test_tensors_that_are_no_matrices_of_an_adapter(base: Path, tmp_path: Path) -> None:
    folder = lora.write_peft(tmp_path / "a", good())
    down, up = good()[QUERY]
    stem = f"base_model.model.{QUERY}"
    one = {f"{stem}.lora_A.weight": down}
    refused(base, rewrite(folder, one), InvalidArgumentError, QUERY, "one matrix of two")
    whole = {**one, f"{stem}.lora_B.weight": up}
    more = {**whole, f"{stem}.lora_magnitude_vector": up[:, 0].copy()}
    refused(base, rewrite(folder, more), UnsupportedError, "lora_magnitude_vector")
    more = {**whole, f"{stem}.lora_embedding_A": down}
    refused(base, rewrite(folder, more), UnsupportedError, "lora_embedding_A")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers(value: float, base: Path, tmp_path: Path) -> None:
    values = good()
    values[QUERY][1][3, 2] = value
    with pytest.raises(InvalidArgumentError, match=r"q_proj.lora_B.* at \[3, 2\]"):
        load_generative(base, adapters=[lora.write_peft(tmp_path / "a", values)])


def test_files_that_are_not_there_or_of_another_kind(base: Path, tmp_path: Path) -> None:
    refused(base, tmp_path / "none", NotFoundError, "none")
    folder = lora.write_peft(tmp_path / "a", good())
    (folder / "adapter_config.json").write_text("[]")
    refused(base, folder, InvalidArgumentError, "adapter_config.json")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"')
    refused(base, folder, InvalidArgumentError, "adapter_config.json")
    (folder / "adapter_config.json").unlink()
    refused(base, folder, NotFoundError, "adapter_config.json")
    folder = lora.write_peft(tmp_path / "b", good())
    weights = folder / "adapter_model.safetensors"
    weights.rename(folder / "adapter_model.bin")
    refused(base, folder / "adapter_model.bin", UnsupportedError, "safe_serialization")
    weights.write_bytes((folder / "adapter_model.bin").read_bytes()[:-8])
    refused(base, folder, InvalidArgumentError, "adapter_model.safetensors")


# ---- GGUF
GGUF_QUERY = "blk.0.attn_q.weight"


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"kinds": {"general.type": "model"}}, InvalidArgumentError, ("general.type", "model")),
        ({"kinds": {"adapter.type": "loha"}}, InvalidArgumentError, ("adapter.type", "loha")),
        ({"architecture": "qwen2"}, InvalidArgumentError, ("qwen2", "llama")),
        ({"alpha": float("nan")}, InvalidArgumentError, ("adapter.lora.alpha",)),
        ({"name": "blk.7.attn_q.weight"}, InvalidArgumentError, ("blk.7.attn_q",)),
        ({"name": "blk.0.attn_norm.weight"}, InvalidArgumentError, ("no linear layer",)),
        ({"values": pair(HIDDEN, 16)}, InvalidArgumentError, ("[32, 16]", "[32, 32]")),
    ],
)
def test_gguf_adapters_that_do_not_fit(
    given: dict[str, Any],
    kind: type[ClikaRTError],
    words: tuple[str, ...],
    base: Path,
    tmp_path: Path,
) -> None:
    values = {given.pop("name", GGUF_QUERY): given.pop("values", pair(HIDDEN, HIDDEN))}
    refused(base, lora.write_gguf(tmp_path / "a.gguf", values, **given), kind, *words)


def test_a_model_is_no_adapter_and_damage_is_told(base: Path, tmp_path: Path) -> None:
    where = lora.write_gguf(tmp_path / "a.gguf", {GGUF_QUERY: pair(HIDDEN, HIDDEN)})
    describe(base, LoadOptions(adapters=[where]))
    whole = where.read_bytes()
    for size in range(0, len(whole), 97):
        where.write_bytes(whole[:size])
        with pytest.raises(ClikaRTError):
            describe(base, LoadOptions(adapters=[where]))
    refused(base, base, NotFoundError, "adapter_config.json")


# ---- options
def test_paths_and_scales(tmp_path: Path) -> None:
    assert spec_of("a.gguf") == AdapterSpec("a.gguf", 1.0)
    assert spec_of("C:\\a\\b") == AdapterSpec("C:\\a\\b", 1.0)
    assert spec_of("a:b:-2e-1") == AdapterSpec("a:b", -0.2)
    there = tmp_path / "a:2"
    there.mkdir()
    assert spec_of(str(there)) == AdapterSpec(str(there))
    assert spec_of(f"{there}:2") == AdapterSpec(str(there), 2.0)
    for bad in ("", 3, None):
        with pytest.raises(InvalidArgumentError, match="an adapter is a path"):
            spec_of(bad)  # type: ignore[arg-type]
    for word in ("nan", "inf", "1e9"):
        with pytest.raises(InvalidArgumentError, match="scale"):
            spec_of(f"a:{word}")
    for one in ("a.gguf", 3):
        with pytest.raises(InvalidArgumentError, match="list of adapters"):
            LoadOptions(adapters=one)  # type: ignore[arg-type]


def test_merged_adapters_cannot_be_taken_out(base: Path, tmp_path: Path) -> None:
    where = lora.write_peft(tmp_path / "a", good())
    model = load_generative(base, adapters=[where], merge_adapters=True)
    with pytest.raises(InvalidArgumentError, match="merge_adapters"):
        model.with_adapters()


def test_requests_under_different_adapters(base: Path, tmp_path: Path) -> None:
    """Replies that run at the same time under different adapters are those of models of their
    own."""
    one = lora.write_peft(tmp_path / "one", good())
    two = lora.write_peft(tmp_path / "two", {DOWN: pair(HIDDEN, INNER, seed=5)})
    model = load_generative(base, max_seq=64)
    served: list[GenerativeModel] = [model, model.with_adapters(one), model.with_adapters(two)]
    alone = [load_generative(base, adapters=paths) for paths in ([], [one], [two])]
    prompt = [7, 8, 9, 10]
    options = {"max_new_tokens": 12, "stop_ids": ()}
    want = [other.generate(prompt, **options) for other in alone]
    assert len(set(want)) == 3
    streams = [other.stream_generate(prompt, **options) for other in served]
    pieces = ["", "", ""]
    running = True
    while running:
        running = False
        for place, stream in enumerate(streams):
            piece = next(stream, None)
            if piece is not None:
                pieces[place] += piece
                running = True
    assert pieces == want


def test_nothing_computed_under_one_adapter_is_read_under_another(
    base: Path, tmp_path: Path
) -> None:
    """Neither kept texts nor sessions: keys and values depend on the adapter."""
    one = lora.write_peft(tmp_path / "one", good())
    model = load_generative(base, max_seq=64)
    adapted = model.with_adapters(one)
    prompt = [*range(7, 37)]
    reports = []
    for other in (model, adapted, model.with_adapters(), adapted, model):
        stream = other.stream_generate(prompt, max_new_tokens=8, stop_ids=())
        list(stream)
        reports.append(stream.report)
    assert [report.cached_tokens for report in reports] == [0, 0, 0, 29, 29]
    texts = [report.text for report in reports]
    assert texts[0] == texts[2] == texts[4] != texts[1] == texts[3]
    path = tmp_path / "talk.safetensors"
    adapted.save_session(path)
    for other in (model, model.with_adapters(f"{one}:0.5")):
        with pytest.raises(InvalidArgumentError, match="another model: its 'adapters' is"):
            other.load_session(path)
    assert load_generative(base, max_seq=64, adapters=[one]).load_session(path).tokens


def test_a_session_is_of_the_adapter_as_it_was_loaded(base: Path, tmp_path: Path) -> None:
    """Its factors and whether it was merged count, and not what has become of its file."""
    one, path = tmp_path / "one", tmp_path / "talk.safetensors"
    model = load_generative(base, max_seq=64, adapters=[lora.write_peft(one, good())])
    model.generate([*range(7, 37)], max_new_tokens=8, stop_ids=())
    shutil.move(one, tmp_path / "moved")
    lora.write_peft(one, good(), lora_alpha=80)  # the same matrices
    model.save_session(path)
    for adapter, merged in ((one, False), (tmp_path / "moved", True)):
        other = load_generative(base, max_seq=64, adapters=[adapter], merge_adapters=merged)
        with pytest.raises(InvalidArgumentError, match="another model: its 'adapters' is"):
            other.load_session(path)
    again = load_generative(base, max_seq=64, adapters=[tmp_path / "moved"])
    assert again.load_session(path).tokens


# ---- bounds
def test_many_names_take_no_longer_than_their_number(base: Path, tmp_path: Path) -> None:
    """Names of the configuration against names of tensors: not each with each."""
    count = 4000
    values = {f"model.m{index}": pair(1, 1, 1) for index in range(count)}
    names = [f"m{index}" for index in reversed(range(count))]
    alphas = dict.fromkeys([*(f"x{index}" for index in range(20_000)), "m7"], 3)
    folder = lora.write_peft(tmp_path / "a", values, target_modules=names, alpha_pattern=alphas)
    begun = time.process_time()
    found = open_adapter(folder)
    # Each with each takes half a minute.
    assert time.process_time() - begun < 5
    scales = {name: item.scale for name, item in found.pairs.items()}
    assert scales["model.m7.weight"] == 3 and scales["model.m8.weight"] == 8


def test_of_several_alphas_the_first_counts(tmp_path: Path) -> None:
    for pattern, want in (
        ({"q_proj": 2, "self_attn.q_proj": 4}, 2),
        ({"self_attn.q_proj": 4, "q_proj": 2}, 4),
        ({"proj": 2, "attn.q_proj": 4}, 8),
        ({QUERY: 6}, 6),
    ):
        where = lora.write_peft(tmp_path / "a", good(), alpha_pattern=pattern)
        scale = open_adapter(where).pairs[f"{QUERY}.weight"].scale
        assert scale == want / RANK


def test_names_have_a_length(base: Path, tmp_path: Path) -> None:
    folder = lora.write_peft(tmp_path / "a", {"a." * 200 + "q_proj": pair(1, 1)})
    refused(base, folder, InvalidArgumentError, "characters, at most 256 are served")


# ---- memory
def test_the_memory_law_counts_them(base: Path, tmp_path: Path) -> None:
    where = lora.write_peft(tmp_path / "a", good())
    place = Place("here", "cpu", 1 << 40)

    def budget(**options: Any) -> Any:
        asked = LoadOptions(max_seq=32, **options)
        return fit.budget_of_described(describe(base, asked), asked, place)

    plain, beside = budget(), budget(adapters=[where])
    assert plain.adapters == 0
    numbers = RANK * (2 * HIDDEN + HIDDEN + INNER)
    assert beside.adapters == 4 * numbers
    assert budget(adapters=[where, f"{where}:2"]).adapters == 8 * numbers
    assert budget(adapters=[where], dtype="bfloat16").adapters == 2 * numbers
    assert beside.weights == plain.weights
    assert beside.total >= plain.total + beside.adapters
    inside = budget(adapters=[where], merge_adapters=True)
    assert inside.adapters == 4 * (HIDDEN * HIDDEN + HIDDEN * INNER)
    assert inside.activations == plain.activations
    model = load_generative(base, adapters=[where], max_seq=32)
    arena = model.engine.plan("fill", 32, 1).stats()["arena_bytes"]
    assert beside.activations >= arena


def test_a_load_that_cannot_hold_them_is_refused(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = lora.write_peft(tmp_path / "a", good())
    asked = LoadOptions(max_seq=32)
    need = fit.budget_of_described(describe(base, asked), asked, Place("x", "cpu", 1 << 40)).total
    monkeypatch.setattr(fit, "place_of", lambda device: Place("CPU:0", "cpu", need))
    model = load_generative(base, max_seq=32)
    with pytest.raises(OutOfMemoryError):
        load_generative(base, max_seq=32, adapters=[where])
    with pytest.raises(OutOfMemoryError):
        model.with_adapters(where)


def test_the_config_is_no_place_for_tricks(base: Path, tmp_path: Path) -> None:
    folder = lora.write_peft(tmp_path / "a", good())
    (folder / "adapter_config.json").write_text("[" * 100_000)
    refused(base, folder, InvalidArgumentError, "adapter_config.json")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": "(a+)+" * 1000}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    describe(base, LoadOptions(adapters=[folder]))


@pytest.mark.parametrize("kind", ["peft", "gguf"])
def test_damaged_bytes_are_refused_or_harmless(kind: str, base: Path, tmp_path: Path) -> None:
    if kind == "peft":
        where = lora.write_peft(tmp_path / "a", good())
        file = where / "adapter_model.safetensors"
    else:
        where = file = lora.write_gguf(tmp_path / "a.gguf", {GGUF_QUERY: pair(HIDDEN, HIDDEN)})
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.integers(0, min(len(whole), 420))] = rng.integers(0, 256)
        file.write_bytes(damaged)
        try:
            describe(base, LoadOptions(adapters=[where]))
        except ClikaRTError:
            told += 1
    assert told > 75
