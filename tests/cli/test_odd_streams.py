"""A closed standard output, and arguments that are no text."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(os.name != "posix", reason="closes a descriptor the POSIX way")
def test_a_closed_stdout_gives_no_traceback() -> None:
    command = 'exec "$0" -m clika_runtime list >&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="arguments are bytes on POSIX")
def test_a_message_that_is_no_text_is_a_usage_error(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clika_runtime", "./absent.gguf", "prompt", b"\xff\xfe"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 2)
    assert "internal error" not in done.stderr, done.stderr
