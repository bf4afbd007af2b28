"""`tracing` and `eager`: operators that wait until somebody asks, and operators that do not."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .._native._core import Tracer, tracing_scope
from .model_graph import ModelGraph

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def tracing() -> Iterator[None]:
    """In the block, operators give tensors that have a shape and a dtype, and no value until
    `eval` computes them. Reading a value, and writing in place, raise `ClikaRTError`.

    >>> import clika_runtime as crt
    >>> with crt.tracing():
    ...     y = crt.ones(2) + 1.0
    >>> crt.eval(y)
    >>> y.tolist()
    [2.0, 2.0]
    """
    graph = ModelGraph("tracing")
    graph._tracer = Tracer(graph, lazy=True)
    with tracing_scope(graph._tracer):
        yield


@contextmanager
def eager() -> Iterator[None]:
    """In the block, operators run at once, also within `tracing`."""
    with tracing_scope(None):
        yield
