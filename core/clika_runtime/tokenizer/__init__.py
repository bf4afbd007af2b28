"""Tokenizers and chat templates: text to ids and back, conversations to prompts."""

from __future__ import annotations

from .chat_template import ChatTemplate, ChatTemplateInputs
from .streaming import StreamingDecoder
from .tokenizer import Encoded, EncodeOptions, Token, Tokenizer

__all__ = [
    "ChatTemplate",
    "ChatTemplateInputs",
    "EncodeOptions",
    "Encoded",
    "StreamingDecoder",
    "Token",
    "Tokenizer",
]
