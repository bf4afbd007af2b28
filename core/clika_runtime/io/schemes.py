"""Schemes of packed weights by their public names: ggml's block types as ``GGUF_NAME``, and the
forms of this runtime's own, which other published forms are converted to.

The numbers and sizes are those of ``plugin.h``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ggml_types import LOADABLE, TYPES, scheme_name

__all__ = ["OWN_SCHEMES", "SCHEMES", "SCHEMES_BY_NAME", "Scheme"]


@dataclass(frozen=True)
class Scheme:
    """``columns`` columns of a row take ``nbytes`` bytes."""

    name: str
    number: int
    columns: int
    nbytes: int


OWN_SCHEMES: tuple[Scheme, ...] = (
    Scheme("MXFP4_E8M0", 48, 32, 17),
    Scheme("NVFP4_E4M3", 49, 64, 40),
    Scheme("NF4", 50, 64, 36),
    Scheme("FP8_E4M3", 51, 32, 36),
    Scheme("FP8_E5M2", 52, 32, 36),
    Scheme("INT4_G32", 53, 32, 24),
    Scheme("INT4_G128", 54, 128, 72),
    Scheme("INT8_G32", 55, 32, 36),
)
SCHEMES: dict[int, Scheme] = {
    scheme.number: scheme
    for scheme in (
        *(
            Scheme(scheme_name(kind.scheme), kind.scheme, kind.block, kind.nbytes)
            for kind in TYPES.values()
            if kind.scheme and kind.id in LOADABLE
        ),
        *OWN_SCHEMES,
    )
}
SCHEMES_BY_NAME: dict[str, Scheme] = {scheme.name: scheme for scheme in SCHEMES.values()}
