"""Texts that a model's command is given: words of the command line, files, standard input."""

from __future__ import annotations

import argparse
import codecs
import sys
from typing import Any

from ...errors import InvalidArgumentError, UnsupportedError
from .. import catalog
from ..sources import ResolvedSource, human_size
from . import loading
from .arguments import Parser, UsageError

__all__ = ["add_texts", "check_texts", "load", "read_text"]

_MOST = 256 << 20  # bytes of a file
_SEQUENCES = 8


def add_texts(parser: argparse.ArgumentParser) -> None:
    """``TEXT...`` and ``--pooling``, of the commands that make vectors."""
    parser.add_argument("texts", metavar="TEXT", nargs="+", help="the texts")
    group = parser.add_argument_group("vectors")
    group.add_argument(
        "--pooling",
        choices=("mean", "last"),
        help="which hidden states make a text's vector: the mean of all, or the last token's "
        "(default: the checkpoint's, else mean)",
    )
    group.add_argument(
        "--image",
        action="append",
        metavar="FILE",
        help="an image beside the texts, for a model that reads images",
    )


def check_texts(given: dict[str, Any], parser: Parser) -> None:
    """Refuses texts that are empty or bytes that are no UTF-8."""
    for place, text in enumerate(given["texts"]):
        if not text.strip():
            parser.error(f"text {place} is empty")
        try:
            text.encode()
        except UnicodeEncodeError:
            parser.error(f"text {place} is no valid text (bytes that are no UTF-8)")


def load(source: ResolvedSource, identity: catalog.Identity, given: dict[str, Any]) -> Any:
    """The model, with room for the texts in one batch; images are refused."""
    if given.get("image"):
        raise UnsupportedError(
            f"--image: family '{identity.family}' ({identity.modalities}) reads no images"
        )
    count = min(len(given["texts"]), _SEQUENCES)
    return loading.load(source, identity, given, max_sequences=count)


def read_text(path: str) -> str:
    """A file's text, or that of standard input for ``-``: UTF-8, a byte order mark is left out."""
    name = "standard input" if path == "-" else path
    try:
        if path != "-":
            with open(path, "rb") as file:
                data = file.read(_MOST + 1)
        elif sys.stdin is None:
            raise UsageError("standard input is closed; name a file")
        else:
            data = sys.stdin.buffer.read(_MOST + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > _MOST:
        raise InvalidArgumentError(
            f"{name}: holds more than {human_size(_MOST)}; split it into several files"
        )
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"{name}: is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; "
            "convert it first"
        ) from error
