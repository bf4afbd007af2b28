"""Registration data of the qwen family; the model's code loads on first need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import FamilySpec, ToolParserSpec

FAMILY = FamilySpec(
    name="qwen",
    contract=1,
    vendor="Alibaba Cloud",
    description="Qwen2, Qwen2.5 and the dense Qwen3",
    tasks=("text-generation",),
    modalities=("text -> text",),
    verbs=("prompt", "bench", "score", "embed", "similar"),
    model_types=("qwen2", "qwen3"),
    architectures=("Qwen2ForCausalLM", "Qwen3ForCausalLM"),
    gguf_architectures=("qwen2", "qwen3"),
    license_page="https://huggingface.co/Qwen",
    tool_parsers=("qwen3-coder", "hermes"),
    load="clika_family_qwen.qwen:FAMILY",
)


@hookimpl
def clika_register_families(register: Callable[..., Any]) -> None:
    register(FAMILY)


@hookimpl
def clika_register_tool_parsers(register: Callable[..., Any]) -> None:
    register(
        ToolParserSpec(
            name="qwen3-coder", contract=1, load="clika_family_qwen.tool_calls:QwenCoder"
        )
    )
