"""Registration data of the format; its code loads on first need."""

from __future__ import annotations

from collections.abc import Callable

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import ToolParserSpec


@hookimpl
def clika_register_tool_parsers(register: Callable[..., None]) -> None:
    register(ToolParserSpec(name="pebble", contract=1, load="clika_format_pebble.pebble:Pebble"))
