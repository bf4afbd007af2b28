"""``SOURCE prompt`` with constraints and tools."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse import constraints, generation, preview
from tests.cli.harness import call
from tests.cli.test_documents import validated
from tests.cli.tiny import COUNTING, REPLY, TEMPLATE, write_model

pytest.importorskip("llguidance")

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["new", "old"]}, "count": {"type": "integer", "maximum": 99}},
    "required": ["kind"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "book", "parameters": SCHEMA}}]
HERMES = '{% if tools %}<tool_call>\n{"name": ...}\n</tool_call>{% endif %}' + TEMPLATE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers every conversation with ``Paris!``; its template has no place for tools."""
    return write_model(tmp_path_factory.mktemp("models") / "paris", REPLY)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a template that writes calls."""
    path = tmp_path_factory.mktemp("models") / "caller"
    return write_model(path, REPLY, template=HERMES, window=1024)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8-sig")
    (tmp_path / "grammar.lark").write_text('start: "<" /[a-z]{3}/ ">"\n')
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "latin").write_bytes(b"\xff\xfe\xfd")
    (tmp_path / "none.json").write_text("[]")
    return tmp_path


def test_each_constraint(folder: Path, files: Path) -> None:
    base = (folder, "prompt", "hi", "-q", "--temperature", "1", "--seed", "3")
    for words, pattern in (
        (("--regex", "[ab]{4}-[0-9]"), "[ab]{4}-[0-9]\n"),
        (("--choice", "yes", "--choice", "not at all"), "(yes|not at all)\n"),
        (("--grammar", files / "grammar.lark"), "<[a-z]{3}>\n"),
    ):
        result = call(*base, *words)
        assert (result.status, result.err) == (0, ""), words
        assert re.fullmatch(pattern, result.out), (words, result.out)
    result = call(*base, "--json-schema", files / "schema.json")
    jsonschema.validate(json.loads(result.out), SCHEMA)
    result = call(*base, "--json-object", "--max-new-tokens", "40", "--json")
    document = validated("prompt", result.out)
    assert document["text"].startswith("{")


def test_a_cut_reply_names_the_flag(folder: Path) -> None:
    result = call(folder, "prompt", "hi", "--regex", "[ab]{30}", "--max-new-tokens", "5")
    assert result.status == 0 and re.fullmatch("[ab]{5}\n", result.out)
    assert "ends at --max-new-tokens before its constraint is complete" in result.err


def test_a_base_model_is_constrained_too(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", COUNTING, template=None)
    assert call(model, "prompt", "3", "--regex", "[0-9]{4}", "-q").out == "4567\n"


def test_a_forced_call(caller: Path, files: Path) -> None:
    words: tuple[Any, ...] = (caller, "prompt", "hi", "--tools", files / "tools.json", "-q")
    words = (*words, "--temperature", "1", "--seed", "2", "--max-new-tokens", "600")
    for choice in ("required", "book"):
        result = call(*words, "--tool-choice", choice)
        assert (result.status, result.err) == (0, "")
        line = json.loads(result.out)
        assert result.out.count("\n") == 1 and line["name"] == "book"
        jsonschema.validate(line["arguments"], SCHEMA)
        document = validated("prompt", call(*words, "--tool-choice", choice, "--json").out)
        (found,) = document["tool_calls"]
        assert found["parsed"] == json.loads(found["arguments"]) == line["arguments"]
        assert (document["text"], document["reasoning"]) == ("", "")


def test_several_forced_calls(caller: Path, files: Path) -> None:
    words: tuple[Any, ...] = (caller, "prompt", "hi", "--tools", files / "tools.json", "-q")
    words = (*words, "--tool-choice", "book", "--parallel-tool-calls", "--temperature", "500")
    counts = set()
    for seed in range(6):
        result = call(*words, "--seed", seed, "--max-new-tokens", "900", "--json")
        assert (result.status, result.err) == (0, "")
        document = validated("prompt", result.out)
        assert document["text"] == ""
        counts.add(len(document["tool_calls"]))
        for found in document["tool_calls"]:
            jsonschema.validate(found["parsed"], SCHEMA)
    assert len(counts) > 1


def test_tools_without_a_call(caller: Path, files: Path) -> None:
    words = (caller, "prompt", "hi", "--tools", files / "tools.json", "--greedy", "-q")
    assert call(*words).out == "Paris!\n"
    assert call(*words, "--tool-choice", "none", "--regex", "a").out == "a\n"
    assert validated("prompt", call(*words, "--json").out)["tool_calls"] == []


def test_what_a_model_cannot_do(folder: Path, files: Path, tmp_path: Path) -> None:
    result = call(folder, "prompt", "hi", "--tools", files / "tools.json")
    assert (result.status, result.out) == (3, "")
    assert "no place for tools" in result.err
    base = write_model(tmp_path / "base", COUNTING, template=None)
    result = call(base, "prompt", "hi", "--tools", files / "tools.json")
    assert (result.status, result.out) == (3, "")
    assert "--tools needs a chat template" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--regex", "a", "--json-object"), "--json-object and --regex exclude each other"),
        (("--regex", ""), "--regex needs a text"),
        (("--choice", "a", "--choice", ""), "--choice needs a text"),
        (("--json-schema", "absent"), "--json-schema: absent: No such file"),
        (("--json-schema", "bad.json"), "the schema is no JSON"),
        (
            ("--json-schema", "not.json"),
            "--json-schema: this json schema cannot be compiled: Unimpl",
        ),
        (("--regex", "(a"), "--regex: this regex cannot be compiled:"),
        (("--grammar", "bad.lark"), "--grammar: this lark cannot be compiled:"),
        (("--json-schema", "."), "--json-schema: .: Is a directory"),
        (("--grammar", "latin"), "--grammar: latin is no UTF-8 text"),
        (("--tools", "bad.json"), "tools: no valid JSON"),
        (("--tools", "none.json"), "--tools: the list is empty"),
        (("--tools", "tools.json", "--tool-choice", "fly"), "'fly' is not auto, none, required or"),
        (("--tools", "tools.json", "--regex", "a"), "--regex and --tools exclude each other"),
        (("--tool-choice", "none"), "--tool-choice needs --tools"),
        (
            ("--tools", "tools.json", "--parallel-tool-calls"),
            "--parallel-tool-calls needs a --tool-choice that forces a call",
        ),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_loaded(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(files)
    (files / "not.json").write_text('{"not": {}}')
    (files / "bad.lark").write_text("start: other")
    result = call("absent.gguf", "prompt", "hi", *words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--grammar", "special"), 1, "constraint: this lark cannot be compiled: "),
        (("--assistant-model", "other"), 1, "an assistant needs the tokenizer of the model"),
    ],
)
def test_what_the_tokenizer_refuses_is_refused_before_weights_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    status: int,
    message: str,
) -> None:
    from tests.unit.modelverse.models import write_model as write_other

    def load(*given: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(generation, "load_model", load)
    write_other(tmp_path / "other")
    (tmp_path / "special").write_text("start: <|no_such_token|>")
    base = write_model(tmp_path / "base", COUNTING, template=None)
    result = call(base, "prompt", "hi", *words)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert "weights are read" in call(base, "prompt", "hi", "--regex", "a").err


def test_a_constraint_is_compiled_once(folder: Path) -> None:
    seen = preview.preview(folder)
    compiled = seen.constraint({"regex": "[ab]{4}"})
    assert seen.constraint(None) is None
    model = generation.load_generative(seen, max_seq=64)
    assert (model.tokenizer, model.loaded.config) == (seen.tokenizer, seen.config)
    assert model.loaded.model.vocab_size == seen.vocab_size
    spec = constraints.ConstraintSpec.regex("[ab]{4}")
    ends = seen.tokenizer.stop_ids.union(seen.defaults.stop_ids)
    found = constraints.compile_constraint(seen.tokenizer, spec, seen.vocab_size, ends)
    assert found is compiled
    assert re.fullmatch("[ab]{4}", model.generate("x", constraint=spec))
    with pytest.raises(InvalidArgumentError, match="unknown option 'tokenizer'"):
        generation.load_generative(seen, tokenizer="other.json")
