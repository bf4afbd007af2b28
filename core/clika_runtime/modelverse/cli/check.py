"""``check SOURCE``: what the model needs on each device, and whether it fits.

No weights are read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..._version import __version__
from ...errors import InvalidArgumentError
from ..console import json_text, show
from ..knobs import COMPUTE_DTYPES
from . import EXIT_OK, loading
from .arguments import DEFAULT_WINDOW, MAX_SEQ, UsageError, number
from .tables import csv_text, table

if TYPE_CHECKING:
    from ..requirements import Budget

#: The version of the JSON document (``docs/schemas/check.json``).
SCHEMA = 1
_HEAD = (
    "device",
    "weights",
    "cache/token",
    "cache dtype",
    "context",
    "activations",
    "total",
    "memory",
    "fits",
    "largest",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="the model: a repository, a directory, a file, a package"
    )
    parser.add_argument(
        "--weights", metavar="SEL", help="the weight option: a tag, a glob, a file, latest"
    )
    parser.add_argument(
        "--max-seq",
        type=number(int, 1),
        metavar="N",
        help=f"the sequence length judged (default: {DEFAULT_WINDOW})",
    )
    parser.add_argument(
        "--dtype",
        choices=COMPUTE_DTYPES,
        help="dtype of activations, and of the cache without --kv-quant (default: the "
        "checkpoint's)",
    )
    loading.add_mode(parser)
    loading.add_cache_format(parser)
    loading.add_adapters(parser)
    parser.add_argument(
        "--assume-device",
        action="append",
        metavar="NAME=SIZE",
        help="judge a device that is not here too, such as phone=8G; may be given several times",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the verdicts as a JSON document")
    form.add_argument("--csv", action="store_true", help="the table as CSV, every term a column")


def run(arguments: Any) -> int:
    given = vars(arguments)
    from ..fit import check, parse_place
    from ..loader import LoadOptions

    assumed = given.get("assume_device", [])
    for text in assumed:
        try:
            parse_place(text)
        except InvalidArgumentError as error:
            raise UsageError(f"argument --assume-device: {error}") from error
    try:
        budgets = check(
            given["source"],
            max_seq=given.get("max_seq", MAX_SEQ),
            assume=assumed,
            options=LoadOptions(
                dtype=given.get("dtype"),
                mode=loading.mode_of(given),
                kv_dtype=loading.cache_format(given),
                **loading.adapter_options(given),
            ),
            weights=given.get("weights"),
            offline=bool(given.get("offline")),
            cache_dir=given.get("cache_dir"),
        )
    except InvalidArgumentError as error:
        if error.code_name == "INVALID_ARGUMENT":  # no source, or none of its weight options
            raise UsageError(str(error)) from error
        raise
    loading.warn_of_window(given, budgets[0].window)
    if given.get("json"):
        document = {
            "schema": SCHEMA,
            "runtime": __version__,
            "source": given["source"],
            "devices": [budget.terms() for budget in budgets],
        }
        print(json_text(document))
    elif given.get("csv"):
        sys.stdout.write(csv_text(budgets[0].terms(), map(_cells, budgets)))
    else:
        show(text_of(budgets))
    return EXIT_OK


def _cells(budget: Budget) -> list[str]:
    words = {True: "yes", False: "no", None: "-"}
    return [
        words[value] if value is None or isinstance(value, bool) else str(value)
        for value in budget.terms().values()
    ]


def text_of(budgets: Sequence[Budget]) -> str:
    """The verdicts for people: one row per device."""
    from ..sources import human_size

    rows = []
    for item in budgets:
        unknown = item.memory is None
        rows.append(
            (
                item.device,
                human_size(item.weights),
                human_size(item.cache_per_token),
                item.cache_dtype,
                str(item.window),
                human_size(item.activations + item.workspace),
                human_size(item.total),
                "-" if item.memory is None else human_size(item.memory),
                "-" if unknown else "yes" if item.fits else "no",
                str(item.largest_window) if item.largest_window else "-" if unknown else "none",
            )
        )
    return table(_HEAD, rows)
