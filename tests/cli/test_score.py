"""``SOURCE score``, ``embed``, ``similar`` and ``--lora`` on a tiny llama whose text is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.cli.harness import call, run
from tests.cli.tiny import COUNTING, HIDDEN, write_model
from tests.families import lora


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base model that counts digits for ever."""
    return write_model(tmp_path_factory.mktemp("models") / "counter", COUNTING, template=None)


def test_a_text_that_the_model_foretells(counter: Path, tmp_path: Path) -> None:
    known, odd = tmp_path / "known.txt", tmp_path / "odd.txt"
    known.write_text("0123456789" * 20)
    odd.write_text("0864297531" * 20)
    result = run(counter, "score", known, "--max-seq", "64", "--stride", "10")
    assert result.status == 0, result.err
    rows = dict(line.split(None, 1) for line in result.lines())
    assert list(rows) == ["perplexity", "bits", "scored"]
    assert rows["scored"] == ("199 of 200 tokens, 199 bytes, 15 window(s) of 64 tokens, stride 10")
    likely = float(result.lines()[0].split()[1])
    unlikely = float(call(counter, "score", odd).lines()[0].split()[1])
    assert 1.0 <= likely < unlikely


def test_standard_input_and_the_document(counter: Path) -> None:
    text = "\ufeff0123".encode()
    result = call(counter, "score", "-", "--json", stdin=text)
    document = json.loads(result.out)
    assert (document["file"], document["bytes"], document["scored"]) == ("-", 3, 3)
    assert document["perplexity"] == pytest.approx(math.exp(document["nll"] / 3))


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["score"], 2, "FILE"),
        (["score", "absent.txt"], 2, "absent.txt"),
        (["score", "."], 2, "."),
        (["score", "empty.txt"], 2, "holds no text"),
        (["score", "bytes.txt"], 1, "not UTF-8: byte 0xff at offset 1"),
        (["score", "one.txt"], 1, "takes two"),
        (["score", "good.txt", "--stride", "0"], 2, "--stride"),
        (["score", "good.txt", "--stride", "64", "--max-seq", "64"], 2, "below --max-seq"),
        (["score", "good.txt", "--lora", "nowhere"], 2, "nowhere: no such file"),
        (["score", "good.txt", "--lora", "good.txt:nan"], 2, "scale"),
        (["score", "good.txt", "--lora", "good.txt"], 1, "adapter_config.json"),
        (["similar"], 2, "TEXT"),
        (["similar", "a", " "], 2, "text 1 is empty"),
        (["similar", "a", "b", "--image", "x.png"], 3, "reads no images"),
        (["similar", "a", "b", "--pooling", "max"], 2, "--pooling"),
        (["embed", "a" * 300], 1, "300 tokens"),
        (["embed", "a", "--output", "absent/v"], 2, "absent"),
    ],
)
def test_what_is_refused(
    words: list[str],
    status: int,
    message: str,
    counter: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_bytes(b"")
    Path("bytes.txt").write_bytes(b"a\xff")
    Path("one.txt").write_text("0")
    Path("good.txt").write_text("0123")
    result = call(counter, *words)
    assert (result.status, result.out) == (status, "")
    assert message in result.err


def test_the_matrix_and_the_ranking(counter: Path) -> None:
    texts = ("12345", "12345", "zzz")
    result = run(counter, "similar", *texts)
    assert result.status == 0, result.err
    lines = result.lines()
    assert lines[:4] == [
        "[0] 12345",
        "[1] 12345",
        "[2] zzz",
        "scores (cosine; 1 = identical direction):",
    ]
    cells = [line.split() for line in lines[4:]]
    assert cells[0] == ["[0]", "[1]", "[2]"]
    assert cells[1][:3] == ["[0]", "1.0000", "1.0000"]
    assert cells[3][3] == "1.0000" and float(cells[1][3]) < 0.5
    ranked = call(counter, "similar", *texts, "--top-k", "1").lines()[4:]
    assert ranked[:2] == ["[0] [1] 1.0000", "[1] [0] 1.0000"]


def test_the_summary_of_vectors(counter: Path) -> None:
    lines = call(counter, "embed", "12345", "12345", "zzz", "--pooling", "last").lines()
    rows = [line.split() for line in lines[1:]]
    assert [row[:3] for row in rows] == [
        [f"[{place}]", str(HIDDEN), "1.0000"] for place in range(3)
    ]
    assert rows[0][3] == rows[1][3] != rows[2][3]
    assert rows[0][4] == rows[1][4] == "1.0000" != rows[2][4]


def test_an_adapter_changes_the_reply_and_the_budget(counter: Path, tmp_path: Path) -> None:
    """The adapter writes into the head that 1 is followed by 7."""
    start = 3 + ord("0")
    ids = [start + digit for digit in range(10)]
    down = np.zeros((1, HIDDEN), np.float32)
    down[0, ids[1]] = 1.0
    up = np.zeros((259, 1), np.float32)
    up[ids[7]] = 4.0
    folder = lora.write_peft(tmp_path / "a", {"lm_head": (down, up)}, lora_alpha=1)
    words = ("prompt", "1", "--greedy", "--max-new-tokens", "3", "-q")
    assert call(counter, *words).out == "234\n"
    assert call(counter, *words, "--lora", folder).out == "789\n"
    assert call(counter, *words, "--lora", folder, "--lora-merge").out == "789\n"
    assert call(counter, *words, "--lora", f"{folder}:0.1").out == "234\n"
    check = call("check", counter, "--json", "--lora", folder)
    assert {row["adapters"] for row in json.loads(check.out)["devices"]} == {4 * (HIDDEN + 259)}
    result = call("check", counter, "--lora", tmp_path / "absent")
    assert (result.status, result.out) == (1, "") and "absent" in result.err
