"""A transform that only reads: it counts the operators of a graph."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

__all__ = ["census"]

_log = logging.getLogger(__name__)


def census(graph: Any) -> None:
    """Logs how many nodes a recorded graph has and of which operators, the most frequent first.

    ``graph`` is a ``clika_runtime.GraphRecorder``; nothing in it changes.
    """
    operators = Counter(operator for operator, _, _ in graph.nodes())
    counts = ", ".join(f"{count} {name}" for name, count in operators.most_common())
    _log.info("%d nodes: %s", operators.total(), counts or "none")
