"""Compiled constraints, and the state of each sequence that keeps to one."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clika_runtime._native import _core
from clika_runtime.errors import ClikaRTError, InvalidArgumentError, told
from clika_runtime.tokenizer import Tokenizer

from .classes import ClassState, class_state
from .library import Vocabulary, compile_grammar, library
from .spec import ConstraintSpec

__all__ = ["Constraint", "ConstraintState", "compile_constraint", "fill_masks", "mask_words"]

#: Compiled constraints that are kept per tokenizer.
KEPT = 32
#: Of a tokenizer: one per model, and one for who names no model.
KEPT_VOCABULARIES = 4
#: Masks cost 5 microseconds or half a millisecond: when so many seconds have gone into those of a
#: step, the library's threads take the rest. For less, waking them costs more than they save.
ALONE = 0.0002
MAX_THREADS = 32

Masks = NDArray[np.int32]
#: Words that have one bit each.
_BITS = (1 << np.arange(32, dtype=np.uint32)).view(np.int32)


def mask_words(vocab_size: int) -> int:
    """Words of a packed mask: ``ceil(V / 32)``. Token ``t`` is bit ``t % 32`` of word
    ``t // 32``."""
    return (vocab_size + 31) // 32


class Constraint:
    """A compiled constraint for one vocabulary. ``start`` gives the state of a sequence."""

    def __init__(self, vocabulary: Vocabulary, spec: ConstraintSpec) -> None:
        self.spec = spec
        self._vocabulary = vocabulary
        self._matcher = compile_grammar(vocabulary, spec)
        self._by_class = class_state(vocabulary, spec)
        self._lock = threading.Lock()
        #: Set when the bounds of a step were passed: what it has grown to is not kept then.
        self.exhausted = False

    @property
    def vocab_size(self) -> int:
        """Ids of the logits that the masks are for."""
        return self._vocabulary.size

    def start(self) -> ConstraintState:
        """A state at the beginning of a text."""
        with self._lock:
            by_class = self._by_class and self._by_class.fork()
            return ConstraintState(self, self._matcher.deep_copy(), by_class)

    def __repr__(self) -> str:
        return f"Constraint({self.spec.kind}, {self.spec.text[:60]!r})"


class ConstraintState:
    """Where one sequence stands in its constraint. One thread at a time.

    A constraint is about the bytes of the tokens. (Where a tokenizer drops the space that begins a
    text, that space is a byte too.)
    """

    __slots__ = ("_by_class", "_constraint", "_matcher", "_taken", "_vocabulary")

    def __init__(
        self, constraint: Constraint, matcher: Any, by_class: ClassState | None, taken: int = 0
    ) -> None:
        self._constraint = constraint
        self._vocabulary = constraint._vocabulary
        self._matcher = matcher
        self._by_class = by_class
        self._taken = taken

    @property
    def vocab_size(self) -> int:
        """Ids of the logits that the masks are for."""
        return self._vocabulary.size

    @property
    def stop_ids(self) -> frozenset[int]:
        """The tokens that end a text, where it may end."""
        return self._vocabulary.ends

    @property
    def accepting(self) -> bool:
        """Whether the text may end here. A stop id is admitted then."""
        return bool(self._matcher.is_accepting())

    @property
    def finished(self) -> bool:
        """Whether nothing may follow, because the text is complete or because a stop id ended
        it."""
        return bool(self._matcher.is_stopped())

    def mask(self) -> Masks:
        """The tokens that may come next, packed: int32 ``[ceil(V / 32)]``. Errors: as
        ``fill_masks`` lists."""
        masks: Masks = np.empty((1, mask_words(self.vocab_size)), np.int32)
        errors = fill_masks([self], masks)
        if errors:
            raise errors[0]
        return masks.reshape(-1)

    def accept(self, token: int) -> None:
        """Go on by a token. `InvalidArgumentError` for one that the mask does not admit; the state
        stays as it was."""
        index = _checked(token, self.vocab_size)
        if self._matcher.try_consume_tokens([index]) != 1:
            self._check()
            raise InvalidArgumentError(
                f"constraint: token {index} ({self._vocabulary.tokens[index]!r:.60}) does not "
                f"follow here"
            )
        if self._by_class is not None:
            self._by_class.accept(index)
        self._taken += 1

    def first_admitted(self, tokens: Sequence[int]) -> int:
        """The index of the first of the tokens that `mask` has, -1 where it has none of them;
        without making the mask. Negative numbers are no tokens."""
        matcher, size = self._matcher, self.vocab_size
        for place, token in enumerate(tokens):
            if token >= 0 and matcher.validate_tokens([_checked(token, size)]) == 1:
                # Where the text that follows is forced, its own token alone may come next.
                forced = matcher.compute_ff_tokens()
                if not forced or forced[0] == token:
                    return place
                return tokens.index(forced[0]) if forced[0] in tokens else -1
        return -1

    def admitted(self, tokens: Sequence[int]) -> int:
        """How many of the tokens may follow, from the first on. The state stays as it was."""
        count: int = self._matcher.validate_tokens(
            [_checked(token, self.vocab_size) for token in tokens]
        )
        return count

    def forced(self) -> list[int]:
        """The tokens that must come next, as far as the constraint leaves no choice; often
        none."""
        tokens: list[int] = self._matcher.compute_ff_tokens()
        return tokens

    def rollback(self, count: int) -> None:
        """Take back the last ``count`` tokens, those that ended the text included."""
        if not 0 <= count <= self._taken:
            raise InvalidArgumentError(
                f"constraint: rollback of {count} tokens, {self._taken} have been accepted"
            )
        if count and not self._matcher.rollback(count):
            self._check()
            raise InvalidArgumentError(f"constraint: rollback of {count} tokens is not possible")
        if self._by_class is not None:
            self._by_class.rollback(count)
        self._taken -= count

    @staticmethod
    def fill(
        states: Sequence[ConstraintState],
        masks: Masks,
        drafts: Sequence[Sequence[int]] | None = None,
    ) -> dict[int, ClikaRTError]:
        """The masks of several states at once: `fill_masks`."""
        return fill_masks(states, masks, drafts)

    def fork(self) -> ConstraintState:
        """A second state at the same place."""
        by_class = self._by_class and self._by_class.fork()
        return ConstraintState(self._constraint, self._matcher.deep_copy(), by_class, self._taken)

    def _check(self) -> None:
        error = _failure(self._matcher)
        if error is not None:
            self._constraint.exhausted = True
            raise error


def _checked(token: Any, size: int) -> int:
    if type(token) is int and 0 <= token < size:
        return token
    try:
        index = int(token.__index__())
    except (AttributeError, TypeError):
        index = -1
    if not 0 <= index < size:
        raise InvalidArgumentError(
            f"constraint: a token is a whole number from 0 to {size - 1}, got {told(token)}"
        )
    return index


def _failure(matcher: Any) -> ClikaRTError | None:
    if not matcher.is_error():
        return None
    text = " ".join(matcher.get_error().replace("<non-verbose/>", "").split())
    text = text.replace("NoExtensionBias", "no token of the vocabulary may come next")
    return InvalidArgumentError(f"constraint: it cannot be followed further: {text[:300]}")


def fill_masks(
    states: Sequence[ConstraintState | None],
    masks: Masks,
    drafts: Sequence[Sequence[int]] | None = None,
) -> dict[int, ClikaRTError]:
    """The masks of several sequences, in native code: which tokens may come next.

    ``masks`` is int32 ``[R, ceil(V / 32)]``, C-contiguous. Without ``drafts`` row ``i`` belongs to
    ``states[i]``; None admits everything. With ``drafts`` a sequence takes one row more than its
    draft has tokens, one sequence after the other: row ``k`` is the mask behind ``k`` of them; rows
    behind a token that does not follow are zero. The states stay where they are.

    Result: errors by index of the state, for constraints whose bounds of time or memory were
    passed; their rows are zero, other rows are not concerned. `InvalidArgumentError` for an array
    that does not fit.
    """
    counts = [1] * len(states) if drafts is None else [1 + len(draft) for draft in drafts]
    if len(counts) != len(states):
        raise InvalidArgumentError(
            f"fill_masks: {len(states)} states and {len(counts)} drafts are given"
        )
    vocabulary = next((state._vocabulary for state in states if state is not None), None)
    _check_masks(masks, sum(counts), None if vocabulary is None else mask_words(vocabulary.size))
    work: list[_Item] = []
    failed: list[tuple[int, int, int, ConstraintState]] = []
    row = 0
    for index, state in enumerate(states):
        count = counts[index]
        if state is None or vocabulary is None:
            masks[row : row + count] = -1
        elif state._vocabulary.size != vocabulary.size:
            raise InvalidArgumentError("fill_masks: the states are for different vocabularies")
        elif state._matcher.is_error():
            failed.append((index, row, count, state))
        else:
            work.append((state, row, () if drafts is None else drafts[index], index))
        row += count
    if vocabulary is not None and work:
        _compute(work, masks, vocabulary)
    for state, row, draft, index in work:
        if state._matcher.is_error():
            state._constraint.exhausted = True
            failed.append((index, row, 1 + len(draft), state))
    errors: dict[int, ClikaRTError] = {}
    for index, row, count, state in failed:
        masks[row : row + count] = 0
        error = _failure(state._matcher)
        if error is not None:
            errors[index] = error
    return errors


#: A state, its first row, the draft that it is asked along, and its place among all states.
_Item = tuple[ConstraintState, int, Sequence[int], int]


def _compute(work: Sequence[_Item], masks: Masks, vocabulary: Vocabulary) -> None:
    target = masks
    words = mask_words(len(vocabulary.tokens))
    if words != masks.shape[1]:  # the end has a word of its own
        target = np.zeros((masks.shape[0], words), np.int32)
    along = []
    alone = []
    for state, row, draft, _ in work:
        if draft:
            target[row : row + 1 + len(draft)] = 0
            along.append((state._matcher, row, list(draft)))
            continue
        known = None if state._by_class is None else state._by_class.mask()
        if known is not None:
            target[row] = known
            continue
        forced = state._matcher.compute_ff_tokens()
        if forced:  # one token alone may come next
            target[row] = 0
            target[row, forced[0] // 32] = _BITS[forced[0] % 32]
        else:
            alone.append((state._matcher, row))
    start, pitch = target.ctypes.data, 4 * words
    if along:
        _executor().unsafe_compute_mask_ptr_with_draft_token(along, start, pitch, len(target))
    limit = time.perf_counter() + ALONE
    for done, (matcher, row) in enumerate(alone):
        if done + 1 < len(alone) and time.perf_counter() > limit:
            _executor().unsafe_compute_mask_ptr(alone[done:], start, pitch, len(target))
            break
        matcher.unsafe_compute_mask_ptr(start + row * pitch, pitch)
    if vocabulary.padded:
        rows = [place for _, row, draft, _ in work for place in range(row, row + 1 + len(draft))]
        if target is not masks:
            masks[rows] = target[rows, :-1]
        else:
            masks[rows, -1] &= np.int32((1 << (vocabulary.size % 32)) - 1)


def _check_masks(masks: Any, rows: int, words: int | None) -> None:
    good = (
        isinstance(masks, np.ndarray)
        and masks.dtype == np.int32
        and masks.ndim == 2
        and masks.flags.c_contiguous
        and masks.flags.writeable
        and masks.shape[0] >= rows
        and (words is None or masks.shape[1] == words)
    )
    if not good:
        found = (
            f"{masks.dtype} {list(masks.shape)}"
            if isinstance(masks, np.ndarray)
            else type(masks).__name__
        )
        width = "ceil(V / 32)" if words is None else words
        raise InvalidArgumentError(
            f"fill_masks: the masks must be int32 [{rows} or more, {width}], C-contiguous, got "
            f"{found}"
        )


_executors: dict[int, Any] = {}


def _executor() -> Any:
    """The library's threads; a process that was forked makes its own."""
    process = os.getpid()
    found = _executors.get(process)
    if found is None:
        _executors.clear()
        threads = min(MAX_THREADS, _core.num_threads())
        found = _executors.setdefault(process, library().LLExecutor(threads))
    return found


#: How many ids the logits have, and those that end a text.
_Ids = tuple[int, frozenset[int]]


class _Cache:
    """What has been made for one tokenizer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.vocabularies: OrderedDict[_Ids, Vocabulary] = OrderedDict()
        self.constraints: OrderedDict[tuple[_Ids, ConstraintSpec], Constraint] = OrderedDict()


_caches: weakref.WeakKeyDictionary[Tokenizer, _Cache] = weakref.WeakKeyDictionary()
_caches_lock = threading.Lock()


def compile_constraint(
    tokenizer: Tokenizer,
    spec: ConstraintSpec,
    vocab_size: int | None = None,
    stop_ids: Iterable[int] | None = None,
) -> Constraint:
    """Compile a constraint for a tokenizer, or find it: the last 32 of each tokenizer are kept.

    ``vocab_size`` counts the model's logits, default the tokenizer's tokens; ``stop_ids`` end a
    text, default the tokenizer's. Errors:
    `InvalidArgumentError` with the reason for what cannot be compiled, `UnsupportedError` for a
    tokenizer whose tokens have no bytes of their own, and for a missing ``llguidance``.

    >>> constraint = compile_constraint(tokenizer, ConstraintSpec.regex("[ab]+"))  # doctest: +SKIP
    >>> constraint.start().mask().shape  # doctest: +SKIP
    (1536,)
    """
    size = tokenizer.vocab_size if vocab_size is None else vocab_size
    if not 1 <= size < 1 << 24:
        raise InvalidArgumentError(f"constraint: vocab_size must be in 1 .. 2^24 - 1, got {size}")
    ids = (size, tokenizer.stop_ids if stop_ids is None else frozenset(stop_ids))
    with _caches_lock:
        cache = _caches.setdefault(tokenizer, _Cache())
    key = (ids, spec)
    with cache.lock:
        for other in [old for old, made in cache.constraints.items() if made.exhausted]:
            del cache.constraints[other]
        found = cache.constraints.get(key)
        if found is not None:
            cache.constraints.move_to_end(key)
            return found
        if ids not in cache.vocabularies:
            cache.vocabularies[ids] = Vocabulary(tokenizer, *ids)
            while len(cache.vocabularies) > KEPT_VOCABULARIES:
                cache.vocabularies.popitem(last=False)
        vocabulary = cache.vocabularies[ids]
    made = Constraint(vocabulary, spec)  # other requests do not wait for it
    with cache.lock:
        made = cache.constraints.setdefault(key, made)
        while len(cache.constraints) > KEPT:
            cache.constraints.popitem(last=False)
    return made
