"""Forced calls: what the grammar of a format admits, its parser reads back as one valid call."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tokenizers

from clika_runtime import plugins
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.constraints import compile_constraint
from clika_runtime.modelverse.tools import (
    REASONINGS,
    OutputParser,
    collect,
    forced_call,
    shown_ids,
    tool_format,
)
from clika_runtime.modelverse.tools.grammar import MAX_CALLS
from clika_runtime.tokenizer import Tokenizer
from tests.unit.modelverse.tool_calls.goldens import TOOLS
from tests.unit.modelverse.walks import walk
from tests.unit.tokenizer.small import byte_level

FORMATS = sorted(plugins.tool_parsers())

RICH: list[dict[str, Any]] = [
    {
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "minLength": 1, "maxLength": 12},
                "kind": {"enum": ["new", "old one"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 300},
                "price": {"type": "number"},
                "gift": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "place": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "name": {"type": "string"}},
                    "required": ["x"],
                    "additionalProperties": False,
                },
            },
            "required": ["title", "count", "gift"],
            "additionalProperties": False,
        },
    },
    {
        "name": "note-2.a",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "level": {"$ref": "#/$defs/level"}},
            "required": ["text", "level"],
            "$defs": {"level": {"type": "integer", "enum": [1, 2, 3]}},
        },
    },
]

ENDINGS = (
    "\n</parameter>\n",
    "</arg_value>\n",
    "<escape>",
    '<|"|>',
    "</think>",
)


def special_tokenizer(path: Path) -> Tokenizer:
    """A vocabulary in which all marks of all formats are special tokens."""
    backend = byte_level()
    marks = {mark for name in FORMATS for mark in tool_format(name).markers}
    backend.add_special_tokens(
        [tokenizers.AddedToken(mark, special=True, normalized=False) for mark in sorted(marks)]
    )
    backend.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    return Tokenizer.from_file(path)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    plain = tmp_path_factory.mktemp("plain")
    byte_level().save(str(plain / "tokenizer.json"))
    (plain / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    return {
        "text": Tokenizer.from_file(plain),
        "special": special_tokenizer(tmp_path_factory.mktemp("special")),
    }


def check(
    tokenizer: Tokenizer, name: str, tools: list[Any], choice: str, seed: int, several: bool = False
) -> int:
    """Walks once; the count of calls."""
    made = tool_format(name)
    spec = forced_call(tokenizer, made, tools, choice, several=several)
    constraint = compile_constraint(tokenizer, spec)
    rng = random.Random(seed)
    state = constraint.start()
    ids = walk(state, tokenizer, rng, patience=rng.choice([5, 60]), endings=ENDINGS, limit=2000)
    assert state.accepting, tokenizer.decode(ids, skip_special_tokens=False)
    decoder = tokenizer.streaming_decoder(keep=shown_ids(tokenizer, made, None))
    parser = OutputParser(name, tools=tools)
    events = [event for index in ids for event in parser.push(decoder.push(index))]
    events += parser.push(decoder.finish())
    reply = collect([*events, *parser.finish()])
    written = tokenizer.decode(ids, skip_special_tokens=False)
    assert (reply.text, reply.reasoning) == ("", ""), (written, reply)
    assert 1 <= len(reply.calls) <= (MAX_CALLS if several else 1), (written, reply)
    schemas = {}
    for tool in tools:
        inner = tool.get("function", tool)
        schemas[inner["name"]] = inner["parameters"] or {"type": "object"}
    for call in reply.calls:
        assert call.name in (schemas if choice == "required" else {choice})
        jsonschema.validate(json.loads(call.arguments), schemas[call.name])
    if made.numbered:
        numbers = [int(call.id.rpartition(":")[2]) for call in reply.calls]
        assert numbers == list(range(len(numbers)))
    return len(reply.calls)


@pytest.mark.parametrize("kind", ["text", "special"])
@pytest.mark.parametrize("name", FORMATS)
def test_walks_parse_back(vocabularies: dict[str, Tokenizer], name: str, kind: str) -> None:
    tokenizer = vocabularies[kind]
    for seed in range(6):
        check(tokenizer, name, TOOLS, "required", seed)
        check(tokenizer, name, TOOLS, "add", seed)
        check(tokenizer, name, RICH, "required", seed)
        check(tokenizer, name, RICH, "book", seed)


#: Formats that end a reply with its first call.
ONE_CALL = ["harmony"]


@pytest.mark.parametrize("kind", ["text", "special"])
@pytest.mark.parametrize("name", sorted({*FORMATS} - {*ONE_CALL}))
def test_several_calls_parse_back(vocabularies: dict[str, Tokenizer], name: str, kind: str) -> None:
    tokenizer = vocabularies[kind]
    counts = {check(tokenizer, name, TOOLS, "required", seed, True) for seed in range(12)}
    counts |= {check(tokenizer, name, TOOLS, "now", seed, True) for seed in range(12)}
    assert len(counts) > 1
    for seed in range(3):
        check(tokenizer, name, RICH, "required", seed, True)


@pytest.mark.parametrize("name", ONE_CALL)
def test_a_format_with_one_call_says_so(vocabularies: dict[str, Tokenizer], name: str) -> None:
    text = f"several calls are asked for, and format '{name}' has one in a reply"
    with pytest.raises(InvalidArgumentError, match=text):
        forced_call(vocabularies["text"], tool_format(name), TOOLS, several=True)


def test_a_mark_that_ends_the_reply_has_no_call_behind_it(tmp_path: Path) -> None:
    special_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</tool_call>"}')
    tokenizer = Tokenizer.from_file(tmp_path)
    assert check(tokenizer, "hermes", TOOLS, "required", 1) == 1
    with pytest.raises(InvalidArgumentError, match="'</tool_call>', which closes one, ends the"):
        forced_call(tokenizer, tool_format("hermes"), TOOLS, several=True)


@pytest.mark.parametrize("name", FORMATS)
def test_walks_of_a_real_vocabulary(smollm2_gguf: Path, name: str) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    for seed in range(2):
        check(tokenizer, name, TOOLS, "get_weather", seed)
        check(tokenizer, name, RICH, "required", seed)


def test_reasoning_comes_first_where_the_prompt_opened_it(
    vocabularies: dict[str, Tokenizer],
) -> None:
    tokenizer = vocabularies["text"]
    think = REASONINGS["think"]
    spec = forced_call(tokenizer, tool_format("hermes"), TOOLS, "now", reasoning=think, inside=True)
    for seed in range(5):
        state = compile_constraint(tokenizer, spec).start()
        ids = walk(state, tokenizer, random.Random(seed), endings=ENDINGS, patience=20)
        assert state.accepting
        parser = OutputParser("hermes", reasoning=think, inside=True)
        reply = collect([*parser.push(tokenizer.decode(ids)), *parser.finish()])
        assert [call.name for call in reply.calls] == ["now"]
        assert reply.text == ""


@pytest.mark.parametrize(
    ("name", "parameters", "reason"),
    [
        ("qwen3-coder", {"type": "object", "minProperties": 1}, "keyword 'minProperties'"),
        (
            "glm",
            {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}},
            "keyword 'pattern'",
        ),
        ("llama-pythonic", {"properties": {"a-b": {"type": "integer"}}}, "no name in Python"),
        ("gemma4", {"properties": {"a": {}}}, "values of type None"),
        ("gemma4", {"properties": {"a": {"type": "array"}}}, "values of type None"),
        ("glm", {"properties": {}, "required": ["x"]}, "'x' is required"),
        ("hermes", {"type": "object", "properties": {"a": {"not": {}}}}, "Unimplemented keys"),
        ("hermes", {"$ref": "http://example.com/a.json"}, "cannot be compiled"),
    ],
)
def test_what_a_format_cannot_keep_to_is_refused(
    vocabularies: dict[str, Tokenizer], name: str, parameters: dict[str, Any], reason: str
) -> None:
    tokenizer = vocabularies["text"]
    tools = [{"name": "f", "parameters": parameters}]
    with pytest.raises(InvalidArgumentError, match=reason):
        compile_constraint(tokenizer, forced_call(tokenizer, tool_format(name), tools))


@pytest.mark.parametrize(
    ("tools", "choice", "reason"),
    [
        ([], "required", "no tool is offered"),
        (TOOLS, "fly", "'fly' is not offered; the tools are get_weather, now, add"),
        ([{"name": "a b"}], "required", "its name must be of letters"),
        ([{"name": 'x"}'}], "required", "its name must be of letters"),
        ([3], "required", "tools.0.: an object"),
        ([{"name": "a"}, {"name": "a"}], "required", "stands twice"),
        ([{"name": "a", "parameters": 3}], "required", "must be a JSON schema"),
        ("[", "required", "no valid JSON"),
    ],
)
def test_wrong_tools(
    vocabularies: dict[str, Tokenizer], tools: Any, choice: str, reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        forced_call(vocabularies["text"], tool_format("hermes"), tools, choice)
