"""LoRA on a family whose GGUF files keep the rows of queries and keys in transformers' order."""

from __future__ import annotations

from pathlib import Path

import pytest

from clika_runtime.testing.families import relative_error
from tests.families import lora
from tests.families.conftest import MakeEngine
from tests.families.llama.test_adapters import GGUF_NAMES, TOLERANCE
from tests.families.qwen import tiny
from tests.families.tiny import Tiny

IDS = tiny.ids(30)


@pytest.mark.parametrize("base", ["safetensors", "gguf"])
def test_adapters_of_both_forms(base: str, make_engine: MakeEngine, tmp_path: Path) -> None:
    checkpoint = tiny.make(tmp_path / "m", next(iter(tiny.IN_GGUF)))
    path = checkpoint.folder
    if base == "gguf":
        path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf")
    values = lora.matrices(checkpoint.model)
    want = Tiny(path, lora.merged(checkpoint.model, (values, 2.0))).reference(IDS)
    named = {
        f"blk.{name.split('.')[2]}.{GGUF_NAMES[name.rpartition('.')[2]]}.weight": pair
        for name, pair in values.items()
    }
    architecture = "qwen2" if "2" in checkpoint.config.model_type else "qwen3"
    for adapter in (
        lora.write_peft(tmp_path / "a", values),
        lora.write_gguf(tmp_path / "a.gguf", named, architecture),
    ):
        engine = make_engine(path, adapters=[adapter])
        assert relative_error(engine.logits(IDS), want) < TOLERANCE
