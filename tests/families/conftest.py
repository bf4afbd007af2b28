"""Fixtures of the family tests: engines over tiny checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine
from clika_runtime.modelverse.loader import LoadOptions, load_model
from tests.oracles.real_models import GEMMA3_270M, QWEN_CODER

MakeEngine = Callable[..., Engine]


def engine_over(model: Any, **cache: Any) -> Engine:
    """An engine with room for eight sequences in blocks of 16 tokens."""
    settings = {"max_tokens": 256, "max_sequences": 8, "block_size": 16, **cache}
    return Engine(model, KVCache(model.cache_specs(), CacheConfig(**settings)))


@pytest.fixture(scope="session")
def make_engine() -> MakeEngine:
    """``make_engine(path, dtype=..., mode=...)``: the checkpoint behind an engine."""

    def make(path: Path, cache: dict[str, Any] | None = None, **options: Any) -> Engine:
        loaded = load_model(path, LoadOptions(**options))
        return engine_over(loaded.model, **{"dtype": loaded.dtype, **(cache or {})})

    return make


@pytest.fixture(scope="session")
def gemma3_gguf() -> Path:
    """Gemma 3 270M, the base model: Q5_0, Q4_K, Q6_K and Q8_0 tensors, tied."""
    return GEMMA3_270M.path()


@pytest.fixture(scope="session")
def qwen_coder_gguf() -> Path:
    """Qwen2.5-Coder 0.5B Instruct: Q5_0, Q4_K, Q6_K and Q8_0 tensors, untied, with biases."""
    return QWEN_CODER.path()


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``once(make, name, dtype)``: what ``make(folder, name, dtype)`` makes, once per session."""
    made: dict[Any, Any] = {}

    def find(make: Callable[..., Any], name: str, dtype: str = "float32") -> Any:
        key = (make, name, dtype)
        if key not in made:
            made[key] = make(tmp_path_factory.mktemp(f"{name}-{dtype}"), name, dtype)
        return made[key]

    return find
