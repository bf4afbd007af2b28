"""A transform that only reads: it counts the operators of a graph."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

__all__ = ["census"]

_log = logging.getLogger(__name__)


def census(graph: Any) -> None:
    """Logs how many operators a graph has and which, the most frequent first.

    ``graph`` is a ``clika_runtime.graph.ModelGraph``; nothing in it changes.
    """
    operators = Counter(node.op_code.name for node in graph.nodes() if node.op_code)
    counts = ", ".join(f"{count} {name}" for name, count in operators.most_common())
    _log.info("%d operators: %s", operators.total(), counts or "none")
