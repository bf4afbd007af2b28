"""Registration data of the gemma family; the model's code loads on first need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import FamilySpec, ToolParserSpec

FAMILY = FamilySpec(
    name="gemma",
    contract=1,
    vendor="Google",
    description="Gemma 1, Gemma 2 and the text models of Gemma 3",
    tasks=("text-generation",),
    modalities=("text -> text",),
    verbs=("prompt", "bench", "score", "embed", "similar"),
    model_types=("gemma", "gemma2", "gemma3", "gemma3_text"),
    architectures=(
        "GemmaForCausalLM",
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
    ),
    gguf_architectures=("gemma", "gemma2", "gemma3"),
    license_page="https://ai.google.dev/gemma/terms",
    tool_parsers=("gemma4", "functiongemma", "gemma-pythonic"),
    load="clika_family_gemma.gemma:FAMILY",
)


@hookimpl
def clika_register_families(register: Callable[..., Any]) -> None:
    register(FAMILY)


@hookimpl
def clika_register_tool_parsers(register: Callable[..., Any]) -> None:
    register(
        ToolParserSpec(
            name="functiongemma", contract=1, load="clika_family_gemma.tool_calls:FunctionGemma"
        )
    )
    register(ToolParserSpec(name="gemma4", contract=1, load="clika_family_gemma.tool_calls:Gemma4"))
    register(
        ToolParserSpec(
            name="gemma-pythonic", contract=1, load="clika_family_gemma.tool_calls:GemmaPythonic"
        )
    )
