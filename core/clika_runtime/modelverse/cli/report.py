"""The effective options of a command and where each came from, for ``--verbose``."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

__all__ = ["Row", "common_rows", "log_rows", "root_rows"]

_log = logging.getLogger("clika_runtime.modelverse")

#: (option, value, where the value came from)
Row = tuple[str, object, str]


def log_rows(rows: Iterable[Row]) -> None:
    """Writes the rows to the log, aligned."""
    rows = list(rows)
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, value, origin in rows:
        _log.debug("option %s = %s (%s)", name.ljust(width), value, origin)


def root_rows(
    parser: argparse.ArgumentParser,
    given: Mapping[str, Any],
    template: Collection[str],
    builtin: Mapping[str, Any],
) -> list[Row]:
    """A row for every option of a command without a model."""
    rows = common_rows(given, template)
    known = {name for name, _, _ in rows} | {"help", "template"}
    for action in parser._actions:
        name = _shown(action.dest)
        if action.option_strings and name not in known:
            default = builtin.get(action.dest, False if action.nargs == 0 else None)
            value = given.get(action.dest, default)
            rows.append((name, value, _origin(action.dest, given, template)))
    return rows


def _origin(name: str, given: Mapping[str, Any], template: Collection[str]) -> str:
    return "template" if name in template else "flag" if name in given else "default"


def common_rows(given: Mapping[str, Any], template: Collection[str] = ()) -> list[Row]:
    """Rows of the flags that every command has."""
    from ..sources.cache import is_offline

    rows: list[Row] = [
        (name, bool(given.get(name)), _origin(name, given, template))
        for name in ("verbose", "quiet")
    ]
    from_outside = {"no_color": _plain(), "offline": is_offline() or ""}
    for name, switch in from_outside.items():
        origin = _origin(name, given, template)
        if origin == "default" and switch:
            origin = f"environment, {switch}"
        rows.append((_shown(name), bool(given.get(name) or switch), origin))
    folder = given.get("cache_dir", "the user's cache folders")
    rows.append(("cache-dir", folder, _origin("cache_dir", given, template)))
    return rows


def _plain() -> str:
    """The variable that turns colour off."""
    if os.environ.get("NO_COLOR"):
        return "NO_COLOR"
    return "TERM=dumb" if os.environ.get("TERM") == "dumb" else ""


def _shown(name: str) -> str:
    return name.replace("_", "-")
