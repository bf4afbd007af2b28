"""``SOURCE similar TEXT...``: how near texts are to each other, by the cosines of their vectors."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..._version import __version__
from .. import catalog
from ..console import json_text, show
from ..sources import ResolvedSource
from . import EXIT_OK, loading
from .arguments import Parser, number
from .tables import table
from .texts import add_texts, check_texts, load

#: The version of the JSON document (``docs/schemas/similar.json``).
SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_texts(parser)
    form = parser.add_argument_group("result")
    form.add_argument(
        "--top-k",
        type=number(int, 1),
        metavar="N",
        help="the N nearest others of each text, in the place of the matrix",
    )
    form.add_argument("--json", action="store_true", help="the result as a JSON document")
    loading.add_arguments(parser)


def check_arguments(arguments: Any, parser: Parser) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    given = vars(arguments)
    check_texts(given, parser)
    loading.check_arguments(given, parser)


def run(source: ResolvedSource, identity: catalog.Identity, arguments: Any) -> int:
    given = vars(arguments)
    texts = given["texts"]
    model = load(source, identity, given)
    pooling = model.embedder.pooling(given.get("pooling"))
    scores = model.similar(texts, pooling=pooling).tolist()
    nearest = [_nearest(row, place, given.get("top_k")) for place, row in enumerate(scores)]
    if given.get("json"):
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "runtime": __version__,
            "source": source.spec,
            "pooling": pooling,
            "texts": texts,
        }
        if "top_k" in given:
            document["nearest"] = [
                [{"index": other, "score": scores[place][other]} for other in row]
                for place, row in enumerate(nearest)
            ]
        else:
            document["scores"] = scores
        print(json_text(document))
        return EXIT_OK
    lines = [f"[{place}] {catalog.printable(text, 200)}" for place, text in enumerate(texts)]
    lines.append("scores (cosine; 1 = identical direction):")
    if "top_k" in given:
        for place, row in enumerate(nearest):
            found = ", ".join(f"[{other}] {scores[place][other]:.4f}" for other in row)
            lines.append(f"[{place}] {found}")
    else:
        head = ["", *(f"[{place}]" for place in range(len(texts)))]
        rows = [
            (f"[{place}]", *(f"{score:.4f}" for score in row)) for place, row in enumerate(scores)
        ]
        lines.append(table(head, rows))
    show("\n".join(lines))
    return EXIT_OK


def _nearest(row: Sequence[float], place: int, count: int | None) -> list[int]:
    others = [other for other in range(len(row)) if other != place]
    return sorted(others, key=lambda other: -row[other])[:count]
