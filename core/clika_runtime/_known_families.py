"""The model families of this project: distribution, model types, GGUF architectures and
architectures.

Written by scripts/generate_known_families.py; do not edit.
"""

from __future__ import annotations

__all__ = ["ROWS"]

Row = tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]

ROWS: dict[str, Row] = {
    "gemma": (
        "clika-family-gemma",
        ("gemma", "gemma2", "gemma3", "gemma3_text"),
        ("gemma", "gemma2", "gemma3"),
        (
            "GemmaForCausalLM",
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
            "Gemma3ForConditionalGeneration",
        ),
    ),
    "llama": (
        "clika-family-llama",
        ("llama",),
        ("llama",),
        ("LlamaForCausalLM",),
    ),
    "qwen": (
        "clika-family-qwen",
        ("qwen2", "qwen3"),
        ("qwen2", "qwen3"),
        ("Qwen2ForCausalLM", "Qwen3ForCausalLM"),
    ),
}
