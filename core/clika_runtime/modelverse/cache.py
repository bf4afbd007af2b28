"""What layers keep between steps, and the paged pools that hold it.

A layer declares a state spec and calls ``step.attend``; where the bytes lie is known here alone.
Keys and values stand in pools of blocks; a sequence owns a list of blocks, counted by reference so
that forks and snapshots share them until one side writes. A continuous cache is the same with one
block per sequence."""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import clika_runtime as crt
from clika_runtime._native._steps import SequenceState, StepArrays
from clika_runtime.errors import InvalidArgumentError, OutOfMemoryError

from .cache_rows import RowFormat, row_format

__all__ = [
    "KV",
    "CacheConfig",
    "CacheStep",
    "Conv",
    "CrossKV",
    "KVCache",
    "Latent",
    "Recurrent",
    "Snapshot",
    "StateSpec",
    "StepArrays",
    "bytes_per_token",
]


MAX_SLOTS = (1 << 31) - 1  # slots are int32
ALIGNED = 64  # elements: pools start on whole lines of the processor's caches


# ---- what a layer may declare
@dataclass(frozen=True)
class KV:
    """Keys ``[heads, dk]`` and values ``[heads, dv]`` of every token; ``window`` 0 keeps all of
    them."""

    heads: int
    dk: int
    dv: int
    window: int = 0


@dataclass(frozen=True)
class Latent:
    """One compressed row per token, ``[rank + rope_dim]``."""

    rank: int
    rope_dim: int


@dataclass(frozen=True)
class Conv:
    """The last ``width - 1`` inputs of a causal convolution, ``[channels, width - 1]`` per
    sequence."""

    channels: int
    width: int


@dataclass(frozen=True)
class Recurrent:
    """One state of a fixed shape per sequence."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class CrossKV:
    """Keys and values of an encoder's output, written once per sequence."""

    heads: int
    dk: int
    dv: int


StateSpec = KV | Latent | Conv | Recurrent | CrossKV


@dataclass(frozen=True)
class CacheConfig:
    """Sizes of a cache.

    ``max_tokens`` is the longest sequence, ``max_sequences`` how many stand in the cache at once.
    ``layout`` is "paged" (blocks of ``block_size`` tokens shared by all sequences) or "continuous"
    (one block of ``max_tokens`` per sequence). ``total_tokens`` bounds a paged pool (default: every
    sequence may grow to ``max_tokens``). ``dtype`` is what rows are held in, a dtype or a name of
    `cache_rows` (``"q8_0"``, ``"fp8"``), float32 when None; ``mode`` is that of attention over
    them ("exact" or "fast", see `ops.paged_attention`). The pools' memory is taken from the system
    as it is first touched, so a large window costs nothing until it is used."""

    max_tokens: int
    max_sequences: int = 1
    layout: str = "paged"
    block_size: int = 64
    total_tokens: int | None = None
    dtype: Any = None
    device: Any = "cpu"
    mode: str = "exact"

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_sequences", "block_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidArgumentError(f"CacheConfig: {name} must be at least 1, got {value!r}")
        if self.layout not in ("paged", "continuous"):
            raise InvalidArgumentError(
                f"CacheConfig: layout '{self.layout}' is none; choose 'paged' or 'continuous'"
            )

    @property
    def rows(self) -> RowFormat:
        """The form of the pools' rows."""
        return row_format("float32" if self.dtype is None else self.dtype)

    @property
    def tokens_per_block(self) -> int:
        """Tokens that one block holds."""
        return self.max_tokens if self.layout == "continuous" else self.block_size

    @property
    def blocks_per_sequence(self) -> int:
        """Blocks of a sequence at its longest."""
        return -(-self.max_tokens // self.tokens_per_block)

    @property
    def num_blocks(self) -> int:
        """Blocks of a pool."""
        most = self.blocks_per_sequence * self.max_sequences
        if self.layout == "continuous" or self.total_tokens is None:
            return most
        return max(1, min(most, -(-self.total_tokens // self.block_size)))


class CacheStep:
    """What a forward pass sees of the cache: it appends and attends, layer by layer.

    It holds tensors, real ones or traced ones; each append makes a new version of the pool, which
    later reads of the same step use. ``config`` is the cache's. ``max_tokens`` is the longest
    sequence that it takes: what depends on a model's window depends on that, never on a sequence's
    length. ``row_bounds`` ``[B + 1]`` says how many rows of each sequence are wanted, like
    ``cu_seqlens``, where those are its last tokens; None where they may be any."""

    def __init__(
        self,
        specs: Sequence[StateSpec],
        pools: Sequence[tuple[Any, Any]],
        slots: Any,
        block_table: Any,
        cu_seqlens: Any,
        kv_lens: Any,
        *,
        config: CacheConfig,
        row_bounds: Any = None,
    ) -> None:
        self._specs = specs
        self._mode = config.mode
        self.row_bounds = row_bounds
        self.max_tokens = config.max_tokens
        self.pools = list(pools)
        self._slots = slots
        self._block_table = block_table
        self._cu_seqlens = cu_seqlens
        self._kv_lens = kv_lens

    def attend(
        self,
        layer: int,
        q: Any,
        k: Any,
        v: Any,
        *,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        sinks: Any = None,
        causal: bool = True,
        last: bool = False,
        rotary: Any = None,
        positions: Any = None,
    ) -> Any:
        """Appends the new keys and values of a layer, then attends over all that the sequence
        holds.

        q ``[T, Hq, dk]``, k ``[T, H, dk]``, v ``[T, H, dv]`` -> ``[T, Hq, dv]``. Scores are ``scale
        * q.k``, capped by ``softcap * tanh(score / softcap)`` when it is not 0; ``window`` limits
        how far back a token sees; ``sinks`` ``[Hq]`` join the softmax's denominator. With ``last``
        q and the result are those of the rows wanted, the last tokens of their sequences. With
        ``rotary``, a `modules.rope.Rotary`, queries and keys come as they were projected and are
        turned by their tokens' ``positions`` on the way; q then has the tokens of k."""
        pools = self.pools[layer]
        if rotary is None:
            keys = crt.kv_append(pools[0], k, self._slots)
            values = crt.kv_append(pools[1], v, self._slots)
        else:
            q, keys, values = rotary.append(q, k, v, positions, pools, self._slots, self.max_tokens)
        self.pools[layer] = (keys, values)
        return crt.paged_attention(
            q,
            keys,
            values,
            self._block_table,
            self.row_bounds if last else self._cu_seqlens,
            self._kv_lens,
            sinks,
            causal=causal,
            window=window,
            mode=self._mode,
            scale=scale,
            softcap=softcap,
        )


def _anonymous(nbytes: int) -> mmap.mmap:
    """Zeroed private memory that becomes real page by page, as it is written: huge ones where the
    system has them, since a step of attention over small ones waits for page walks half its
    time."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, nbytes)
    lazily = getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | lazily)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a wish: it works without
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


@dataclass(frozen=True)
class Snapshot:
    """A sequence's content at one moment; it holds its blocks until ``KVCache.release``."""

    blocks: tuple[int, ...]
    length: int


def bytes_per_token(specs: Sequence[StateSpec], rows: RowFormat) -> int:
    """Bytes that one token takes over all layers."""
    held = [spec for spec in specs if isinstance(spec, KV)]
    return sum(spec.heads * (rows.nbytes(spec.dk) + rows.nbytes(spec.dv)) for spec in held)


class KVCache:
    """Sequences over paged pools.

    ``nbytes_per_token`` is over all layers. ``add`` and ``free`` a sequence; ``prepare_step``
    places new tokens; ``truncate``, ``fork``, ``snapshot`` and ``restore`` edit without touching
    the model. Handles of sequences are small integers."""

    def __init__(self, specs: Sequence[StateSpec], config: CacheConfig) -> None:
        for index, spec in enumerate(specs):
            if not isinstance(spec, KV):
                raise InvalidArgumentError(
                    f"KVCache: layer {index} declares {type(spec).__name__}; this cache holds KV "
                    "states",
                    "NOT_IMPLEMENTED_FOR_PARAM",
                )
        self.specs = tuple(specs)
        self.config = config
        self.rows = config.rows
        self.nbytes_per_token = bytes_per_token(specs, self.rows)
        self.block_size = config.tokens_per_block
        slots = config.num_blocks * self.block_size
        if slots > MAX_SLOTS:
            raise InvalidArgumentError(
                f"KVCache: {config.max_sequences} sequence(s) of {config.max_tokens} tokens are "
                f"{slots} slots, at most {MAX_SLOTS} can be numbered; lower max_tokens or "
                "max_sequences"
            )
        # Blocks are numbered as they are first needed: a large window costs no bookkeeping.
        self._references: list[int] = []
        self._returned: list[int] = []
        self._sequences: dict[int, SequenceState] = {}
        self._next = 0
        self._pools: list[tuple[Any, Any]] | None = None
        self._decode_step: StepArrays | None = None
        #: Lets go of blocks that are kept without need; False where there are none.
        self.reclaim: Callable[[], bool] = lambda: False

    # ---- pools
    @property
    def pools(self) -> list[tuple[Any, Any]]:
        """Per layer the key and value pools ``[blocks, block_size, heads, d]`` (of q8_0 the bytes
        of a row in place of d), made at first use."""
        if self._pools is None:
            self._pools = self._make_pools()
        return self._pools

    def _make_pools(self) -> list[tuple[Any, Any]]:
        rows, blocks = self.rows, self.config.num_blocks
        shapes = [
            (self.block_size, spec.heads, rows.width(size))
            for spec in self.specs
            if isinstance(spec, KV)
            for size in (spec.dk, spec.dv)
        ]
        if crt.Device(self.config.device).type == "cpu":
            pools = self._side_by_side(shapes)
        else:
            pools = [
                crt.zeros((blocks, *shape), dtype=rows.dtype, device=self.config.device)
                for shape in shapes
            ]
        return list(zip(pools[::2], pools[1::2], strict=True))

    def _side_by_side(self, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        """Pools in one stretch of memory in which the blocks of all layers with one number follow
        each other: so huge pages hold what a short text uses, and no more is taken."""
        blocks, dtype = self.config.num_blocks, self.rows.dtype
        starts = [0]  # within the blocks of one number, in elements
        for shape in shapes:
            starts.append(starts[-1] + -(-math.prod(shape) // ALIGNED) * ALIGNED)
        nbytes = max(1, blocks * starts[-1] * dtype.itemsize)
        try:
            memory = _anonymous(nbytes)
        except (OSError, ValueError, OverflowError) as error:
            raise OutOfMemoryError(
                f"KVCache: pools of {nbytes} bytes for {blocks * self.block_size} tokens cannot be "
                f"mapped ({error}); lower max_tokens or max_sequences"
            ) from error
        pools = []
        for start, shape in zip(starts, shapes, strict=False):
            # A tensor of its own for each: they share no element, so no write waits for another's.
            whole = crt.Tensor.from_buffer(memory, (blocks, starts[-1]), dtype, mapped=False)
            pools.append(whole[:, start : start + math.prod(shape)].unflatten(1, shape))
        return pools

    # ---- sequences
    @property
    def num_layers(self) -> int:
        """Layers with a state."""
        return len(self.specs)

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence and no snapshot holds."""
        return self.config.num_blocks - len(self._references) + len(self._returned)

    @property
    def free_sequences(self) -> int:
        """Sequences that may still be added."""
        return self.config.max_sequences - len(self._sequences)

    def add(self) -> int:
        """A new, empty sequence; returns its handle."""
        if len(self._sequences) >= self.config.max_sequences:
            raise InvalidArgumentError(
                f"KVCache.add: the cache holds {len(self._sequences)} sequence(s), at most "
                f"{self.config.max_sequences}; free one first",
                "FAILED_PRECONDITION",
            )
        handle = self._next
        self._next += 1
        self._sequences[handle] = SequenceState([])
        return handle

    def free(self, sequence: int) -> None:
        """Removes a sequence and gives its blocks back."""
        state = self._get(sequence)
        del self._sequences[sequence]
        state.edits += 1
        self._unref(state.blocks)

    def length(self, sequence: int) -> int:
        """Tokens that the sequence holds."""
        return self._get(sequence).length

    def truncate(self, sequence: int, length: int) -> None:
        """Forgets every token from position ``length`` on."""
        state = self._get(sequence)
        if not 0 <= length <= state.length:
            raise InvalidArgumentError(
                f"KVCache.truncate: length {length} is outside 0 .. {state.length}, the "
                "sequence's tokens"
            )
        keep = -(-length // self.block_size)
        self._unref(state.blocks[keep:])
        del state.blocks[keep:]
        state.length = length
        state.edits += 1

    def fork(self, sequence: int) -> int:
        """A second sequence with the same content; blocks are shared until one of them writes."""
        state = self._get(sequence)
        handle = self.add()
        for block in state.blocks:
            self._references[block] += 1
        state.edits += 1
        self._sequences[handle] = SequenceState(list(state.blocks), state.length)
        return handle

    def snapshot(self, sequence: int) -> Snapshot:
        """Remembers the sequence's content; release it when it is not needed any more."""
        state = self._get(sequence)
        for block in state.blocks:
            self._references[block] += 1
        state.edits += 1
        return Snapshot(tuple(state.blocks), state.length)

    def restore(self, sequence: int, snapshot: Snapshot) -> None:
        """Gives the sequence the content of a snapshot, which stays valid."""
        state = self._get(sequence)
        for block in snapshot.blocks:
            self._references[block] += 1
        self._unref(state.blocks)
        state.blocks = list(snapshot.blocks)
        state.length = snapshot.length
        state.edits += 1

    def release(self, snapshot: Snapshot) -> None:
        """Lets go of a snapshot's blocks."""
        self._unref(snapshot.blocks)

    def hold(self, length: int) -> Snapshot:
        """A snapshot of so many tokens whose rows are still to be written (`rows_of`)."""
        needed = -(-length // self.block_size)
        if not self._make_room(lambda: needed):
            raise OutOfMemoryError(
                f"KVCache.hold: {length} tokens need {needed} block(s) of {self.block_size} "
                f"tokens, {self.free_blocks} are free of {self.config.num_blocks}"
            )
        return Snapshot(tuple(self._take_block() for _ in range(needed)), length)

    def rows_of(self, snapshot: Snapshot, pool: Any) -> list[Any]:
        """Views of a pool's rows that a snapshot holds, block by block in the order of their
        tokens."""
        size = self.block_size
        return [
            pool[block, : min(size, snapshot.length - index * size)]
            for index, block in enumerate(snapshot.blocks)
        ]

    def reset(self) -> None:
        """Removes every sequence. Snapshots keep their blocks."""
        for handle in list(self._sequences):
            self.free(handle)

    def _get(self, sequence: int) -> SequenceState:
        state = self._sequences.get(sequence)
        if state is None:
            raise InvalidArgumentError(f"KVCache: there is no sequence {sequence!r}")
        return state

    def _unref(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            self._references[block] -= 1
            if self._references[block] == 0:
                self._returned.append(block)

    def _take_block(self) -> int:
        if self._returned:
            block = self._returned.pop()
            self._references[block] = 1
            return block
        self._references.append(1)
        return len(self._references) - 1

    # ---- steps
    def fits(self, sequences: Sequence[int], counts: Sequence[int]) -> bool:
        """Whether the blocks left hold these new tokens, when what is kept without need is let
        go."""
        return self._make_room(lambda: self._blocks_needed(sequences, counts))

    def _make_room(self, needed: Callable[[], int]) -> bool:
        """Lets go of what is kept without need until so many blocks are free; whether they are.
        Each time it is asked anew: a block that nobody else holds any more is not needed twice."""
        while needed() > self.free_blocks:
            if not self.reclaim():
                return False
        return True

    def _blocks_needed(self, sequences: Sequence[int], counts: Sequence[int]) -> int:
        needed = 0
        writers: dict[int, int] = {}  # of blocks that are shared
        for sequence, count in zip(sequences, counts, strict=True):
            state = self._get(sequence)
            needed += max(0, -(-(state.length + count) // self.block_size) - len(state.blocks))
            if count and self._writes_shared(state):
                block = state.blocks[state.length // self.block_size]
                writers[block] = writers.get(block, 0) + 1
        # Where nobody else holds a block, the last who writes keeps it.
        for block, count in writers.items():
            needed += min(count, self._references[block] - 1)
        return needed

    def _writes_shared(self, state: SequenceState) -> bool:
        index = state.length // self.block_size
        return index < len(state.blocks) and self._references[state.blocks[index]] > 1

    def prepare_step(self, sequences: Sequence[int], counts: Sequence[int]) -> StepArrays:
        """Makes room for ``counts[b]`` new tokens of ``sequences[b]`` and says where they go.

        The sequences' lengths grow at once; ``rollback`` undoes a step that did not run. Refused
        with both numbers: a sequence past ``max_tokens``, a pool without enough free blocks."""
        import numpy as np

        self._check_step(sequences, counts)
        size = self.block_size
        total = sum(counts)
        positions = np.empty(total, np.int32)
        slots = np.empty(total, np.int32)
        cu_seqlens = np.zeros(len(counts) + 1, np.int32)
        kv_lens = np.empty(len(counts), np.int32)
        states = []
        start = 0
        for row, (sequence, count) in enumerate(zip(sequences, counts, strict=True)):
            state = self._get(sequence)
            states.append(state)
            if self._writes_shared(state):
                self._copy_block(state, state.length // size)
            length = state.length + count
            while len(state.blocks) * size < length:
                state.blocks.append(self._take_block())
            stop = start + count
            if count == 1:
                # The decode step: two integers, no arrays.
                positions[start] = state.length
                slots[start] = state.blocks[state.length // size] * size + state.length % size
            else:
                new = np.arange(state.length, length, dtype=np.int32)
                positions[start:stop] = new
                blocks = np.asarray(state.blocks, np.int32)
                slots[start:stop] = blocks[new // size] * size + new % size
            cu_seqlens[row + 1] = stop
            kv_lens[row] = length
            state.length = length
            state.edits += 1
            start = stop
        width = max(len(state.blocks) for state in states)
        # Unused entries are never read; 0 keeps them inside the pool.
        block_table = np.zeros((len(states), width), np.int32)
        for row, state in enumerate(states):
            block_table[row, : len(state.blocks)] = state.blocks
        return StepArrays(
            positions,
            slots,
            block_table,
            cu_seqlens,
            kv_lens,
            sequences,
            states,
        )

    def prepare_decode(self, sequences: Sequence[int]) -> StepArrays:
        """`prepare_step` of one new token each. Where the step before had the same sequences and
        their last blocks have room, only its numbers move on: the arrays are valid until the next
        call."""
        step = self._decode_step
        if (
            step is None
            or step.sequences != tuple(sequences)
            or not step.goes_on(self.block_size, self.config.max_tokens)
        ):
            self._decode_step = step = self.prepare_step(sequences, [1] * len(sequences))
        else:
            step.move_on()
        return step

    def _check_step(self, sequences: Sequence[int], counts: Sequence[int]) -> None:
        if not sequences or len(sequences) != len(counts):
            raise InvalidArgumentError(
                f"KVCache.prepare_step: {len(sequences)} sequence(s) with {len(counts)} count(s); "
                "give one count "
                "of new tokens per sequence, and at least one"
            )
        if len(set(sequences)) != len(sequences):
            raise InvalidArgumentError(
                f"KVCache.prepare_step: a sequence stands twice in {list(sequences)}"
            )
        for sequence, count in zip(sequences, counts, strict=True):
            length = self._get(sequence).length
            if count < 1:
                raise InvalidArgumentError(
                    f"KVCache.prepare_step: sequence {sequence} has {count} new tokens, at least "
                    "1 is needed"
                )
            if length + count > self.config.max_tokens:
                raise InvalidArgumentError(
                    f"KVCache.prepare_step: sequence {sequence} holds {length} tokens, {count} "
                    "more pass the window "
                    f"of {self.config.max_tokens}"
                )
        if not self.fits(sequences, counts):
            needed = self._blocks_needed(sequences, counts)
            raise OutOfMemoryError(
                f"KVCache.prepare_step: the step needs {needed} block(s) of {self.block_size} "
                "tokens, "
                f"{self.free_blocks} are free of {self.config.num_blocks}"
            )

    def rollback(self, arrays: StepArrays) -> None:
        """Undoes a step that did not run or failed.

        What the step wrote lies past the lengths that the sequences have again, so a failed write
        has spoilt nothing that anyone reads.
        """
        counts = arrays.cu_seqlens[1:] - arrays.cu_seqlens[:-1]
        before = (arrays.kv_lens - counts).tolist()
        for sequence, length in zip(arrays.sequences, before, strict=True):
            self.truncate(sequence, length)
        for keys, values in self._pools or ():
            keys.clear_failure()
            values.clear_failure()

    def _copy_block(self, state: SequenceState, index: int) -> None:
        """Gives the sequence a block of its own in place of a shared one, with the rows that it
        uses."""
        old = state.blocks[index]
        new = self._take_block()
        self._references[old] -= 1
        state.blocks[index] = new
        used = state.length - index * self.block_size
        if not used:
            return
        for keys, values in self.pools:
            for pool in (keys, values):
                # As they lie: what a row holds is never converted again.
                crt.copy_(pool[new, :used], pool[old, :used])

    def step(self, arrays: StepArrays) -> CacheStep:
        """The step as a forward pass takes it, over tensors of the arrays (eager execution)."""
        fields = (arrays.slots, arrays.block_table, arrays.cu_seqlens, arrays.kv_lens)
        tensors = [crt.tensor(array, device=self.config.device) for array in fields]
        return CacheStep(self.specs, self.pools, *tensors, config=self.config)
