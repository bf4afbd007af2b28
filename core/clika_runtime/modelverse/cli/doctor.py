"""``doctor``: what is installed, what loads, what is missing, and the line that mends it."""

from __future__ import annotations

import argparse
from typing import Any

from ..._version import __version__
from ..console import json_text, show
from . import EXIT_FAILURE, EXIT_OK
from .arguments import PROGRAM

#: The version of the JSON document (``docs/schemas/doctor.json``).
SCHEMA = 1
_MARKS = {"ok": "ok", "absent": "-", "broken": "BROKEN"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the findings as a JSON document")


def run(arguments: Any) -> int:
    from .findings import examine

    findings = examine(vars(arguments).get("cache_dir"))
    broken = [item for item in findings if item.status == "broken"]
    if vars(arguments).get("json"):
        document = {
            "schema": SCHEMA,
            "runtime": __version__,
            "healthy": not broken,
            "findings": [item.document() for item in findings],
        }
        print(json_text(document))
    else:
        area = ""
        for item in findings:
            if item.area != area:
                area = item.area
                show(f"{area}:")
            show(f"  {_MARKS[item.status]:6s}  {item.name}: {item.detail}")
            if item.fix and item.status != "ok":
                what = "mend" if item.status == "broken" else "get"
                show(f"          {what} it with: {item.fix}")
        count = len(broken)
        show(
            "everything that is installed works"
            if not count
            else f"{count} thing{'s are' if count > 1 else ' is'} broken; see BROKEN above"
        )
        if not broken:
            show(
                f"what runs here: {PROGRAM} list, {PROGRAM} devices; "
                f"a reply: {PROGRAM} SOURCE prompt MESSAGE"
            )
    return EXIT_FAILURE if broken else EXIT_OK
