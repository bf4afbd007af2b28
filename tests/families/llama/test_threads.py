"""The number of threads leaves no trace in a model's logits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.families.llama import tiny

SCRIPT = """
import sys
from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine
from clika_runtime.modelverse.loader import LoadOptions, load_model

model = load_model(sys.argv[1], LoadOptions(mode=sys.argv[2])).model
engine = Engine(model, KVCache(model.cache_specs(), CacheConfig(256)))
sys.stdout.buffer.write(engine.logits([int(i) for i in sys.argv[3].split(",")]).tobytes())
"""


def logits(path: Path, mode: str, threads: int) -> bytes:
    ids = ",".join(str(i) for i in tiny.ids(70))
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), mode, ids],
        env={**os.environ, "CLIKA_RT_NUM_THREADS": str(threads)},
        check=True,
        capture_output=True,
        timeout=120,
    ).stdout


def test_one_thread_and_two_give_the_same_bits(
    tiny_of: Callable[..., tiny.Tiny], tmp_path: Path
) -> None:
    # Wide enough that every kernel splits its work.
    checkpoint = tiny.make(
        tmp_path,
        hidden_size=256,
        intermediate_size=768,
        num_attention_heads=8,
        num_key_value_heads=4,
    )
    path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf", lambda name: "Q4_1")
    for source, mode in ((tmp_path, "exact"), (path, "exact"), (path, "fast")):
        one = logits(source, mode, 1)
        assert len(one) == 70 * tiny.VOCAB * 4
        assert logits(source, mode, 2) == one
