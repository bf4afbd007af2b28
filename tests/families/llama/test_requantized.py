"""SmolLM2 written anew by llama.cpp's quantizer: ours and llama.cpp beside the float32 model over
the same dequantized weights. ``benchmarks/quality_types.py`` does it for every type."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks.checkpoints import convert, quantize
from benchmarks.quality_types import measure, missed
from tests.oracles.gguf_decoder import PASSAGES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("smollm2"),
    pytest.mark.skipif(
        importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
    ),
]


@pytest.fixture(scope="module")
def dense(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dense") / "dense.gguf"
    convert(smollm2_gguf, path)
    return path


@pytest.mark.parametrize("name", ["Q8_0", "IQ4_NL"])
def test_divergence_is_at_most_that_of_llama_cpp(name: str, dense: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.gguf"
    quantize(dense, path, name, pure=False)
    row = measure(path, PASSAGES[:1], greedy=False)
    assert row["tensors"][name] >= 200, row
    assert row["fast"]["positions"] >= 100, row
    assert not missed(row), row  # the mean KL of each path is at most 1.1 times llama.cpp's
