"""``clikart-cli check``: the memory law on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.harness import call, run
from tests.cli.tiny import COUNTING, write_model
from tests.cli.wheels import tiny_gguf
from tests.unit.modelverse.test_requirements import quantized


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("check"), COUNTING, template=None, window=8192)


def test_one_row_per_device(model: Path) -> None:
    result = call("check", model, "--assume-device", "phone=8G", "--assume-device", "speck=1M")
    assert (result.status, result.err) == (0, "")
    head, *rows = (line.split() for line in result.lines())
    assert head[:2] == ["device", "weights"] and head[-1] == "largest"
    assert [row[0] for row in rows][-2:] == ["phone", "speck"]
    assert rows[0][0] == "CPU:0"
    assert rows[-2][-2:] == ["yes", "8192"]
    assert rows[-1][-2:] == ["no", "none"]
    assert "4096" in rows[0]  # the window that a command is given by default


def test_a_window_over_the_checkpoints_is_said(model: Path) -> None:
    result = call("check", model, "--max-seq", "20000", "--json")
    assert {row["window"] for row in json.loads(result.out)["devices"]} == {8192}
    assert "--max-seq 20000: the checkpoint's window of 8192 tokens is used" in result.err


def test_the_cache_beside_quantized_weights(tmp_path: Path) -> None:
    """As `prompt` with the same options makes it."""
    path = quantized(tmp_path / "m.gguf", rows=32)
    for options, kind in (
        ((), "bfloat16"),
        (("--exact",), "float32"),
        (("--dtype", "float32"), "float32"),
        (("--exact", "--kv-quant", "bfloat16"), "bfloat16"),
    ):
        result = call("check", path, "--json", *options)
        assert json.loads(result.out)["devices"][0]["cache_dtype"] == kind


def test_another_window(model: Path) -> None:
    result = call("check", model, "--max-seq", "100", "--json")
    document = json.loads(result.out)
    assert (document["schema"], document["source"]) == (1, str(model))
    assert {row["window"] for row in document["devices"]} == {100}
    cache = [json.loads(result.out)["devices"][0]["cache"]]
    short = call("check", model, "--max-seq", "100", "--json", "--dtype", "bfloat16").out
    cache.append(json.loads(short)["devices"][0]["cache"])
    assert cache[0] == 2 * cache[1]
    least = call("check", model, "--max-seq", "100", "--json", "--kv-quant", "fp8").out
    row = json.loads(least)["devices"][0]
    assert (4 * row["cache"], row["cache_dtype"]) == (cache[0], "fp8")
    blocks = call("check", model, "--max-seq", "100", "--json", "--kv-quant", "q8_0").out
    row = json.loads(blocks)["devices"][0]
    assert (128 * row["cache"], row["cache_dtype"]) == (34 * cache[0], "q8_0")
    assert (
        call("check", model, "--max-seq", "100", "--json", "--kv-quant", "none").out == result.out
    )
    result = call("check", model, "--max-seq", "99999", "--json")
    assert json.loads(result.out)["devices"][0]["window"] == 8192


def test_csv_has_every_term(model: Path) -> None:
    document = json.loads(call("check", model, "--json", "--assume-device", "phone=8G").out)
    table = call("check", model, "--csv", "--assume-device", "phone=8G").out
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == len(document["devices"])
    for row, terms in zip(rows, document["devices"], strict=True):
        assert list(row) == list(terms)
        assert row["fits"] == "yes" and int(row["total"]) == terms["total"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "required: SOURCE"),
        (("./absent",), 1, "no such file or directory"),
        (("MODEL", "--assume-device", "phone"), 2, "written as name=size"),
        (("MODEL", "--max-seq", "0"), 2, "out of range"),
        (("MODEL", "--csv", "--json"), 2, "not allowed with"),
        (("MODEL", "--dtype", "int8"), 2, "invalid choice: 'int8'"),
        (("MODEL", "--kv-quant", "q4_0"), 2, "invalid choice: 'q4_0'"),
    ],
)
def test_refusals(model: Path, words: tuple[str, ...], status: int, message: str) -> None:
    result = call("check", *(str(model) if word == "MODEL" else word for word in words))
    assert (result.status, result.out) == (status, "")
    assert message in result.err


def test_what_no_family_serves(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf("walrus"))
    result = call("check", path)
    assert (result.status, result.out) == (3, "")
    assert "no model template registered" in result.err


def test_a_load_that_does_not_fit_ends_with_1(model: Path) -> None:
    """The refusal of a model command names the flag that mends it."""
    code = (
        "import sys\n"
        "from clika_runtime.modelverse import fit\n"
        "from clika_runtime.modelverse.requirements import BASE, Place\n"
        "fit.place_of = lambda device: Place('CPU:0', 'cpu', BASE + (8 << 20))\n"
        "from clika_runtime.modelverse.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    import subprocess
    import sys

    from tests.cli.harness import environment

    done = subprocess.run(
        [sys.executable, "-c", code, str(model), "prompt", "12", "--max-seq", "8192"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "the model needs" in done.stderr and "(--max-seq)" in done.stderr
    result = run(model, "prompt", "12", "--max-new-tokens", "3")
    assert (result.status, result.out) == (0, "345\n")
    assert "[info] memory on CPU:0: " in result.err
