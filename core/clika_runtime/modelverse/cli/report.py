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
    common = {name for name, _, _ in rows}
    for action in parser._actions:
        name = _shown(action.dest)
        if not action.option_strings or name in common or action.dest in ("help", "version"):
            continue
        if action.dest == "template":
            continue
        default = builtin.get(action.dest, False if action.nargs == 0 else None)
        origin = "template" if action.dest in template else "flag"
        if action.dest in given:
            rows.append((name, given[action.dest], origin))
        else:
            rows.append((name, default, "template" if action.dest in template else "default"))
    return rows


def common_rows(given: Mapping[str, Any], template: Collection[str] = ()) -> list[Row]:
    """Rows of the flags that every command has."""
    from ..sources.cache import is_offline

    def origin(name: str) -> str:
        return "template" if name in template else "flag"

    rows: list[Row] = []
    for name in ("verbose", "quiet"):
        if name in given or name in template:
            rows.append((name, bool(given.get(name)), origin(name)))
        else:
            rows.append((name, False, "default"))
    plain = _plain()
    if "no_color" in given:
        rows.append(("no-color", True, origin("no_color")))
    else:
        rows.append(("no-color", bool(plain), plain or "default"))
    if "offline" in given:
        rows.append(("offline", True, origin("offline")))
    else:
        switch = is_offline()
        rows.append(
            ("offline", switch is not None, f"environment, {switch}" if switch else "default")
        )
    if "cache_dir" in given:
        rows.append(("cache-dir", given["cache_dir"], origin("cache_dir")))
    else:
        rows.append(("cache-dir", "the user's cache folders", "default"))
    return rows


def _plain() -> str:
    if os.environ.get("NO_COLOR"):
        return "environment, NO_COLOR"
    return "environment, TERM=dumb" if os.environ.get("TERM") == "dumb" else ""


def _shown(name: str) -> str:
    return name.replace("_", "-")
