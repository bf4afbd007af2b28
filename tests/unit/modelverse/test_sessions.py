"""Sessions in files: they go on with the same bits, and nothing in a file does harm."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import (
    ClikaRTError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
)
from clika_runtime.io import open_safetensors, write_safetensors
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.sessions import FORMAT, fingerprint
from tests.unit.modelverse import models
from tests.unit.modelverse.test_prefixes import same

TURNS = [{"role": "user", "content": "Tell me of the port and of its ships, at some length."}]
FREE: dict[str, Any] = {"max_new_tokens": 20, "temperature": 1.0, "seed": 3, "stop_ids": ()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    models.write_model(path, max_position_embeddings=512)
    return path


@pytest.fixture(scope="module")
def saved(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of one turn."""
    path = tmp_path_factory.mktemp("session") / "talk.safetensors"
    talk(load_generative(folder), path)
    return path


def talk(model: GenerativeModel, path: Path) -> str:
    text = model.chat(TURNS, **FREE)
    model.save_session(path, [*TURNS, {"role": "assistant", "content": text}])
    return text


def answer(model: GenerativeModel, turns: Any) -> Any:
    stream = model.stream_chat(turns, **FREE, top_logprobs=4)
    list(stream)
    return stream.report


# ---------------------------------------------------------------- there and back
@pytest.mark.parametrize(
    "load",
    [
        {},
        {"kvcache": "continuous"},
        {"kv_dtype": "bfloat16"},
        {"kv_dtype": "float16", "max_sequences": 3},
        {"kv_dtype": "fp8"},
    ],
    ids=str,
)
def test_a_session_goes_on(folder: Path, tmp_path: Path, load: dict[str, Any]) -> None:
    path = tmp_path / "talk.safetensors"
    first = load_generative(folder, **load)
    text = talk(first, path)
    other = load_generative(folder, **load)
    session = other.load_session(path)
    assert session.messages == [*TURNS, {"role": "assistant", "content": text}]
    turns = [*session.messages, {"role": "user", "content": "And then?"}]
    told = answer(other, turns)
    same(told, answer(load_generative(folder, **load, prefix_cache=False), turns))
    same(told, answer(first, turns))
    prompt = len(first.tokenizer.encode(first.render(TURNS), add_special_tokens=False))
    assert told.cached_tokens >= prompt and len(session.tokens) == prompt + 19
    # The turn after it goes into the same file.
    other.save_session(path)
    again = load_generative(folder, **load).load_session(path)
    assert again.messages is None and len(again.tokens) > len(session.tokens)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_rows_of_q8_0(tmp_path: Path) -> None:
    models.write_model(tmp_path / "model", max_position_embeddings=512, hidden_size=128)
    load = {"kv_dtype": "q8_0"}
    talk(load_generative(tmp_path / "model", **load), tmp_path / "talk.safetensors")
    other = load_generative(tmp_path / "model", **load)
    turns = other.load_session(tmp_path / "talk.safetensors").messages
    assert turns is not None
    told = answer(other, turns[:1])
    same(told, answer(load_generative(tmp_path / "model", **load, prefix_cache=False), turns[:1]))
    assert told.cached_tokens == told.prompt_tokens - 1


def test_the_file_is_what_the_cache_holds(folder: Path, saved: Path) -> None:
    model = load_generative(folder)
    session = model.load_session(saved)
    file = open_safetensors(saved)
    tokens = np.frombuffer(file.view("tokens"), np.int32)
    assert tuple(tokens.tolist()) == session.tokens
    names = [f"layers.{layer}.{kind}" for layer in (0, 1) for kind in ("keys", "values")]
    assert [*file.tensors] == ["tokens", *names]
    assert all(file.tensors[name].shape == (len(tokens), 2, 8) for name in names)
    # The rows are those of a pass over the tokens.
    fresh = load_generative(folder, prefix_cache=False)
    sequence = fresh.engine.cache.add()
    fresh.engine.extend([sequence], [session.tokens])
    for layer, kind in ((0, 0), (1, 1)):
        pool = fresh.engine.cache.pools[layer][kind]
        block = fresh.engine.cache.snapshot(sequence).blocks[0]
        rows = np.frombuffer(file.view(f"layers.{layer}.{('keys', 'values')[kind]}"), np.float32)
        np.testing.assert_array_equal(rows.reshape(-1, 2, 8)[:64], pool.numpy()[block], strict=True)


def test_a_session_needs_room(folder: Path, saved: Path) -> None:
    model = load_generative(folder, max_seq=128)
    model.load_session(saved)
    model.load_session(saved)  # a pool of two blocks: the first one goes
    assert len(model.prefixes or ()) == 1
    held = model.stream_generate("x" * 70, max_new_tokens=50, stop_ids=())
    next(held)
    with pytest.raises(ClikaRTError, match=r"need 2 block\(s\) of 64 tokens, 0 are free of 2"):
        model.load_session(saved)
    held.close()
    model.load_session(saved)


def test_one_text_of_many(folder: Path, tmp_path: Path) -> None:
    model = load_generative(folder, max_sequences=2)
    texts = ["a" * 40, "b" * 50]
    model.generate_batch(texts, **FREE)
    for text in texts:
        ids = model.tokenizer.encode(text)
        session = model.save_session(tmp_path / "one.safetensors", tokens=ids)
        assert list(session.tokens[: len(ids)]) == ids
    with pytest.raises(InvalidArgumentError, match="no such text"):
        model.save_session(tmp_path / "one.safetensors", tokens=[7] * 30)


# ---------------------------------------------------------------- refusals
def test_what_cannot_be_saved(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk.safetensors"
    with pytest.raises(InvalidArgumentError, match="loaded without prefix_cache") as caught:
        load_generative(folder, prefix_cache=False).save_session(path)
    assert caught.value.code_name == "FAILED_PRECONDITION"
    model = load_generative(folder)
    with pytest.raises(InvalidArgumentError, match="holds no such text of 16 tokens or more"):
        model.save_session(path)
    model.chat(TURNS, **FREE)
    with pytest.raises(InvalidArgumentError, match="messages are a list of dicts"):
        model.save_session(path, [{"role": "user"}])
    with pytest.raises(InvalidArgumentError, match="messages are a list of dicts"):
        model.save_session(path, 5)
    with pytest.raises(InvalidArgumentError, match="messages are no JSON"):
        model.save_session(path, [{"role": "user", "content": "x", "more": object()}])
    with pytest.raises(InvalidArgumentError, match="outside the vocabulary"):
        model.save_session(path, tokens=[1000])
    with pytest.raises(NotFoundError, match="no such directory"):
        model.save_session(tmp_path / "none" / "talk.safetensors")
    assert not [*tmp_path.iterdir()]


def refused(model: GenerativeModel, path: Path, match: str, code: str = "MALFORMED_FILE") -> None:
    free = model.engine.cache.free_blocks
    with pytest.raises(ClikaRTError, match=match) as caught:
        model.load_session(path)
    assert caught.value.code_name == code
    assert model.engine.cache.free_blocks == free and len(model.prefixes or ()) == 0


@pytest.mark.parametrize("option, value", [("kv_dtype", "bfloat16"), ("mode", "exact")])
def test_a_refusal_names_the_option_that_helps(
    folder: Path, saved: Path, tmp_path: Path, option: str, value: str
) -> None:
    """A session of another cache is refused in both directions, and loads as its refusal says."""
    path = tmp_path / "talk.safetensors"
    talk(load_generative(folder, **{option: value}), path)
    code, helps = "FAILED_PRECONDITION", f"here it is .*; load the model with {option}="
    refused(load_generative(folder, **{option: value}), saved, helps, code)
    refused(load_generative(folder), path, f"{helps}'{value}'$", code)
    assert load_generative(folder, **{option: value}).load_session(path).tokens


def test_another_model_is_refused(folder: Path, saved: Path, tmp_path: Path) -> None:
    code = "FAILED_PRECONDITION"
    refused(load_generative(folder, dtype="bfloat16"), saved, "its 'dtype' is 'float32'", code)
    refused(load_generative(folder, mode="exact"), saved, "its 'mode' is 'fast', here", code)
    refused(load_generative(folder, kv_dtype="fp8"), saved, "its 'cache' is 'float32'", code)
    refused(load_generative(folder, max_seq=50), saved, r"16 \.\. 50 \(the context window\)", code)
    # One weight that is another.
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    config = json.loads((folder / "config.json").read_text())
    values = models.tensors(config)
    values["model.layers.1.mlp.up_proj.weight"][3, 5] += 1
    models.write_weights(other, values)
    refused(load_generative(other), saved, "its 'weights' is", code)
    models.write_model(tmp_path / "thin", max_position_embeddings=512, rms_norm_eps=1e-6)
    refused(load_generative(tmp_path / "thin"), saved, "its 'config' is", code)
    with pytest.raises(InvalidArgumentError, match="without prefix_cache"):
        load_generative(folder, prefix_cache=False).load_session(saved)


def test_the_window_counts_where_frequencies_follow_it(tmp_path: Path) -> None:
    scaling = {"rope_type": "dynamic", "factor": 2.0}
    models.write_model(tmp_path / "model", max_position_embeddings=256, rope_scaling=scaling)
    whole = load_generative(tmp_path / "model")
    talk(whole, tmp_path / "talk.safetensors")
    assert fingerprint(whole)["window"] == str(whole.window)
    half = load_generative(tmp_path / "model", max_seq=128)
    refused(half, tmp_path / "talk.safetensors", "its 'window' is", "FAILED_PRECONDITION")


def rewritten(saved: Path, path: Path, change: Any) -> Path:
    """The session with its tensors and its document changed."""
    file = open_safetensors(saved)
    rows = {
        name: (str(info.dtype), tuple(info.shape), bytes(file.view(name)))
        for name, info in file.tensors.items()
    }
    document = json.loads(file.metadata[FORMAT])
    text = change(rows, document)
    write_safetensors(path, rows, {FORMAT: text if isinstance(text, str) else json.dumps(document)})
    return path


def test_files_that_are_none(folder: Path, saved: Path, tmp_path: Path) -> None:
    model = load_generative(folder)
    path = tmp_path / "talk.safetensors"
    refused(model, tmp_path / "none", "no such file", "NO_SUCHFILE")
    refused(model, tmp_path, "is no file of a session")
    refused(model, folder / "model.safetensors", "is no session: its metadata has no")

    def document(match: str, code: str = "MALFORMED_FILE", **changes: Any) -> None:
        rewritten(saved, path, lambda rows, found: found.update(changes))
        refused(model, path, match, code)

    document("a session of version 2, this release reads 1", "NOT_IMPLEMENTED", version=2)
    document("has no version", version="1")
    document("has no version", version=True)
    document("names no model", model=None)
    document("is of another model: its 'family'", "FAILED_PRECONDITION", model={})
    document("messages are a list of dicts", messages="hello")
    document("messages are a list of dicts", messages=[{"role": 1, "content": "x"}])
    document("its checksum is another one", sha256="0")
    for text in ("{", "[]", "3", "[" * 100_000, '{"version": NaN}'):
        rewritten(saved, path, lambda rows, found, text=text: text)
        refused(model, path, "the document of the session")

    def tensor(match: str, name: str, row: Any) -> None:
        def change(rows: Any, found: Any) -> None:
            rows.pop(name, None)
            if row is not None:
                rows[name] = row(rows)

        rewritten(saved, path, change)
        refused(model, path, match)

    tensor("has no tensor 'tokens'", "tokens", None)
    tensor("has no tensor 'tokens'", "tokens", lambda rows: ("int64", (2,), bytes(16)))
    tensor("has no tensor 'tokens'", "tokens", lambda rows: ("int32", (2, 20), bytes(160)))
    tensor("the session has 3 tokens", "tokens", lambda rows: ("int32", (3,), bytes(12)))
    for wrong in (-1, 261):
        odd = np.full(40, wrong, np.int32).tobytes()
        row = ("int32", (40,), odd)
        tensor("outside the vocabulary of 261", "tokens", lambda rows, row=row: row)
    tensor("tensor 'layers.0.keys' is", "tokens", lambda rows: ("int32", (40,), bytes(160)))
    tensor("'layers.1.values' is missing", "layers.1.values", None)
    tensor("has none of that name", "layers.2.keys", lambda rows: ("int8", (1,), bytes(1)))
    tensor(
        "tensor 'layers.0.keys' is",
        "layers.0.keys",
        lambda rows: ("float16", (10, 2, 8), bytes(320)),
    )


def test_damaged_files(folder: Path, saved: Path, tmp_path: Path) -> None:
    """Whatever byte is another, or missing: an error with a type, or the session as it was."""
    model = load_generative(folder)
    whole = saved.read_bytes()
    session = load_generative(folder).load_session(saved)
    drawn = random.Random(5)
    header = int.from_bytes(whole[:8], "little") + 8
    path = tmp_path / "talk.safetensors"
    for number in range(400):
        data = bytearray(whole)
        if number % 8 == 0:
            del data[drawn.randrange(len(data)) :]
        else:
            place = drawn.randrange(header if number % 2 else len(data))
            data[place] ^= 1 << drawn.randrange(8)
        path.write_bytes(data)
        try:
            found = model.load_session(path)
        except ClikaRTError:
            continue
        assert found.tokens == session.tokens


# ---------------------------------------------------------------- rows that do harm
def forged(saved: Path, path: Path, fill: Any, name: str = "") -> Path:
    """The session with the bytes of tensors replaced (of one, or of all), and a checksum that fits
    them."""

    def change(rows: Any, document: Any) -> None:
        for key, (dtype, shape, data) in rows.items():
            if key == name or (not name and key != "tokens"):
                rows[key] = (dtype, shape, fill(data))
        digest = hashlib.sha256()
        for _, _, data in rows.values():
            digest.update(data)
        document["sha256"] = digest.hexdigest()

    return rewritten(saved, path, change)


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        ("float32", np.float32(np.nan), 8),
        ("float32", np.float32(-np.inf), -4),
        ("float16", np.float16(np.inf), 2),
        ("bfloat16", np.uint16(0x7FC0), -2),
        ("fp8", np.uint8(0x7F), 3),
        ("q8_0", np.float16(np.nan), 34),
    ],
)
def test_rows_that_are_no_numbers(tmp_path: Path, kind: str, value: Any, place: int) -> None:
    models.write_model(tmp_path / "model", max_position_embeddings=512, hidden_size=128)
    path = tmp_path / "talk.safetensors"
    talk(load_generative(tmp_path / "model", kv_dtype=kind), path)

    def fill(data: bytes) -> bytes:
        changed, bits = bytearray(data), value.tobytes()
        start = place % len(data)
        changed[start : start + len(bits)] = bits
        return bytes(changed)

    model = load_generative(tmp_path / "model", kv_dtype=kind)
    refused(
        model,
        forged(path, tmp_path / "forged.safetensors", fill, "layers.1.keys"),
        "tensor 'layers.1.keys' holds rows that are no numbers",
    )
    assert model.load_session(forged(path, tmp_path / "same.safetensors", bytes)).tokens


def test_rows_that_spoil_a_reply_are_not_read_twice(
    folder: Path, saved: Path, tmp_path: Path
) -> None:
    huge = forged(
        saved,
        tmp_path / "huge.safetensors",
        lambda data: np.full(len(data) // 4, 3e38, np.float32).tobytes(),
    )
    model = load_generative(folder)
    turns = model.load_session(huge).messages
    other = model.generate("another text, that is kept as well", **FREE)
    with pytest.raises(InternalError, match="cannot be chosen"):
        answer(model, turns)
    same(answer(model, turns), answer(load_generative(folder, prefix_cache=False), turns))
    # What has nothing in common with it stays.
    stream = model.stream_generate("another text, that is kept as well", **FREE)
    assert "".join(stream) == other and stream.report.cached_tokens > 16


def test_a_path_may_be_bytes(folder: Path, saved: Path, tmp_path: Path) -> None:
    model = load_generative(folder)
    session = model.load_session(os.fsencode(saved))
    model.save_session(os.fsencode(tmp_path / "again.safetensors"))
    assert model.load_session(tmp_path / "again.safetensors").tokens == session.tokens


def test_messages_too_long_to_be_read_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clika_runtime.io.safetensors.MAX_HEADER_BYTES", 5000)
    model = load_generative(folder)
    model.chat(TURNS, **FREE)
    with pytest.raises(InvalidArgumentError, match="at most 5000 can be read again"):
        model.save_session(tmp_path / "a", [{"role": "user", "content": "x" * 5000}])
    assert not [*tmp_path.iterdir()]
