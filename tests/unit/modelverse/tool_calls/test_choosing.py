"""The format and the marks of reasoning that a checkpoint's chat template writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers

from clika_runtime import plugins
from clika_runtime.io import open_gguf
from clika_runtime.modelverse.tools import (
    REASONINGS,
    choose_format,
    choose_reasoning,
    shown_ids,
    tool_format,
)
from clika_runtime.tokenizer import Tokenizer
from tests.oracles.real_models import QWEN_CODER
from tests.unit.tokenizer.small import byte_level

#: What templates of the families' models hold, and the format to be chosen from the family's.
TEMPLATES = [
    ("qwen", '{{- \'\\n<tool_call>\\n{"name": "\' }}{{- tool_call.name }}', "hermes"),
    ("qwen", "{{- '<tool_call>\\n<function=' + call.name + '>\\n' }}", "qwen3-coder"),
    ("llama", '{{- \'{"name": "\' + call.name + \'", "parameters": \' }}', "llama3-json"),
    ("llama", "<|python_start|>[{{ call.name }}(", "llama-pythonic"),
    ("llama", "{{ message['content'] }}", None),
    ("gemma", "{{ '<|tool_call>call:' + function['name'] }}", "gemma4"),
    ("gemma", "{{ '<start_function_call>call:' + name }}", "functiongemma"),
    ("gemma", "<start_of_turn>{{ role }}", None),
]


@pytest.mark.parametrize(("family", "template", "expected"), TEMPLATES)
def test_the_first_format_that_the_template_writes(
    family: str, template: str, expected: str | None
) -> None:
    found = choose_format(template, plugins.families()[family].spec.tool_parsers)
    assert (found and found.name) == expected


def test_every_declared_format_is_there() -> None:
    for row in plugins.families().values():
        for name in row.spec.tool_parsers:
            assert tool_format(name).name == name
    for name in plugins.tool_parsers():
        for reasoning in tool_format(name).reasonings:
            assert reasoning in REASONINGS


def test_no_template_no_format() -> None:
    assert choose_format(None, ("hermes",)) is None
    assert choose_reasoning(None) is None


def test_the_template_of_qwen_coder() -> None:
    template = open_gguf(QWEN_CODER.path()).metadata["tokenizer.chat_template"]
    found = choose_format(template, plugins.families()["qwen"].spec.tool_parsers)
    assert found is tool_format("hermes")
    assert choose_reasoning(template, found) is None


def test_the_template_of_smollm2(smollm2_gguf: Path) -> None:
    template = open_gguf(smollm2_gguf).metadata["tokenizer.chat_template"]
    assert choose_format(template, plugins.families()["llama"].spec.tool_parsers) is None


@pytest.mark.parametrize(
    ("template", "format", "expected"),
    [
        ("{{ content.split('</think>')[-1] }}", "hermes", "think"),
        ("{{ content.split('</think>')[-1] }}", None, "think"),
        ("{{ '</think>' }}<response>", "granite", "granite"),
        ("Here is my thought process: ... Here is my response: ...", "granite", "granite-words"),
        ("{{ '[THINK]' + text + '[/THINK]' }}", "mistral", "mistral"),
        ("{{ '<|channel>thought' + text + '<channel|>' }}", "gemma4", "gemma"),
        ("◁think▷◁/think▷", "kimi-k2", "kimi"),
        ("plain", "hermes", None),
    ],
)
def test_reasoning(template: str, format: str | None, expected: str | None) -> None:
    found = choose_reasoning(template, tool_format(format) if format else None)
    assert (found and found.name) == expected


def test_a_prompt_may_open_the_reasoning() -> None:
    think = REASONINGS["think"]
    assert think.opened_by("<|im_start|>assistant\n<think>\n")
    assert not think.opened_by("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not think.opened_by("<|im_start|>assistant\n")


def test_special_tokens_to_show(tmp_path: Path) -> None:
    backend = byte_level()
    marks = ["<tool_call>", "</tool_call>", "<think>"]
    backend.add_special_tokens(
        [tokenizers.AddedToken(mark, special=True, normalized=False) for mark in marks]
    )
    backend.add_tokens([tokenizers.AddedToken("</think>", special=False, normalized=False)])
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(tmp_path)
    ids = shown_ids(tokenizer, tool_format("hermes"), REASONINGS["think"])
    assert ids == {tokenizer.token_to_id(mark) for mark in marks}
    text = "<think>a</think><tool_call>b</tool_call><|im_end|>"
    stream = tokenizer.streaming_decoder(keep=ids)
    pieces = [stream.push(index) for index in tokenizer.encode(text)]
    assert "".join(pieces) + stream.finish() == text.removesuffix("<|im_end|>")
