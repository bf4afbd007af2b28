"""Registration data of the llama family; the model's code loads on first need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import FamilySpec, ToolParserSpec

FAMILY = FamilySpec(
    name="llama",
    contract=1,
    vendor="Meta",
    description="Llama 1 to 3, SmolLM2 and other decoders of the same shape",
    tasks=("text-generation",),
    modalities=("text -> text",),
    verbs=("prompt", "bench", "score", "embed", "similar"),
    model_types=("llama",),
    architectures=("LlamaForCausalLM",),
    gguf_architectures=("llama",),
    license_page="https://www.llama.com/license/",
    tool_parsers=("llama-pythonic", "llama3-json", "hermes"),
    load="clika_family_llama.llama:FAMILY",
)


@hookimpl
def clika_register_families(register: Callable[..., Any]) -> None:
    register(FAMILY)


@hookimpl
def clika_register_tool_parsers(register: Callable[..., Any]) -> None:
    register(
        ToolParserSpec(
            name="llama3-json", contract=1, load="clika_family_llama.tool_calls:LlamaJson"
        )
    )
    register(
        ToolParserSpec(
            name="llama-pythonic", contract=1, load="clika_family_llama.tool_calls:LlamaPythonic"
        )
    )
