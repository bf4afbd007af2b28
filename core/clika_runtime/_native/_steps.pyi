"""Types of the extension that moves decode steps on."""

from collections.abc import Iterable, Sequence
from typing import Any

class Work:
    sequence: int
    tokens: Sequence[int]
    sampling: Any
    index: int
    choice: Any
    draft: Sequence[int]
    late: bool
    def __init__(
        self,
        sequence: int,
        tokens: Sequence[int],
        sampling: Any = None,
        index: int = 0,
        choice: Any = None,
        draft: Sequence[int] = (),
        late: bool = False,
    ) -> None: ...

class SequenceState:
    blocks: list[int]
    length: int
    edits: int
    def __init__(self, blocks: list[int], length: int = 0) -> None: ...

class StepArrays:
    @property
    def positions(self) -> Any: ...
    @property
    def slots(self) -> Any: ...
    @property
    def block_table(self) -> Any: ...
    @property
    def cu_seqlens(self) -> Any: ...
    @property
    def kv_lens(self) -> Any: ...
    @property
    def sequences(self) -> tuple[int, ...]: ...
    @property
    def states(self) -> tuple[SequenceState, ...]: ...
    def __init__(
        self,
        positions: Any,
        slots: Any,
        block_table: Any,
        cu_seqlens: Any,
        kv_lens: Any,
        sequences: Iterable[int],
        states: Iterable[SequenceState],
    ) -> None: ...
    def lie_in(self, positions: Any, slots: Any, kv_lens: Any) -> None: ...
    def goes_on(self, block_size: int, max_tokens: int) -> bool: ...
    def move_on(self) -> None: ...

class DecodeRows:
    def __init__(
        self,
        step: StepArrays,
        samplings: Iterable[Any],
        tokens: Any,
        index: Any,
        block_size: int,
        max_tokens: int,
    ) -> None: ...
    def follow(self, work: Sequence[Work]) -> bool: ...
