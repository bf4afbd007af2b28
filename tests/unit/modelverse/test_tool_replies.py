"""Tools in conversations: offered by the template, forced by a grammar, read out of replies."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.auto import TextGenerationPipeline
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.tools import CallEnd, CallStart, TextDelta, Tool, ToolCall, collect
from tests.readme import example
from tests.unit.modelverse import models

MESSAGES = [{"role": "user", "content": "What is the weather?"}]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"enum": ["Oslo", "Paris"]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14},
                },
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]
SCHEMAS = {
    "weather": TOOLS[0]["function"]["parameters"],
    "now": {"type": "object", "properties": {}},
}
HERMES = (
    "{% if tools %}Tools:{% for t in tools %} {{ t.function.name }}{% endfor %}. Write "
    '<tool_call>\n{"name": ...}\n</tool_call>\n{% endif %}'
)
THINKING = models.TEMPLATE + "{# ends with </think> #}"


class Scripted:
    """A mask under which the reply is this text."""

    def __init__(self, model: GenerativeModel, text: str) -> None:
        self.tokens = model.tokenizer.encode(text, add_special_tokens=False)
        self.at = 0

    @property
    def finished(self) -> bool:
        return self.at == len(self.tokens)

    def mask(self) -> Any:
        import numpy as np

        words = np.zeros(32, np.uint32)[:9]
        token = self.tokens[self.at]
        words[token // 32] = 1 << (token % 32)
        return words

    def accept(self, token: int) -> None:
        assert token == self.tokens[self.at]
        self.at += 1


def loaded(folder: Path, template: str | None) -> GenerativeModel:
    models.write_model(folder, template is not None, max_position_embeddings=2048)
    if template is not None:
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text())
        path.write_text(json.dumps({**settings, "chat_template": template}))
    return load_generative(folder, max_sequences=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    return loaded(tmp_path_factory.mktemp("hermes"), HERMES + models.TEMPLATE)


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    return loaded(tmp_path_factory.mktemp("thinker"), HERMES + THINKING)


def scripted(
    model: GenerativeModel, text: str, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> Any:
    """A stream of a conversation whose reply is this text."""
    monkeypatch.setattr(model, "_restriction", lambda spec, mask: Scripted(model, text))
    return model.stream_chat(MESSAGES, temperature=0.0, stop_ids=(), **options)


# ---------------------------------------------------------------- forced
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"weather", "now"}),
        ({"name": "weather"}, {"weather"}),
        ({"type": "function", "function": {"name": "now"}}, {"now"}),
    ],
)
def test_a_forced_call_parses_back(
    model: GenerativeModel, choice: Any, names: set[str], seed: int
) -> None:
    """Weights are random: nothing but the grammar makes it a call."""
    pytest.importorskip("llguidance")
    options = {"temperature": 1.0, "seed": seed, "max_new_tokens": 1500}
    stream = model.stream_chat(MESSAGES, tools=TOOLS, tool_choice=choice, **options)
    assert list(stream) == []
    report = stream.report
    assert (report.text, report.reasoning, report.stop_reason) == ("", "", "stop")
    (call,) = report.tool_calls
    assert call.name in names
    assert call.parsed == json.loads(call.arguments)
    jsonschema.validate(call.parsed, SCHEMAS[call.name])


def test_several_forced_calls(model: GenerativeModel) -> None:
    (line,) = model.tokenizer.encode("\n", add_special_tokens=False)
    options = {"temperature": 1.0, "max_new_tokens": 400, "tools": TOOLS}
    options["logit_bias"] = {line: 9.0}  # what stands between two calls
    for seed in range(3):
        for several in (False, True):
            stream = model.stream_chat(
                MESSAGES, tool_choice="required", parallel_tool_calls=several, seed=seed, **options
            )
            "".join(stream)
            calls = stream.report.tool_calls
            assert (len(calls) > 1) == several
            for call in calls:
                jsonschema.validate(call.parsed, SCHEMAS[call.name])


def test_a_forced_call_beside_free_requests(model: GenerativeModel) -> None:
    pytest.importorskip("llguidance")
    free = {"temperature": 1.0, "seed": 3, "max_new_tokens": 40, "stop_ids": ()}
    alone = model.chat_batch([MESSAGES], **free)[0]
    beside = model.stream_chat(MESSAGES, **free)
    forced = model.chat_batch(
        [MESSAGES] * 2,
        tools=TOOLS,
        tool_choice={"name": "weather"},
        temperature=1.0,
        seed=1,
        max_new_tokens=400,
    )
    list(beside)
    assert beside.report.token_ids == alone.token_ids
    assert forced[0].tool_calls == forced[1].tool_calls
    assert forced[0].tool_calls[0].name == "weather"


def test_reasoning_that_the_prompt_opened_comes_before_a_forced_call(tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    template = HERMES + models.TEMPLATE.replace("assistant\\n", "assistant\\n<think>\\n")
    model = loaded(tmp_path, template + "{# </think> #}")
    stop = model.tokenizer.encode("</think>", add_special_tokens=False)
    options = {
        "tools": TOOLS,
        "tool_choice": {"name": "weather"},
        "temperature": 1.0,
        "max_new_tokens": 1500,
        # Random weights seldom end what is free.
        "logit_bias": dict.fromkeys(stop, 8.0),
    }
    ended = 0
    for seed in range(6):
        (report,) = model.chat_batch([MESSAGES], seed=seed, **options)
        if report.stop_reason == "stop":
            ended += 1
            assert report.text == ""
            assert [call.name for call in report.tool_calls] == ["weather"]
        else:
            assert "before its constraint is complete" in report.warnings[0]
            assert report.tool_calls == [] and report.reasoning
    assert ended


# ---------------------------------------------------------------- read
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>'
MEANT = [ToolCall("weather", '{"city": "Oslo", "days": 2}')]


def told_of(calls: list[ToolCall]) -> list[ToolCall]:
    """The calls without their ids, which are ours here."""
    assert all(re.fullmatch(r"call_\d+", call.id) for call in calls)
    assert len({call.id for call in calls}) == len(calls)
    return [ToolCall(call.name, call.arguments) for call in calls]


def test_text_and_calls_are_taken_apart(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = scripted(model, f"Let me see. {CALL}", monkeypatch, tools=TOOLS)
    pieces = list(stream)
    report = stream.report
    assert "".join(pieces) == report.text == "Let me see."
    assert (told_of(report.tool_calls), report.reasoning) == (MEANT, "")
    assert report.tool_calls[0].parsed == {"city": "Oslo", "days": 2}
    # Who asks later is told all of it.
    told = list(stream.events())
    assert collect(told).calls == report.tool_calls
    assert "".join(event.text for event in told if isinstance(event, TextDelta)) == report.text


def test_events_come_with_their_tokens(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = scripted(model, CALL, monkeypatch, tools=TOOLS)
    for event in stream.events():
        if isinstance(event, CallStart):
            break
    assert (event.index, event.name) == (0, "weather") and event.id.startswith("call_")
    assert 0 < stream._seen < len(CALL)
    stream.close()
    # The call was cut off: it is text again.
    assert stream.report.stop_reason == "cancelled"
    assert stream.report.tool_calls == []
    assert CALL.startswith(stream.report.text) and "weather" in stream.report.text


def test_asynchronous_pieces(model: GenerativeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = scripted(model, f"Hm. {CALL} Done.", monkeypatch, tools=TOOLS)

    async def read() -> list[str]:
        return [piece async for piece in stream]

    assert "".join(asyncio.run(read())) == stream.report.text
    assert told_of(stream.report.tool_calls) == MEANT


def test_every_call_has_an_id(model: GenerativeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    own = CALL.replace('"name"', '"id": "x7", "name"')
    behind = CALL.replace("}}", '}, "id": "y8"}')
    stream = scripted(model, f"{CALL}\n{own}\n{behind}", monkeypatch, tools=TOOLS)
    events = list(stream.events())
    begun = [event.id for event in events if isinstance(event, CallStart)]
    ended = [event.id for event in events if isinstance(event, CallEnd)]
    # One that the model writes behind the arguments comes after the call was told.
    assert begun == ended == [call.id for call in stream.report.tool_calls]
    assert begun[1] == "x7" and re.fullmatch(r"call_\d+", begun[0])
    assert len(set(begun)) == 3
    later = [*MESSAGES, {"role": "assistant", "content": "Hm."}, *MESSAGES]
    stream = model.stream_chat(later, tools=TOOLS, temperature=0.0, stop_ids=())
    list(stream)
    assert stream.report.tool_calls[0].id not in begun


def test_the_example_of_the_readme(
    model: GenerativeModel, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("llguidance")
    found: dict[str, Any] = {"model": model}
    exec(example("for event in model.stream_chat("), found)
    line = capsys.readouterr().out
    assert re.fullmatch(r'call_\d+ weather\n\{\s*"city"\s*:\s*"(Oslo|Rome)"\s*\}\n', line), line


def test_events_of_a_plain_stream(model: GenerativeModel) -> None:
    options: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.0, "seed": 3}
    with model.stream_chat(MESSAGES, **options) as stream:
        events = list(stream.events())
    assert collect(events).text == stream.report.text == model.chat(MESSAGES, **options)
    assert (stream.report.tool_calls, stream.report.reasoning) == ([], "")


def test_a_call_in_a_free_reply_is_text_without_tools(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in ({}, {"tools": TOOLS, "tool_choice": "none"}, {"tools": []}):
        stream = scripted(model, CALL, monkeypatch, **options)
        assert "".join(stream) == stream.report.text == CALL
        assert stream.report.tool_calls == []


def test_reasoning(thinker: GenerativeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"<think>\nRain?\n</think>\n\nLet me see. {CALL}"
    stream = scripted(thinker, text, monkeypatch, tools=TOOLS)
    assert "".join(stream) == "Let me see."
    assert (stream.report.reasoning, told_of(stream.report.tool_calls)) == ("Rain?", MEANT)
    split = scripted(thinker, "<think>a</think>b", monkeypatch, split_reasoning=True)
    assert ("".join(split), split.report.reasoning) == ("b", "a")
    whole = scripted(thinker, "<think>a</think>b", monkeypatch)
    assert ("".join(whole), whole.report.reasoning) == ("<think>a</think>b", "")


def test_a_pipeline_gives_the_whole_turn(
    thinker: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"<think>Rain?</think>Let me see. {CALL}"
    monkeypatch.setattr(thinker, "_restriction", lambda spec, mask: Scripted(thinker, text))
    pipe = TextGenerationPipeline(thinker)
    options: dict[str, Any] = {"tools": TOOLS, "temperature": 0.0, "stop_ids": ()}
    turns = pipe(MESSAGES, **options)[0]["generated_text"]
    function = {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}
    assert turns[-1] == {
        "role": "assistant",
        "content": "Let me see.",
        "reasoning_content": "Rain?",
        "tool_calls": [{"type": "function", "function": function}],
    }
    assert thinker.render(turns, tools=TOOLS)


def test_a_constrained_reply_is_not_taken_apart(thinker: GenerativeModel) -> None:
    pytest.importorskip("llguidance")
    constraint = {"choice": ["<think>a</think>b"]}
    (report,) = thinker.chat_batch([MESSAGES], constraint=constraint, split_reasoning=True)
    assert (report.text, report.reasoning) == ("<think>a</think>b", "")


def test_the_template_gets_the_tools(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = len(model.tokenizer.encode(model.render(MESSAGES), add_special_tokens=False))
    for options, more in (
        ({"tools": TOOLS}, True),
        ({"tools": json.dumps(TOOLS)}, True),
        ({"tools": [TOOLS[0]["function"], TOOLS[1]]}, True),
        ({"tools": [Tool("now")]}, True),
        ({"tools": TOOLS, "tool_choice": "none"}, False),
        ({"tool_choice": "auto"}, False),
    ):
        stream = scripted(model, "x", monkeypatch, **options)
        list(stream)
        assert (stream.report.prompt_tokens > plain) is more


# ---------------------------------------------------------------- refused
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": 3}, "a list of at most"),
        ({"tools": [{"name": ""}]}, r"tools\[0\]: the tool needs a name"),
        ({"tools": TOOLS, "tool_choice": "weather"}, "auto, none, required or"),
        ({"tools": TOOLS, "tool_choice": {"name": "fly"}}, "'fly' is not offered; the tools are"),
        ({"tools": TOOLS, "tool_choice": {"function": 3}}, "auto, none, required or"),
        ({"tool_choice": "required"}, "a call is forced, and no tool is offered"),
        ({"tools": TOOLS, "parallel_tool_calls": 1}, "parallel_tool_calls must be True or False"),
        ({"tools": [], "tool_choice": {"name": "now"}}, "'now' is not offered"),
        ({"tools": TOOLS, "constraint": {"regex": "a"}}, "exclude each other"),
        (
            {
                "tools": [{"name": "a b"}],
                "tool_choice": "required",
            },
            "its name must be of letters",
        ),
    ],
)
def test_wrong_tools(model: GenerativeModel, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        model.chat(MESSAGES, **options)
    assert model.engine.cache.free_sequences == 4


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (models.TEMPLATE, "no place for tools"),
        (models.TEMPLATE + "{# tools #}", "no place for tools"),
        (
            models.TEMPLATE + "{{ tools }}",
            r"none of the formats of family 'llama' \(llama-pythonic, llama3-json, hermes\)",
        ),
        (None, "they need a chat template"),
    ],
)
def test_templates_without_tools(tmp_path: Path, template: str | None, message: str) -> None:
    model = loaded(tmp_path, template)
    with pytest.raises(UnsupportedError, match=message):
        model.chat(MESSAGES, tools=TOOLS)


def test_smollm2_has_no_tools(smollm2_gguf: Path) -> None:
    model = load_generative(smollm2_gguf, max_seq=256)
    with pytest.raises(UnsupportedError, match="no place for tools"):
        model.chat(MESSAGES, tools=TOOLS)
