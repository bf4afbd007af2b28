"""The memory law beside the peak of real processes: never below it, at most 15 % above."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.memory_law import ABOVE, measure
from tests.oracles.real_models import GEMMA3_270M, QWEN_CODER, Pieces

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs VmHWM")


def holds(path: Path, window: int) -> None:
    (row,) = measure(str(path), [window])
    assert row["peak"] <= row["estimate"] <= (1 + ABOVE) * row["peak"], row


def test_smollm2(smollm2_gguf: Path) -> None:
    holds(smollm2_gguf, 1024)


@pytest.mark.parametrize("model", [GEMMA3_270M, QWEN_CODER], ids=["gemma3", "qwen"])
def test_other_families(model: Pieces) -> None:
    holds(model.path(), 256)
