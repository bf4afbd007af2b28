"""The bytes of single tokens where a vocabulary's decoder works on one token at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

__all__ = ["piece_bytes"]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_Step = tuple[str, str]


def piece_bytes(decoder: Any) -> Callable[[str], bytes] | None:
    """From a token's surface to its bytes, for a decoder of the ``tokenizers`` library.

    Known are ``Replace`` of a text, ``Metaspace``, ``ByteFallback`` and ``Fuse``, alone or in a
    sequence; a ``Strip`` at the start of a text concerns no single token. None for every other
    decoder (``WordPiece``, ``BPEDecoder``, ``CTC``) and for none at all: there the text of a token
    depends on its neighbours.
    """
    if decoder is None:
        return None
    steps = _steps(json.loads(decoder.__getstate__()))
    if steps is None:
        return None

    def bytes_of(surface: str) -> bytes:
        for old, new in steps:
            if not old:
                found = _BYTE_TOKEN.fullmatch(surface)
                if found is not None:
                    return bytes([int(found.group(1), 16)])
            else:
                surface = surface.replace(old, new)
        return surface.encode(errors="replace")

    return bytes_of


def _steps(state: dict[str, Any]) -> list[_Step] | None:
    """What the decoder does to a surface: texts to replace; an empty one stands for the names of
    bytes."""
    kind = state.get("type")
    if kind == "Sequence":
        result: list[_Step] = []
        for item in state["decoders"]:
            found = _steps(item)
            if found is None:
                return None
            result += found
        return result
    if kind == "Metaspace":
        return [(state["replacement"], " ")]
    if kind == "Replace":
        old = state["pattern"].get("String")
        return [(old, state["content"])] if old else None
    if kind == "ByteFallback":
        return [("", "")]
    return [] if kind in ("Fuse", "Strip") else None
