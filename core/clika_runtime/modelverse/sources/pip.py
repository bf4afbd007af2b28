"""Running pip in a process of its own, with the index configuration that it has."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

from ...errors import InvalidArgumentError, NotFoundError, UnavailableError

__all__ = ["download", "versions"]

_log = logging.getLogger("clika_runtime.modelverse")


def versions(name: str) -> list[str]:
    """The versions of a package that have a wheel, newest first; nothing is fetched."""
    printed = _run_pip(["index", "versions", "--only-binary", ":all:", name], name, subprocess.PIPE)
    listed = re.search(r"Available versions:(.*)", printed)
    return [word.strip() for word in listed[1].split(",")] if listed else []


def download(requirement: str, target: Path, quiet: bool) -> None:
    """Fetch the wheel. pip's progress goes to our standard error."""
    try:
        stderr = sys.stderr.fileno()
        terminal = os.isatty(stderr)
    except (AttributeError, OSError, ValueError):
        stderr, terminal = subprocess.DEVNULL, False
    words = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(target)]
    words += ["--progress-bar", "on" if terminal and not quiet else "off", requirement]
    _run_pip(words, requirement, subprocess.DEVNULL if quiet else stderr)


def _run_pip(words: list[str], requirement: str, stdout: int) -> str:
    """Run a command of pip and return what it printed (with ``subprocess.PIPE``). Its complaints go
    into the error that is raised."""
    command = [_python_with_pip(), "-m", "pip", words[0], "--no-input"]
    command += ["--disable-pip-version-check", *words[1:]]
    # Keeps a pip.py in the working directory from being run in place of pip (Python 3.11 on).
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    _log.debug("running %s", " ".join(command))
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        printed, complaints = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    lines = [line.strip() for line in complaints.decode("utf-8", "replace").splitlines()]
    if process.returncode == 0:
        for line in filter(None, lines):
            _log.debug("pip: %s", line)
        return (printed or b"").decode("utf-8", "replace")
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    said = "; ".join(errors[-3:] or [line for line in lines if line][-3:]) or "pip said nothing"
    text = f"pip could not fetch {requirement} (exit status {process.returncode}): {said}"
    if "No matching distribution" in said or "Could not find a version" in said:
        raise NotFoundError(
            f"{text}; check the name and version, and the index that pip is set up with "
            "(python -m pip config list); a wheel is needed, a source archive does not do",
            "NOT_FOUND",
        )
    if "HASHES" in said:
        raise InvalidArgumentError(text, "MALFORMED_FILE")
    raise UnavailableError(text)


def _python_with_pip() -> str:
    """An interpreter that runs pip: this one, else the one that this environment was made from."""
    if sys.executable and importlib.util.find_spec("pip") is not None:
        return sys.executable
    base = getattr(sys, "_base_executable", None)
    if base and base != sys.executable:
        probe = [base, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('pip'))"]
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, env=environment)
        if done.returncode == 0:
            return str(base)
    raise UnavailableError(
        "fetching a package needs pip, and neither this Python nor its base has it: run "
        f"'{sys.executable or 'python'} -m ensurepip', or install the package "
        f"with the installer that you "
        "use (uv pip install NAME); an installed package is used as it is"
    )
