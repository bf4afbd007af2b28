"""Fixtures of the llama tests: engines over tiny checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine
from clika_runtime.modelverse.loader import LoadOptions, load_model
from tests.families.llama import tiny

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
def tiny_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tiny.Tiny]:
    """``tiny_of(variant, dtype)``: a checkpoint, made once per session."""
    made: dict[tuple[str, str], tiny.Tiny] = {}

    def find(variant: str = "plain", dtype: str = "float32") -> tiny.Tiny:
        key = (variant, dtype)
        if key not in made:
            folder = tmp_path_factory.mktemp(f"{variant}-{dtype}")
            made[key] = tiny.make(folder, dtype, **tiny.VARIANTS[variant])
        return made[key]

    return find
