"""Environment variables of the runtime: a value that cannot be honoured is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

COMPUTE = """
import json
import clika_runtime as crt
from clika_runtime import plugins
try:
    plugins.families()
    answer = [crt.ones(2).sum().item(), crt.num_threads()]
except crt.ClikaRTError as error:
    answer = [type(error).__name__, error.code_name, str(error)]
print(json.dumps(answer))
"""


def child(code: str, **environ: str) -> list[object]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("CLIKA_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**env, **environ}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answer: list[object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("value", ["x", "0", "-2", "1.5", "3 threads", "99999999999999999999"])
def test_a_thread_count_that_is_none(value: str) -> None:
    name, code, text = child(COMPUTE, CLIKA_RT_NUM_THREADS=value)
    assert (name, code) == ("InvalidArgumentError", "INVALID_ARGUMENT")
    assert text == (f"CLIKA_RT_NUM_THREADS is '{value}'; it takes a whole number from 1 to 1024")


def test_thread_counts_that_are_taken() -> None:
    assert child(COMPUTE, CLIKA_RT_NUM_THREADS="3") == [2.0, 3]
    unset = child(COMPUTE)
    assert child(COMPUTE, CLIKA_RT_NUM_THREADS="") == unset


@pytest.mark.parametrize("variable", ["CLIKA_RT_DEBUG", "CLIKA_RT_STRICT_PLUGINS"])
def test_switches_are_0_or_1(variable: str) -> None:
    name, _, text = child(COMPUTE, **{variable: "yes"})
    assert name == "InvalidArgumentError"
    assert text == f"{variable} is 'yes'; it takes 0 or 1"
    for value in ("", "0", "1"):
        assert child(COMPUTE, **{variable: value})[0] == 2.0


@pytest.mark.parametrize("variable", ["CLIKA_RT_DISABLE_PLUGINS", "CLIKA_RT_ALLOW_PLUGINS"])
def test_lists_of_plugins_hold_names(variable: str) -> None:
    name, _, text = child(COMPUTE, **{variable: "llama;cpu"})
    assert name == "InvalidArgumentError"
    assert text.startswith(f"{variable} has 'llama;cpu'; it takes names of plugins")
    assert child(COMPUTE, **{variable: "cpu, llama ," if "ALLOW" in variable else "qwen, "})[0] == 2


def test_an_unknown_instruction_set() -> None:
    name, code, text = child(COMPUTE, CLIKA_RT_CPU_ISA="sse9")
    assert (name, code) == ("InternalError", "BACKEND_UNAVAILABLE")
    assert "CLIKA_RT_CPU_ISA is 'sse9'; it takes portable, avx2 or avx512" in str(text)


def test_devices_show_the_reason() -> None:
    code = """
import json, sys, io, contextlib
from clika_runtime.modelverse.cli import main
out = io.StringIO()
with contextlib.redirect_stdout(out):
    status = main(["devices", "--json"])
row = json.loads(out.getvalue())["backends"][0]
print(json.dumps([status, row["status"]]))
"""
    for variable in ("CLIKA_RT_NUM_THREADS", "CLIKA_RT_CPU_ISA"):
        status, text = child(code, **{variable: "x9"})
        assert status == 0 and f"{variable} is 'x9'" in str(text)


def test_offline_takes_words() -> None:
    code = """
import json
from clika_runtime.errors import ClikaRTError
from clika_runtime.modelverse.sources.cache import is_offline
try:
    answer = [is_offline()]
except ClikaRTError as error:
    answer = [type(error).__name__, str(error)]
print(json.dumps(answer))
"""
    assert child(code, CLIKA_MODELVERSE_OFFLINE="On") == ["CLIKA_MODELVERSE_OFFLINE=On"]
    assert child(code, CLIKA_MODELVERSE_OFFLINE="no", HF_HUB_OFFLINE="0") == [None]
    name, text = child(code, CLIKA_MODELVERSE_OFFLINE="maybe")
    assert name == "InvalidArgumentError"
    assert str(text).startswith("CLIKA_MODELVERSE_OFFLINE is 'maybe'; it takes 1, true, yes, on")
