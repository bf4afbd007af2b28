"""The edge to the ``tokenizers`` library: late import, and its failures as typed errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clika_runtime.errors import ClikaRTError, InvalidArgumentError

__all__ = ["guarded", "library"]


def library() -> Any:
    """The ``tokenizers`` package, imported at first use."""
    import tokenizers

    return tokenizers


@contextmanager
def guarded(what: str, code_name: str = "INVALID_ARGUMENT") -> Iterator[None]:
    """Turn any failure of the library inside the block into an ``InvalidArgumentError``.

    The library reports some bad input by a Rust panic, which arrives as a ``BaseException`` of its
    own.
    """
    try:
        yield
    except (ClikaRTError, ImportError):
        raise
    except Exception as error:
        raise InvalidArgumentError(f"{what}: {_text(error)}", code_name) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise InvalidArgumentError(f"{what}: {_text(error)}", code_name) from error


def _text(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
