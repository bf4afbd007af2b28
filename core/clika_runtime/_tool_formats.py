"""Registration data of the formats that no family's package brings; their code loads on first
need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .hooks import hookimpl
from .plugins import ToolParserSpec

_FORMATS = "clika_runtime.modelverse.tools.formats"
_PARSERS = {
    "hermes": "hermes:Hermes",
    "mistral": "mistral:Mistral",
    "glm": "glm:Glm",
    "harmony": "harmony:Harmony",
    "deepseek": "deepseek:DeepSeek",
    "kimi-k2": "kimi:KimiK2",
    "phi-4": "lists:Phi4",
    "granite": "lists:Granite",
    "json": "json_reply:JsonReply",
}


@hookimpl
def clika_register_tool_parsers(register: Callable[..., Any]) -> None:
    for name, target in _PARSERS.items():
        register(ToolParserSpec(name=name, contract=1, load=f"{_FORMATS}.{target}"))
