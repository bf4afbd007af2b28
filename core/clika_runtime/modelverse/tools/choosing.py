"""Formats by name, and the one that a checkpoint's chat template writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from clika_runtime import plugins
from clika_runtime.errors import InvalidArgumentError

from .format import ToolFormat
from .reasoning import REASONINGS, Reasoning

if TYPE_CHECKING:
    from clika_runtime.tokenizer import Tokenizer

__all__ = ["choose_format", "choose_reasoning", "shown_ids", "tool_format"]


def tool_format(name: str) -> type[ToolFormat]:
    """The format of a name, its code loaded on first use. `InvalidArgumentError` lists the names;
    `InternalError` names the plugin whose code is none."""
    rows = plugins.tool_parsers()
    if name not in rows:
        raise InvalidArgumentError(
            f"no tool parser {name!r:.80} is installed; there are {', '.join(sorted(rows))}"
        )
    found = plugins.load(rows[name])
    if not (isinstance(found, type) and issubclass(found, ToolFormat)):
        from clika_runtime.errors import InternalError

        raise InternalError(
            f"{rows[name].entry.label}: {rows[name].spec.load} is no subclass of ToolFormat",
            "PLUGIN_FAILED",
        )
    return found


def choose_format(template: str | None, declared: Iterable[str]) -> type[ToolFormat] | None:
    """Of the formats that a family declares, the first that the chat template writes; None where
    it writes none of them."""
    for name in declared if template else ():
        found = tool_format(name)
        if found.written_by(template or ""):
            return found
    return None


def choose_reasoning(
    template: str | None, format: type[ToolFormat] | None = None
) -> Reasoning | None:
    """The marks of reasoning that a chat template writes, of those of the format first."""
    own = format.reasonings if format is not None else ()
    for name in (*own, *REASONINGS) if template else ():
        found = REASONINGS[name]
        if found.written_by(template or ""):
            return found
    return None


def shown_ids(
    tokenizer: Tokenizer, format: type[ToolFormat] | None, reasoning: Reasoning | None
) -> frozenset[int]:
    """The special tokens that a parser has to see: give them to
    ``Tokenizer.streaming_decoder(keep=...)``."""
    markers = format.markers if format is not None else ()
    if reasoning is not None:
        markers = (*markers, *reasoning.markers)
    ids = (tokenizer.token_to_id(marker) for marker in markers)
    return tokenizer.special_ids.intersection(index for index in ids if index is not None)
