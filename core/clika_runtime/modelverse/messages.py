"""Messages whose content is a list of parts, as OpenAI's clients send them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from clika_runtime.errors import InvalidArgumentError, UnsupportedError, told
from clika_runtime.tokenizer import ChatTemplate

__all__ = ["readable"]

#: What begins the type of a part that is no text.
_MEDIA = ("image", "audio", "video", "file", "input_image", "input_audio", "input_file")


def readable(messages: Any, template: str | None) -> Any:
    """The messages as a chat template of a model that reads text takes them: where it writes a
    content as it is, the texts of a list of parts stand in a line each.

    `UnsupportedError` for parts that are no text.
    """
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except (ValueError, RecursionError):
            return messages  # the template says what is wrong with it
    if template is None or not isinstance(messages, Sequence):
        return messages
    return [_message(message, place, template) for place, message in enumerate(messages)]


def _message(message: Any, place: int, template: str) -> Any:
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, (list, tuple)):
        return message
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(kind, str) and kind.startswith(_MEDIA):
            raise UnsupportedError(
                f"chat: messages[{place}] has a part of type {told(kind)}; this model reads text "
                "alone"
            )
    if _reads_parts(template):
        return message
    return {**message, "content": "\n".join(_text(part, place) for part in content)}


def _text(part: Any, place: int) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"chat: messages[{place}]: the parts of a content are texts or "
            f'{{"type": "text", "text": ...}}, got {type(part).__name__} {told(part)}'
        )
    return text


@lru_cache(maxsize=64)
def _reads_parts(template: str) -> bool:
    return ChatTemplate(template).loops_over("content")
