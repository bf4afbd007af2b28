"""Messages whose content is a list of parts, as OpenAI's clients send them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from clika_runtime.errors import InvalidArgumentError, UnsupportedError, told
from clika_runtime.tokenizer import ChatTemplate

__all__ = ["readable"]

_SHAPE = 'chat: messages is a list of {"role": ..., "content": ...}'
#: What begins the type of a part that is no text.
_MEDIA = ("image", "audio", "video", "file", "input_image", "input_audio", "input_file")


def readable(messages: Any, template: str | None) -> Any:
    """The messages as a chat template of a model that reads text takes them: where it writes a
    content as it is, the texts of a list of parts stand in a line each.

    `InvalidArgumentError` for what is no conversation, `UnsupportedError` for parts that are no
    text.
    """
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except (ValueError, RecursionError):
            raise InvalidArgumentError(
                f"{_SHAPE}, got the text {told(messages)}; a text alone is written as "
                '[{"role": "user", "content": TEXT}]'
            ) from None
    if template is None:
        return messages
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise InvalidArgumentError(f"{_SHAPE}, got {type(messages).__name__} {told(messages)}")
    if not messages:
        raise InvalidArgumentError(f"{_SHAPE}, got an empty one")
    return [_message(message, place, template) for place, message in enumerate(messages)]


def _message(message: Any, place: int, template: str) -> Any:
    if not isinstance(message, Mapping):
        raise InvalidArgumentError(
            f"{_SHAPE}, messages[{place}] is {type(message).__name__} {told(message)}"
        )
    content = message.get("content")
    if content is None and not set(message) - {"role", "name", "content"}:
        raise InvalidArgumentError(f"chat: messages[{place}] has no content, got {told(message)}")
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
