"""``list``: the catalog of installed model families."""

from __future__ import annotations

import argparse
from typing import Any

from ..catalog import catalog_document, catalog_text
from ..console import json_text, show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="show hidden families too")
    parser.add_argument(
        "--full", action="store_true", help="add descriptions and every key that a family claims"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="one document: per family the vendor, tasks, modalities, model types, verbs",
    )


def run(arguments: Any) -> int:
    given = vars(arguments)
    if given.get("json"):
        print(json_text(catalog_document()))
    else:
        show(catalog_text(hidden=bool(given.get("all")), full=bool(given.get("full"))))
    return 0
