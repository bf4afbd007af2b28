"""``SOURCE bench``: the speed of a model on this machine, a CSV row for each cell and number of
sessions."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import asdict
from typing import Any

from .. import catalog
from ..bench_rows import COLUMNS, Row
from ..sources import ResolvedSource, human_size
from . import EXIT_FAILURE, EXIT_OK, loading
from .arguments import Parser, definitions, number
from .files import check_report, report_files, write_text
from .profile import StepProfile
from .report import common_rows, log_rows
from .stages import Stages, peak_memory
from .tables import csv_line

_log = logging.getLogger("clika_runtime.modelverse")
_CELLS = ((128, 128), (2048, 128), (128, 1024))
_LADDER = (1, 4, 8)
_MOST = 1 << 20  # tokens of a cell; sessions, passes
# Flags of models that are made otherwise: metavar, help, and why a text model refuses them.
_REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "--profile-pipeline": (
        {"action": "store_true"},
        "a profile of a pipeline's nodes (models that run as a pipeline)",
        "the model runs as steps of one engine, not as a pipeline with nodes; --profile has the "
        "operators of the steps",
    ),
    "--audio-seconds": (
        {"metavar": "LIST"},
        "lengths of audio, in the place of cells (speech-to-text models)",
        "the model reads text; its sweep is --cells",
    ),
}
#: The version of the JSON report.
SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shape = parser.add_argument_group("the sweep")
    shape.add_argument(
        "--cells",
        type=_cells,
        metavar="LIST",
        help="prompt and reply lengths, such as 512:256,4096:64 "
        "(default: 128:128,2048:128,128:1024)",
    )
    shape.add_argument("--isl", type=number(int, 1, _MOST), metavar="N", help="one cell's prompt")
    shape.add_argument("--osl", type=number(int, 1, _MOST), metavar="N", help="one cell's reply")
    shape.add_argument(
        "--concurrency",
        type=_ladder,
        metavar="LIST",
        help="sessions at once, such as 1,4,16 (default: 1,4,8)",
    )
    shape.add_argument(
        "--shared-prefix",
        type=number(int, 0, _MOST),
        metavar="N",
        help="prompt tokens that all sessions share (default: 0)",
    )
    prompts = shape.add_mutually_exclusive_group()
    prompts.add_argument(
        "--unique-prompts", action="store_true", help="fresh prompts in every pass (the default)"
    )
    prompts.add_argument(
        "--repeat-prompts", action="store_true", help="the same prompts in every pass"
    )
    shape.add_argument(
        "--no-prefix-cache",
        dest="prefix_cache",
        action="store_false",
        help="keep no texts of sessions that are done, and share none",
    )
    shape.add_argument(
        "--warmup",
        type=number(int, 0, _MOST),
        metavar="N",
        help="untimed passes before the timed ones (default: 2)",
    )
    shape.add_argument(
        "--iters", type=number(int, 1, _MOST), metavar="N", help="timed passes (default: 1)"
    )
    shape.add_argument(
        "--step-token-budget",
        type=number(int, 1, _MOST),
        metavar="N",
        help="tokens of a step at most (default: the prefill chunk)",
    )
    shape.add_argument(
        "--output", metavar="PREFIX", help="also write PREFIX.csv and PREFIX.json, row by row"
    )
    shape.add_argument(
        "--profile",
        action="store_true",
        help="also a profile of the operators on standard error, from a pass more of each cell",
    )
    for flag, (metavar, text, _) in _REFUSED.items():
        shape.add_argument(flag, **metavar, help=text)
    loading.add_arguments(parser, window="the longest cell")
    parser.epilog = definitions("columns of the table, times in milliseconds", COLUMNS)


def _cells(text: str) -> list[tuple[int, int]]:
    length = number(int, 1, _MOST)
    cells = []
    for cell in text.split(","):
        isl, colon, osl = cell.partition(":")
        if not colon:
            raise argparse.ArgumentTypeError(f"'{cell}' is no PROMPT:REPLY, such as 512:256")
        cells.append((length(isl), length(osl)))
    return cells


def _ladder(text: str) -> list[int]:
    return [number(int, 1, 4096)(word) for word in text.split(",")]


def check_arguments(arguments: Any, parser: Parser) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    given = vars(arguments)
    single = [f"--{name}" for name in ("isl", "osl") if name in given]
    if single and "cells" in given:
        parser.error(f"--cells and {single[0]} exclude each other")
    if len(single) == 1:
        parser.error("--isl and --osl make a cell together; give both")
    if single:
        given["cells"] = [(given["isl"], given["osl"])]
    for flag, (_, _, reason) in _REFUSED.items():
        if flag[2:].replace("-", "_") in given:
            parser.error(f"argument {flag}: {reason}")
    loading.check_arguments(given, parser)
    if "output" in given:
        check_report(given["output"])


def run(source: ResolvedSource, identity: catalog.Identity, arguments: Any) -> int:
    given = vars(arguments)
    cells = given.get("cells", _CELLS)
    ladder = given.get("concurrency", _LADDER)
    stages = Stages(given.get("memory_stages"), source)
    window = given.get("max_seq", max(isl + osl for isl, osl in cells))
    model = loading.load(
        source,
        identity,
        {**given, "max_seq": window},
        max_sequences=max(ladder),
        prefix_cache=given.get("prefix_cache", True),
    )
    stages.record("weights", model)

    from ..benchmark import Cell, Protocol, forward_once, measure

    if "memory_stages" in given:
        forward_once(model)
        stages.record("forward", model)
    protocol = Protocol(
        warmup=given.get("warmup", 2),
        iters=given.get("iters", 1),
        shared_prefix=given.get("shared_prefix", 0),
        repeat_prompts=bool(given.get("repeat_prompts")),
        token_budget=given.get("step_token_budget", 0),
    )
    _report_options(given, model, protocol)
    report = _Report(source, given.get("output"))
    profile = StepProfile(model.engine) if given.get("profile") else None
    profiled = profile.measured if profile is not None else None
    failed = False
    for row in measure(model, [Cell(*cell) for cell in cells], ladder, protocol, profiled):
        report.add(row)
        stages.record("generation", model)
        failed = failed or row.status != "ok"
    if profile is not None:
        sys.stderr.write(f"{profile}\n")
    peak = peak_memory()
    if peak:
        _log.debug("peak memory of the process: %s", human_size(peak))
    return EXIT_FAILURE if failed else EXIT_OK


def _report_options(given: dict[str, Any], model: Any, protocol: Any) -> None:
    """Each effective option and where its value came from."""
    rows = common_rows(given)
    for name, value in asdict(protocol).items():
        flag = "step_token_budget" if name == "token_budget" else name
        rows.append((flag.replace("_", "-"), value, "flag" if flag in given else "default"))
    rows += [(name.replace("_", "-"), value, "load") for name, value in model.report.items()]
    log_rows(rows)


class _Report:
    """Rows on standard output and, as they come, in files."""

    def __init__(self, source: ResolvedSource, prefix: str | None) -> None:
        self._source = source
        self._prefix = prefix
        self._rows: list[Row] = []
        self._lines = [csv_line(COLUMNS)]
        self._show(self._lines[0])

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self._lines.append(csv_line([_shown(value) for value in asdict(row).values()]))
        self._show(self._lines[-1])
        if row.status != "ok":
            _log.warning(
                "cell %d:%d with %d sessions: %s", row.isl, row.osl, row.concurrency, row.reason
            )
        if self._prefix is not None:
            table, document = report_files(self._prefix)
            write_text(table, "".join(self._lines))
            rows = [asdict(one) for one in self._rows]
            whole = {"schema": SCHEMA, "source": self._source.spec, "rows": rows}
            write_text(document, json.dumps(whole, indent=1) + "\n")

    def _show(self, line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()


def _shown(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
