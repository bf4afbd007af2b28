"""``SOURCE embed TEXT...``: vectors of texts, summed up on standard output and whole in files."""

from __future__ import annotations

import argparse
import hashlib
from typing import Any

from ..._version import __version__
from .. import catalog
from ..console import json_text, show
from ..sources import ResolvedSource
from . import EXIT_OK, loading
from .arguments import Parser
from .files import check_report, report_files, write_text
from .tables import csv_text, table
from .texts import add_texts, check_texts, load

#: The version of the JSON document (``docs/schemas/embed.json``).
SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_texts(parser)
    form = parser.add_argument_group("result")
    form.add_argument(
        "--output",
        metavar="PREFIX",
        help="also write PREFIX.csv (a row per text, the vector as columns) and PREFIX.json",
    )
    form.add_argument("--json", action="store_true", help="the vectors as a JSON document")
    loading.add_arguments(parser)


def check_arguments(arguments: Any, parser: Parser) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    given = vars(arguments)
    check_texts(given, parser)
    loading.check_arguments(given, parser)
    if "output" in given:
        check_report(given["output"])


def run(source: ResolvedSource, identity: catalog.Identity, arguments: Any) -> int:
    given = vars(arguments)
    model = load(source, identity, given)
    pooling = model.embedder.pooling(given.get("pooling"))
    vectors = model.embed(given["texts"], pooling=pooling)
    rows = _rows(given["texts"], vectors)
    document = {
        "schema": SCHEMA,
        "runtime": __version__,
        "source": source.spec,
        "pooling": pooling,
        "dimensions": vectors.shape[1],
        "vectors": rows,
    }
    if "output" in given:
        sheet, whole = report_files(given["output"])
        head = ["index", "text", *(f"v{column}" for column in range(vectors.shape[1]))]
        cells = [[row["index"], row["text"], *row["vector"]] for row in rows]
        write_text(sheet, csv_text(head, cells))
        write_text(whole, json_text(document) + "\n")
    if given.get("json"):
        print(json_text(document))
    else:
        shown = [
            (
                f"[{row['index']}]",
                str(vectors.shape[1]),
                f"{row['norm']:.4f}",
                row["signature"],
                f"{row['cosine']:.4f}",
            )
            for row in rows
        ]
        show(table(("text", "width", "norm", "signature", "cosine to [0]"), shown))
    return EXIT_OK


def _rows(texts: list[str], vectors: Any) -> list[dict[str, Any]]:
    """What is said of each vector. The signature is the beginning of the SHA-256 of its elements
    times 127, rounded to a byte: vectors that are the same but for rounding share it mostly."""
    import numpy as np

    codes = np.rint(vectors * 127.0).astype(np.int8)
    return [
        {
            "index": place,
            "text": text,
            "norm": float(np.linalg.norm(vector)),
            "signature": hashlib.sha256(codes[place].tobytes()).hexdigest()[:16],
            "cosine": float(vector @ vectors[0]),
            "vector": vector.tolist(),
        }
        for place, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
