"""Chat templates render as transformers renders them: templates of the model packages, and of the
kinds that families use, over roles, tools, documents, system prompts, reasoning and dates."""

from __future__ import annotations

import datetime
import itertools
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.io import open_gguf
from clika_runtime.tokenizer import ChatTemplate, ChatTemplateInputs, Tokenizer
from tests.oracles.real_models import QWEN_CODER
from tests.unit.tokenizer.chat_templates import FAMILIES
from tests.unit.tokenizer.small import byte_level, write_gguf

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 58)

SYSTEMS: list[list[dict[str, Any]]] = [
    [],
    [{"role": "system", "content": 'Be <b>brief</b> & "kind" {{ 7 }}.  \n'}],
    [{"role": "system", "content": [{"type": "text", "text": "In parts."}]}],
    [{"role": "developer", "content": "Für Entwickler 😀"}],
]
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "abc123456",
            "type": "function",
            "function": {"name": "find", "arguments": {"query": "né <1>", "top": 3}},
        }
    ],
}
TWO_CALLS = {
    **CALL,
    "content": "Both.",
    "tool_calls": [
        CALL["tool_calls"][0],  # type: ignore[index]
        {
            "id": "xyz123456",
            "type": "function",
            "function": {"name": "now", "arguments": "{}"},
        },
    ],
}
RESULT = {"role": "tool", "name": "find", "tool_call_id": "abc123456", "content": '["a", 1]'}
USER = {"role": "user", "content": " What is 1 < 2?\n"}
TURNS: list[list[dict[str, Any]]] = [
    [USER],
    [USER, {"role": "assistant", "content": " Yes.\n\n"}, {"role": "user", "content": "日本語?"}],
    [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nTrue"}],
    [USER, {"role": "assistant", "content": "Four.", "reasoning_content": "2 + 2\n"}],
    [USER, {"role": "assistant", "content": "Four.", "reasoning": "2 + 2"}, USER],
    [USER, {**CALL, "thinking": "I look."}, RESULT],
    [USER, CALL, RESULT, {"role": "assistant", "content": "Found."}, USER],
    [USER, TWO_CALLS, RESULT, {**RESULT, "name": "now", "content": "12:00"}],
    [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "image"}]}],
    [USER, USER],
    [{"role": "assistant", "content": "I begin."}, USER],
    [{"role": "stranger", "content": "?"}],
    [RESULT],
]
FIND = {
    "type": "function",
    "function": {
        "name": "find",
        "description": 'Finds <things> & "more" für alle.',
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What?"},
                "top": {"type": "integer", "default": 5},
                "kinds": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            },
            "required": ["query"],
        },
    },
}
NOW = {
    "type": "function",
    "function": {"name": "now", "description": "The time.", "parameters": {}},
}
TOOLS: list[Any] = [None, [FIND], [FIND, NOW]]
DOCUMENTS: list[Any] = [None, [{"title": "T <1>", "text": 'Text & "more"'}, {"text": "2\n"}]]
EXTRAS: list[dict[str, Any]] = [
    {},
    {"enable_thinking": False, "reasoning_effort": "high", "date_string": "1 Jan 2000"},
    {"enable_thinking": True, "tools_in_user_message": False, "controls": {"length": "long"}},
]


class _Clock(datetime.datetime):
    """A clock that stands."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return MOMENT


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> PreTrainedTokenizerFast:
    monkeypatch.setattr(chat_template_utils, "datetime", _Clock)
    return PreTrainedTokenizerFast(tokenizer_object=byte_level(), bos_token="<s>", eos_token="</s>")


compiled = lru_cache(maxsize=None)(ChatTemplate)


def compare(
    oracle: PreTrainedTokenizerFast, source: str, messages: list[Any], **options: Any
) -> bool | None:
    """Whether both render the same; None where both refuse."""
    extra = options.pop("extra", {})
    try:
        expected = oracle.apply_chat_template(
            messages, chat_template=source, tokenize=False, **options, **extra
        )
    except Exception:  # a template that does not fit the conversation
        expected = None
    try:
        found = compiled(source).render(
            messages,
            special_tokens=SPECIAL,
            extra=extra,
            now_epoch_seconds=MOMENT.timestamp(),
            **options,
        )
    except InvalidArgumentError:
        found = None
    assert found == expected, (messages, options, extra)
    return None if expected is None else True


def matrix(oracle: PreTrainedTokenizerFast, source: str) -> int:
    rendered = 0
    for system, turns in itertools.product(SYSTEMS, TURNS):
        for tools, documents, extra in itertools.product(TOOLS, DOCUMENTS, EXTRAS):
            for prompt in (True, False):
                options = {"tools": tools, "documents": documents, "add_generation_prompt": prompt}
                same = compare(oracle, source, system + turns, extra=extra, **options)
                rendered += same is True
    return rendered


@pytest.mark.parametrize("name", FAMILIES)
def test_templates_of_families(oracle: PreTrainedTokenizerFast, name: str) -> None:
    assert matrix(oracle, FAMILIES[name]) >= 200


def test_template_of_smollm2(oracle: PreTrainedTokenizerFast, smollm2_gguf: Path) -> None:
    source = open_gguf(smollm2_gguf).metadata["tokenizer.chat_template"]
    assert matrix(oracle, source) >= 500


def test_template_of_qwen_coder(oracle: PreTrainedTokenizerFast) -> None:
    source = open_gguf(QWEN_CODER.path()).metadata["tokenizer.chat_template"]
    assert matrix(oracle, source) >= 500


LAST = [
    "The answer",
    "The answer is  ",
    "  indented\n",
    "",
    [{"type": "text", "text": "Part one"}, {"type": "text", "text": "and two "}],
]


@pytest.mark.parametrize("name", [*FAMILIES, "smollm2"])
def test_continuing_the_final_message(
    oracle: PreTrainedTokenizerFast, smollm2_gguf: Path, name: str
) -> None:
    metadata = open_gguf(smollm2_gguf).metadata
    source = FAMILIES.get(name, metadata["tokenizer.chat_template"])
    same = 0
    for content in LAST:
        messages = [USER, {"role": "assistant", "content": content}]
        options = {"continue_final_message": True, "add_generation_prompt": False}
        same += compare(oracle, source, messages, **options) is True
    assert same >= 1


def test_what_cannot_be_continued() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.role }}{{ m.content[:2] }}{% endfor %}")
    for messages in ([], [{"role": "user"}], [{"role": "user", "content": [{"type": "image"}]}]):
        with pytest.raises(InvalidArgumentError, match="needs a last message with text"):
            template.render(messages, continue_final_message=True)
    with pytest.raises(InvalidArgumentError, match="leaves out the end of the last message"):
        template.render([{"role": "user", "content": "long"}], continue_final_message=True)


def test_the_tokenizers_surface(tmp_path: Path) -> None:
    """Documents, tools, a template of the caller's and the clock reach the template."""
    source = "{{ documents }}{{ tools }}{{ strftime_now('%Y') }}{{ messages[-1].content }}|end"
    tokenizer = Tokenizer.from_gguf(write_gguf(tmp_path / "a.gguf", chat_template=source))
    messages = [{"role": "user", "content": "Hi"}]
    clock = {"now_epoch_seconds": MOMENT.timestamp()}
    assert tokenizer.apply_chat_template(messages, **clock) == "NoneNone2024Hi|end"
    documents, tools = [{"text": "d"}], [{"name": "t"}]
    assert (
        tokenizer.apply_chat_template(messages, documents=documents, tools=tools, **clock)
        == "[{'text': 'd'}][{'name': 't'}]2024Hi|end"
    )
    inputs = ChatTemplateInputs(messages, tools=tools, continue_final_message=True)
    assert tokenizer.apply_chat_template(inputs).endswith("Hi")
    assert tokenizer.apply_chat_template(messages, chat_template="{{ bos_token }}!") == (
        "<|im_start|>!"
    )
    assert tokenizer.apply_chat_template(messages, **clock) == "NoneNone2024Hi|end"


def test_a_template_for_tools_of_its_own(tmp_path: Path) -> None:
    """Configurations name several: one of them is for tools."""
    byte_level().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        '{"chat_template": [{"name": "default", "template": "plain"}, '
        '{"name": "tool_use", "template": "{{ tools|length }} tools"}]}'
    )
    path = write_gguf(
        tmp_path / "a.gguf", chat_template="plain", tool_template="{{ tools|length }} tools"
    )
    messages = [{"role": "user", "content": "Hi"}]
    for tokenizer in (Tokenizer.from_file(tmp_path), Tokenizer.from_gguf(path)):
        assert tokenizer.apply_chat_template(messages) == "plain"
        assert tokenizer.apply_chat_template(messages, tools=[FIND]) == "1 tools"
        assert tokenizer.apply_chat_template(ChatTemplateInputs(messages, tools=[])) == "0 tools"
