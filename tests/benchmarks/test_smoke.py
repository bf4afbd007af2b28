"""Each benchmark beside llama.cpp on a tiny model, ours alone: that it runs, not how fast."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import checkpoints, steps
from benchmarks.checkpoints import BLOCK_TYPES, Shape, converted, facts, random_blocks
from benchmarks.workers import Worker

gguf = pytest.importorskip("gguf")
TINY = Shape(256, 512, 2, 4, 2, 1024)
needs_linux = pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("gcc") or shutil.which("cc")),
    reason="the ceilings need a C compiler, workers /proc",
)


def linux(test: Any) -> Any:
    return pytest.mark.slow(needs_linux(test))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    checkpoints.random_layers(path, TINY, "Q8_0")
    return path


def rows_of(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, *words: Any) -> list[Any]:
    """The rows that the command writes with one round of one thread."""
    monkeypatch.setattr(steps, "DECODE", 4)
    path = folder / f"{name}.json"
    fixed = ("--threads", "1", "--rounds", "1", "--json", path)
    monkeypatch.setattr(sys, "argv", [name, *map(str, (*words, *fixed))])
    assert importlib.import_module(f"benchmarks.{name}").main() in (0, 1)  # 1: a target missed
    rows = json.loads(path.read_text())["rows"]
    for row in rows:
        idle = row["work"].startswith("idle")
        assert row["ours"]["low"] >= 0 if idle else row["ours"]["low"] > 0
    return [(row["subject"], row["work"], row["beside"]) for row in rows]


@linux
def test_model_speed(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("model_speed", monkeypatch, tmp_path, tiny, "--no-peer")
    works = ["decode", "load to first token", "peak memory, prefill 512", "prefill 512"]
    assert rows == [("tiny Q8_0", work, "llama.cpp") for work in works]


@linux
def test_batched_decode(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("batched_decode", monkeypatch, tmp_path, tiny, "--no-peer", "--sequences", "3")
    assert rows == [("tiny Q8_0", "decode, 3 sequences", "llama.cpp")]


@linux
def test_two_processes(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (tiny, "--idle", "0.1", "--tokens", "4")
    rows = rows_of("two_processes", monkeypatch, tmp_path, *words)
    assert [work for _, work, _ in rows] == ["decode, two processes", "idle for 0.1 s"]


@linux
def test_speculation(smollm2_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import speculation

    monkeypatch.setattr(speculation, "WIDE", (64, 96))
    words = (smollm2_gguf, "--tokens", "6", "--work", tmp_path)
    works = [work for _, work, _ in rows_of("speculation", monkeypatch, tmp_path, *words)]
    assert len(works) == 5 and "first token of a second turn" in works


@linux
def test_a_worker_counts_its_processor_time(tiny: Path) -> None:
    with Worker("ours", "ours", tiny, 1) as worker:
        idle = worker.cpu_seconds()
        assert idle > 0
        seconds = worker.ask("prefill", ids=[7] * 512)
        assert 0 < worker.cpu_seconds() - idle < 2 * seconds + 0.1  # one thread, and its caller
        assert worker.peak_bytes() > 20e6
    assert worker.process.returncode == 0


@linux
def test_a_worker_that_ends_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ours: the worker ended with code 1"):
        Worker("ours", "ours", tmp_path / "absent.gguf", 1)


@linux
def test_llama_types(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (tiny, "--no-peer", "--work", tmp_path, "--types", "Q5_0,F16")
    rows = rows_of("llama_types", monkeypatch, tmp_path, *words)
    assert [work for _, work, _ in rows] == ["decode", "prefill 512"] * 2
    assert {subject.split()[-1] for subject, _, _ in rows} == {"Q5_0", "F16"}


@linux
def test_layer_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import layer_types

    monkeypatch.setattr(layer_types, "LLAMA3_8B_LAYERS", TINY)
    words = ("--no-peer", "--work", tmp_path, "--types", "IQ4_XS", "--prefill", "8")
    rows = rows_of("layer_types", monkeypatch, tmp_path, *words)
    subject = "llama3-8b-layers-IQ4_XS IQ4_XS"
    assert rows == [(subject, work, "llama.cpp") for work in ("decode", "prefill 8")]


@linux
def test_dense(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("dense", monkeypatch, tmp_path, tiny, "--no-peer", "--work", tmp_path)
    assert [(work, beside) for _, work, beside in rows] == [
        ("decode", "llama.cpp"),
        ("prefill 512", "ours, float32"),
        ("decode", "transformers"),
        ("prefill 512", "transformers"),
    ]


def test_constrained_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import constrained_decode
    from tests.unit.modelverse.models import write_model

    write_model(tmp_path / "model", max_position_embeddings=1024)
    path = tmp_path / "rows.json"
    words = ("--batch", "2", "--rounds", "1", "--steps", "3", "--json", str(path))
    monkeypatch.setattr(sys, "argv", ["constrained_decode", str(tmp_path / "model"), *words])
    assert constrained_decode.main() in (0, 1)  # 1: a target missed
    rows = json.loads(path.read_text())["rows"]
    kinds = list(constrained_decode.KINDS)
    assert [(row["temperature"], row["constraint"]) for row in rows] == [
        (temperature, kind) for temperature in (0.0, 0.8) for kind in kinds
    ]
    assert all(row["free_ms"] > 0 and row["constrained_ms"] > 0 for row in rows)


@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_random_blocks_are_weights(kind: str) -> None:
    """Their deviation is that of trained weights' scale: a uniform code gives it within 5 %."""
    data = random_blocks(kind, 64, 1024, np.random.default_rng(1))
    values = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert values.shape == (64, 1024)
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(1024**-0.5, rel=0.05)
    assert abs(values.mean()) < 0.2 * values.std()


def test_facts_of_a_file(tiny: Path, tmp_path: Path) -> None:
    about = facts(tiny)
    products = 2 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 256 * 512)
    assert about.layer_products == products
    # Blocks of 34 bytes hold 32 numbers; the table is the head too; 5 norms of float32.
    assert about.decode_bytes == (products + 1024 * 256) // 32 * 34 + 5 * 256 * 4
    wide = converted(tiny, tmp_path, "F32")
    assert facts(wide).decode_bytes == 4 * (products + 1024 * 256 + 5 * 256)
    assert converted(tiny, tmp_path, "F32").stat().st_mtime == wide.stat().st_mtime
    held = {tensor.name: tensor for tensor in gguf.GGUFReader(str(tiny)).tensors}
    for tensor in gguf.GGUFReader(str(wide)).tensors:
        source = held[tensor.name]
        wanted = gguf.quants.dequantize(source.data, source.tensor_type)
        assert np.array_equal(tensor.data, wanted)
