"""First-party plugins by name: what a refusal can tell people to install.

The tables are only read when something is missing or two plugins claim one name; no plugin is run
for them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BACKENDS", "FAMILIES", "KnownFamily", "distributions", "find_family"]


@dataclass(frozen=True, slots=True)
class KnownFamily:
    """A family of this project: the distribution that carries it and the checkpoints it
    recognizes."""

    distribution: str
    model_types: tuple[str, ...]
    gguf_architectures: tuple[str, ...] = ()


#: Device kind -> distribution.
BACKENDS: dict[str, str] = {"cpu": "clika-runtime-cpu"}

FAMILIES: dict[str, KnownFamily] = {
    "gemma": KnownFamily(
        "clika-family-gemma",
        ("gemma", "gemma2", "gemma3", "gemma3_text"),
        ("gemma", "gemma2", "gemma3"),
    ),
    "llama": KnownFamily("clika-family-llama", ("llama",), ("llama",)),
    "qwen": KnownFamily("clika-family-qwen", ("qwen2", "qwen3"), ("qwen2", "qwen3")),
}


def distributions() -> frozenset[str]:
    """The names of every first-party distribution that carries plugins."""
    return frozenset(BACKENDS.values()) | {family.distribution for family in FAMILIES.values()}


def find_family(name: str = "", model_type: str = "", gguf_architecture: str = "") -> str | None:
    """The key of the known family of that name, model type or GGUF architecture."""
    if name in FAMILIES:
        return name
    for key, family in FAMILIES.items():
        if model_type and model_type in family.model_types:
            return key
        if gguf_architecture and gguf_architecture in family.gguf_architectures:
            return key
    return None
