"""The seed of random operators that were called without one."""

from __future__ import annotations

import itertools
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_lock = threading.Lock()
_seed: int | None = None
_offsets: Iterator[int] = itertools.count()


def manual_seed(seed: int) -> None:
    """Sets the seed of all later random calls and starts their sequence over.

    >>> manual_seed(7)
    >>> next_key()
    (7, 0)
    """
    global _seed, _offsets
    if not hasattr(seed, "__index__"):
        raise TypeError(f"manual_seed: seed must be int, got {seed!r}")
    with _lock:
        _seed = seed.__index__() & (2**63 - 1)
        _offsets = itertools.count()


def next_key() -> tuple[int, int]:
    """The seed, and an offset that no earlier call under this seed got.

    Raises `ClikaRTError` while a graph is recorded: its runs would all have the same numbers."""
    global _seed
    from .._native._core import active_tracer
    from ..errors import ClikaRTError

    tracer = active_tracer()
    if tracer is not None and not tracer.lazy:
        raise ClikaRTError(
            "random numbers without a seed cannot be recorded: every run of the graph would have "
            "the same ones; give a seed, or draw them outside and pass them in",
            "FAILED_PRECONDITION",
        )
    with _lock:
        if _seed is None:
            _seed = int.from_bytes(os.urandom(8), "little") >> 1
        return _seed, next(_offsets)


def seeded(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call` with `seed` and `offset` filled in where the caller gave no seed."""

    def random(*args: Any, **options: Any) -> Any:
        if options.get("seed") is None:
            options["seed"], options["offset"] = next_key()
        return call(*args, **options)

    random.__name__ = random.__qualname__ = getattr(call, "name", "random")
    random.__doc__ = call.__doc__
    return random
