"""``SOURCE score FILE``: perplexity of a text, and what a byte of it costs the model."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from typing import Any

from ..._version import __version__
from .. import catalog
from ..console import json_text, show
from ..sources import ResolvedSource
from . import EXIT_OK, loading
from .arguments import Parser, number
from .stages import Stages
from .texts import read_text

#: The version of the JSON document (``docs/schemas/score.json``).
SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="the text (UTF-8); '-' reads it from standard input"
    )
    group = parser.add_argument_group("scoring")
    group.add_argument(
        "--stride",
        type=number(int, 1),
        metavar="N",
        help="tokens between the beginnings of two windows (default: half of the window, which "
        "--max-seq sets)",
    )
    group.add_argument("--json", action="store_true", help="the result as a JSON document")
    loading.add_arguments(parser)


def check_arguments(arguments: Any, parser: Parser) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    given = vars(arguments)
    loading.check_arguments(given, parser)
    if given.get("stride", 0) >= given.get("max_seq", math.inf):
        parser.error(f"--stride {given['stride']} has to be below --max-seq {given['max_seq']}")
    given["text"] = read_text(given["file"])
    if not given["text"]:
        parser.error(f"{given['file']}: holds no text")


def run(source: ResolvedSource, identity: catalog.Identity, arguments: Any) -> int:
    given = vars(arguments)
    stages = Stages(given.get("memory_stages"), source)
    model = loading.load(source, identity, given)
    stages.record("weights", model)
    score = model.perplexity(given["text"], stride=given.get("stride", 0))
    if given.get("json"):
        document = {
            "schema": SCHEMA,
            "runtime": __version__,
            "source": source.spec,
            "file": given["file"],
            **asdict(score),
            "perplexity": score.perplexity if math.isfinite(score.perplexity) else None,
            "bits_per_token": score.bits_per_token,
            "bits_per_byte": score.bits_per_byte,
        }
        print(json_text(document))
    else:
        show(
            f"perplexity      {score.perplexity:.4f}\n"
            f"bits per token  {score.bits_per_token:.4f}\n"
            f"bits per byte   {score.bits_per_byte:.4f}\n"
            f"scored          {score.scored} of {score.tokens} tokens, {score.bytes} bytes, "
            f"{score.windows} window(s) of {score.window} tokens, stride {score.stride}"
        )
    return EXIT_OK
