"""The completion scripts in the shells that they are for, where those are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.cli.harness import call

# The functions of zsh's completion system, printing what they are given.
ZSH = """
compdef() { }
compadd() { shift; print -r -- "$@"; }
_files() { print FILES; }
words=(clikart-cli check -q --); CURRENT=4; _clikart_cli
print -r -- -----
words=(clikart-cli check --max-seq ''); CURRENT=4; _clikart_cli
print -r -- -----
words=(clikart-cli --cache-dir x ''); CURRENT=4; _clikart_cli
"""


def shell(name: str, *words: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_zsh():
    script = call("completion", "zsh").out
    printed = shell("zsh", "-f", "-c", f"compdef() {{ }}\n{script}\n{ZSH}")
    check, value, verbs = printed.split("-----")
    assert {"--max-seq", "--assume-device", "FILES"} <= set(check.split())
    assert value.split() == ["FILES"]
    assert {"list", "check", "doctor", "FILES"} <= set(verbs.split())


def test_fish(tmp_path):
    script = tmp_path / "clikart-cli.fish"
    script.write_text(call("completion", "fish").out)
    found = shell("fish", "-c", f"source {script}; complete -C 'clikart-cli check --m'")
    assert found.split()[0] == "--max-seq"
    verbs = shell("fish", "-c", f"source {script}; complete -C 'clikart-cli '")
    assert {"list", "check", "doctor"} <= {line.split("\t")[0] for line in verbs.splitlines()}
