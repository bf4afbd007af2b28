"""First-party plugins by name: what a refusal can tell people to install.

The tables are only read when something is missing or two plugins claim one name; no plugin is run
for them. That of the families is written from their declarations by
``scripts/generate_known_families.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from ._known_families import ROWS

__all__ = ["BACKENDS", "EXTRAS", "FAMILIES", "KnownFamily", "distributions", "find_family"]


class KnownFamily(NamedTuple):
    """A family of this project: the distribution that carries it and the checkpoints it
    recognizes."""

    distribution: str
    model_types: tuple[str, ...] = ()
    gguf_architectures: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()


#: Device kind -> distribution.
BACKENDS: dict[str, str] = {"cpu": "clika-runtime-cpu", "cuda": "clika-runtime-cuda"}

#: Device kind -> what to install where the distribution alone is not enough.
EXTRAS: dict[str, str] = {"cuda": "'clika-runtime[cuda]'"}

#: Family -> where it is and what it recognizes.
FAMILIES: dict[str, KnownFamily] = {name: KnownFamily(*row) for name, row in ROWS.items()}


def distributions() -> frozenset[str]:
    """The names of every first-party distribution that carries plugins."""
    return frozenset(BACKENDS.values()) | {family.distribution for family in FAMILIES.values()}


def find_family(
    name: str = "", model_type: str = "", architecture: str = "", gguf_architecture: str = ""
) -> str | None:
    """The key of the known family of that name, architecture, model type or GGUF architecture."""
    if name in FAMILIES:
        return name
    for key, family in FAMILIES.items():
        if (
            architecture in family.architectures
            or model_type in family.model_types
            or gguf_architecture in family.gguf_architectures
        ):
            return key
    return None
