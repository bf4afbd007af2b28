"""Files that commands write: whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

from ...errors import ClikaRTError
from .arguments import UsageError

__all__ = ["check_report", "check_target", "report_files", "write_text"]

# Failures of the machine; everything else means that the name was a bad one.
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def check_target(path: str, *, force: bool = False) -> Path:
    """The path of a file to be written. A usage error: a directory, a file that is there already
    (without ``force``), no text."""
    if not path.strip() or "\0" in path:
        raise UsageError(f"{path!r} is no name of a file")
    target = Path(path)
    try:
        if target.is_dir():
            raise UsageError(f"{path}: is a directory; name a file")
        if target.exists() and not target.is_file():
            raise UsageError(f"{path}: is no regular file; name another one")
        if not force and target.exists():
            raise UsageError(f"{path}: is there already; --force replaces it")
    except OSError as error:  # a name longer than the system takes
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error
    return target


def report_files(prefix: str) -> tuple[Path, Path]:
    """The table and the document that ``--output PREFIX`` names: PREFIX.csv and PREFIX.json."""
    return check_target(f"{prefix}.csv", force=True), check_target(f"{prefix}.json", force=True)


def check_report(prefix: str) -> None:
    """Makes both files of a report, empty: what cannot be written is said before the work."""
    for path in report_files(prefix):
        write_text(path, "")


def write_text(path: Path, text: str) -> None:
    """Writes a file that appears under its name when it is complete.

    A name that cannot be written to is a usage error; a full disk fails at run time."""
    from ...io._files import write_atomic

    try:
        write_atomic(str(path.absolute()), [text.encode()])
    except ClikaRTError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _MACHINE:
            raise
        raise UsageError(str(error)) from error
