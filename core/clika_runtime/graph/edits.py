"""Edits of a `ModelGraph`: each checks everything before it changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._native._graph import GraphStore as _Base
else:
    _Base = object


class Edits(_Base):
    """The edits of a `ModelGraph`."""

    def _check_whole(self: Any, call: str) -> None:
        """Refuses a graph whose nodes a merge, a split or an extract took."""
        from ..errors import InvalidArgumentError

        if self.consumed:
            raise InvalidArgumentError(
                f"{call}: the graph no longer exists (a merge, a split or an extract consumed it)"
            )

    def _check_idle(self: Any, call: str) -> None:
        """Refuses a call that must not come while a transform runs on the graph."""
