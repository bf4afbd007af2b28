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
BACKENDS: dict[str, str] = {
    "cpu": "clika-runtime-cpu",
    "cuda": "clika-runtime-cuda",
    "vulkan": "clika-runtime-vulkan",
    "metal": "clika-runtime-metal",
}

FAMILIES: dict[str, KnownFamily] = {
    "bert": KnownFamily("clika-family-bert", ("bert",), ("bert",)),
    "clip": KnownFamily("clika-family-clip", ("clip",)),
    "depth-anything": KnownFamily("clika-family-depth-anything", ("depth_anything",)),
    "detr": KnownFamily("clika-family-detr", ("detr", "conditional_detr", "table-transformer")),
    "dinov2": KnownFamily("clika-family-dinov2", ("dinov2",)),
    "gemma": KnownFamily(
        "clika-family-gemma",
        ("gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma4"),
        ("gemma", "gemma2", "gemma3", "gemma3n", "gemma4"),
    ),
    "glm": KnownFamily("clika-family-glm", ("glm", "glm4", "glm4_moe"), ("glm4", "glm4moe")),
    "gpt-oss": KnownFamily("clika-family-gpt-oss", ("gpt_oss",), ("gpt-oss",)),
    "kimi-linear": KnownFamily("clika-family-kimi-linear", ("kimi_linear",)),
    "llama": KnownFamily("clika-family-llama", ("llama",), ("llama",)),
    "m2m-100": KnownFamily("clika-family-m2m-100", ("m2m_100",)),
    "mamba2": KnownFamily("clika-family-mamba2", ("mamba2",), ("mamba2",)),
    "mistral": KnownFamily("clika-family-mistral", ("mistral", "ministral", "mistral3")),
    "owlvit": KnownFamily("clika-family-owlvit", ("owlvit", "owlv2")),
    "phi": KnownFamily("clika-family-phi", ("phi", "phi3"), ("phi2", "phi3")),
    "qwen": KnownFamily(
        "clika-family-qwen",
        ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
        ("qwen2", "qwen2moe", "qwen3", "qwen3moe"),
    ),
    "qwen-vl": KnownFamily(
        "clika-family-qwen-vl",
        ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"),
        ("qwen2vl", "qwen3vl", "qwen3vlmoe"),
    ),
    "qwen3-5": KnownFamily("clika-family-qwen3-5", ("qwen3_5",), ("qwen35",)),
    "qwen3-5-moe": KnownFamily("clika-family-qwen3-5-moe", ("qwen3_5_moe",), ("qwen35moe",)),
    "qwen3-next": KnownFamily("clika-family-qwen3-next", ("qwen3_next",), ("qwen3next",)),
    "siglip": KnownFamily("clika-family-siglip", ("siglip", "siglip2")),
    "whisper": KnownFamily("clika-family-whisper", ("whisper",), ("whisper",)),
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
