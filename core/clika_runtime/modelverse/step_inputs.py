"""The inputs of a step's plan: their names, dtypes and sizes, and host arrays that hold them.

Arrays are kept between steps while their shapes stay: what changes from one token to the next is
written into them. They lie side by side, so that a device gets all of a step in one copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import clika_runtime as crt
from clika_runtime._native._core import Mirror

from .sampling import GREEDY, Ahead, Choice, Sampling

__all__ = [
    "NO_WISHES",
    "SamplingArrays",
    "StepMemory",
    "Wishes",
    "choose",
    "mask_words",
    "sampling_inputs",
    "sampling_specs",
    "set_mask",
    "tensors_of",
]

# Arrays of a step begin on whole lines of caches and on what the widest loads of kernels ask for.
ALIGNED = 256

_Columns = dict[str, tuple[str, Callable[[Sampling], float]]]
# What `sample` reads of every row, in its order.
_PLAIN: _Columns = {
    "temperature": ("float32", lambda s: s.temperature),
    "top_p": ("float32", lambda s: s.top_p),
    "min_p": ("float32", lambda s: s.min_p),
    "top_k": ("int32", lambda s: s.top_k),
    "seed": ("int64", lambda s: s.seed),
    "index": ("int64", lambda s: 0),
}
_FILTERS: _Columns = {
    "top_n_sigma": ("float32", lambda s: s.top_n_sigma),
    "typical_p": ("float32", lambda s: s.typical_p),
    "xtc_probability": ("float32", lambda s: s.xtc_probability),
    "xtc_threshold": ("float32", lambda s: s.xtc_threshold),
}
_PENALTIES: _Columns = {
    "repetition": ("float32", lambda s: s.repetition_penalty),
    "frequency": ("float32", lambda s: s.frequency_penalty),
    "presence": ("float32", lambda s: s.presence_penalty),
    "dry_multiplier": ("float32", lambda s: s.dry_multiplier),
    "dry_base": ("float32", lambda s: s.dry_base),
    "dry_allowed": ("int32", lambda s: s.dry_allowed_length),
    "dry_limit": ("int32", lambda s: 0),
}
_MIROSTAT: _Columns = {
    "tau": ("float32", lambda s: s.mirostat_tau),
    "eta": ("float32", lambda s: s.mirostat_eta),
    "mu": ("float32", lambda s: 0.0),
    "version": ("int32", lambda s: s.mirostat_version),
}
_ADJUSTING: _Columns = {**_FILTERS, **_PENALTIES, **_MIROSTAT}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a step's rows ask for beside the common filters; one row that asks is enough, and costs
    the others nothing in their results. ``adjusts``: biases, penalties, the other filters or
    mirostat; ``masks``: tokens that are not allowed; ``logprobs``: log-probabilities; ``logits``:
    that the step tells the logits that it chose by, too."""

    adjusts: bool = False
    masks: bool = False
    logprobs: bool = False
    logits: bool = False


NO_WISHES = Wishes()


def mask_words(vocabulary: int) -> int:
    """Words of 32 bits that a mask over the vocabulary has."""
    return (vocabulary + 31) // 32


def set_mask(masks: Any, row: int, words: Any) -> None:
    """Writes the words of a mask into a row of a step's array: tokens beyond them are not allowed.
    None allows all."""
    if words is None:
        masks[row] = -1
    elif len(words) == masks.shape[1]:
        masks[row] = words
    else:
        masks[row, : len(words)] = words
        masks[row, len(words) :] = 0


def sampling_inputs(wishes: Wishes, vocabulary: int) -> list[tuple[str, str, tuple[Any, ...]]]:
    """The inputs that say how tokens are chosen: name, dtype, and dims, where ``"rows"``,
    ``"history"`` and ``"biases"`` stand for sizes that change."""
    columns = {**_PLAIN, **(_ADJUSTING if wishes.adjusts else {})}
    found: list[tuple[str, str, tuple[Any, ...]]] = [
        (name, kind, ("rows",)) for name, (kind, _) in columns.items()
    ]
    if wishes.adjusts:
        found += [
            ("history", "int32", ("history",)),
            ("history_spans", "int32", ("rows", 3)),
            ("bias_ids", "int32", ("biases",)),
            ("bias_values", "float32", ("biases",)),
            ("bias_spans", "int32", ("rows", 2)),
        ]
    if wishes.masks:
        found.append(("mask", "int32", ("rows", mask_words(vocabulary))))
    return found


def choose(of: dict[str, Any], logits: Any, wishes: Wishes, top: int) -> list[Any]:
    """The part of a step's forward pass behind the head: the ids of the rows; with ``adjusts`` the
    next state of mirostat; with ``logprobs`` the results of `top_logprobs` for ``top`` tokens; with
    ``logits`` those. `sampling` says the order of the stages."""
    told = logits
    if wishes.logprobs and (wishes.adjusts or wishes.masks):
        told = crt.copy(logits)  # the operators work in place
    if wishes.adjusts:
        biases = (of[name] for name in ("bias_ids", "bias_values", "bias_spans"))
        logits = crt.bias_logits(logits, *biases)
        history = (of[name] for name in ("history", "history_spans", *_PENALTIES))
        logits = crt.penalize_logits(logits, *history)
    if wishes.masks:
        logits = crt.mask_logits(logits, of["mask"])
    filters = [of[name] for name in _FILTERS] if wishes.adjusts else []
    results = [crt.sample(logits, *(of[name] for name in _PLAIN), *filters)]
    if wishes.adjusts:
        columns = (
            of[name] for name in ("temperature", "tau", "eta", "mu", "seed", "index", "version")
        )
        results = list(crt.mirostat(logits, results[0], *columns))
    if wishes.logprobs:
        results += crt.top_logprobs(told, results[0], top)
    return [*results, logits] if wishes.logits else results


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where stretches of these sizes in bytes begin beside each other, and the bytes of all."""
    starts = []
    stop = 0
    for size in sizes:
        starts.append(stop)
        stop += -(-size // ALIGNED) * ALIGNED
    return starts, stop


def tensors_of(arrays: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Tensors of a device over the contents of host arrays, which go there in one copy. On the CPU
    they are tensors over the arrays themselves."""
    import numpy as np

    if device.type == "cpu":
        return {name: crt.from_numpy(array) for name, array in arrays.items()}
    starts, nbytes = _places([array.nbytes for array in arrays.values()])
    # Ordinary memory: it may go as soon as the copy is issued.
    mirror = Mirror(nbytes, device, direct=False)
    block = np.frombuffer(mirror, np.uint8)
    tensors = {}
    for start, (name, array) in zip(starts, arrays.items(), strict=True):
        block[start : start + array.nbytes].view(array.dtype)[:] = array.reshape(-1)
        kind = crt.dtypes.by_name(array.dtype.name)
        tensors[name] = mirror.tensor(start, array.shape, kind)
    mirror.send()
    return tensors


class StepMemory:
    """``arrays`` of the host by name, and the ``tensors`` that a plan reads them by.

    On the CPU these are the same bytes. On a device they are a copy, which `send` renews: then the
    arrays are left alone until a result of the step has been read. `grow` moves all of them."""

    def __init__(self, device: Any, specs: Sequence[tuple[str, str, Sequence[int]]]) -> None:
        self._device = device
        self._specs = {name: (kind, tuple(shape)) for name, kind, shape in specs}
        self._mirror: Mirror | None = None
        self.arrays: dict[str, Any] = {}
        self.tensors: dict[str, Any] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        import numpy as np

        nbytes = [
            math.prod(shape) * np.dtype(kind).itemsize for kind, shape in self._specs.values()
        ]
        starts, total = _places(nbytes)
        if self._device.type == "cpu":
            block = np.zeros(total, np.uint8)
        else:
            self._mirror = Mirror(total, self._device)
            block = np.frombuffer(self._mirror, np.uint8)
        for start, size, (name, (kind, shape)) in zip(
            starts, nbytes, self._specs.items(), strict=True
        ):
            array = block[start : start + size].view(kind).reshape(shape)
            self.arrays[name] = array
            if self._mirror is None:
                self.tensors[name] = crt.from_numpy(array)
            else:
                self.tensors[name] = self._mirror.tensor(start, shape, crt.dtypes.by_name(kind))

    def grow(self, name: str, size: int) -> None:
        """Makes the array of one dim longer; the others keep their contents."""
        kind, _ = self._specs[name]
        self._specs[name] = (kind, (size,))
        held = dict(self.arrays)
        self._lay_out()
        for other, array in held.items():
            if other != name:
                self.arrays[other][...] = array

    def send(self) -> None:
        """Brings the arrays to the device, in the order of the calls there."""
        if self._mirror is not None:
            self._mirror.send()


def sampling_specs(
    rows: int, wishes: Wishes, vocabulary: int
) -> list[tuple[str, str, tuple[int, ...]]]:
    """`sampling_inputs` with the sizes that the arrays begin with."""
    sizes = {"rows": rows, "history": 256, "biases": 16}
    return [
        (name, kind, tuple(sizes.get(dim, dim) for dim in dims))
        for name, kind, dims in sampling_inputs(wishes, vocabulary)
    ]


class SamplingArrays:
    """The arrays of `sampling_inputs` for a number of rows, in the memory of a step that has them,
    else in one of their own.

    ``set`` takes what every row is to be chosen by; only what differs from the call before is
    written."""

    def __init__(
        self, rows: int, wishes: Wishes, vocabulary: int, memory: StepMemory | None = None
    ) -> None:
        if memory is None:
            memory = StepMemory(crt.Device("cpu"), sampling_specs(rows, wishes, vocabulary))
        self.wishes = wishes
        self.arrays = memory.arrays
        self._memory = memory
        self._columns = {**_PLAIN, **(_ADJUSTING if wishes.adjusts else {})}
        self._rows: list[Sampling | None] = [None] * rows
        self._masked = [True] * rows  # zeros allow nothing
        self._reads_history = self._has_mirostat = False

    def set(self, rows: Sequence[tuple[Sampling, int, Choice | Ahead | None]]) -> None:
        """What the rows are chosen by: settings, number of the token in the reply, state."""
        arrays = self.arrays
        arrays["index"][:] = [index for _, index, _ in rows]
        held = self._rows
        new = False
        for row, (sampling, _, _) in enumerate(rows):
            if held[row] is not sampling:
                held[row] = sampling
                new = True
                for name, (_, value) in self._columns.items():
                    if name != "index":
                        arrays[name][row] = value(sampling)
        if self.wishes.adjusts:
            if new:
                settings = [sampling for sampling, _, _ in rows]
                self._reads_history = any(sampling.reads_history for sampling in settings)
                self._has_mirostat = any(sampling.mirostat_tau > 0.0 for sampling in settings)
                self._set_biases()
            choices = [choice for _, _, choice in rows]
            if new or self._reads_history:
                self._set_history(choices)
            if new or self._has_mirostat:
                arrays["mu"][:] = [choice.mu if choice else 0.0 for choice in choices]
        if self.wishes.masks:
            for row, (_, _, choice) in enumerate(rows):
                words = None if choice is None else choice.words
                if words is not None or self._masked[row]:
                    set_mask(arrays["mask"], row, words)
                    self._masked[row] = words is not None

    def _set_biases(self) -> None:
        spans = []
        pairs: list[tuple[int, float]] = []
        for sampling in self._rows:
            bias = (sampling or GREEDY).bias
            spans.append((len(pairs), len(pairs) + len(bias)))
            pairs += bias
        self._room("bias_ids", len(pairs))
        self._room("bias_values", len(pairs))
        self.arrays["bias_ids"][: len(pairs)] = [token for token, _ in pairs]
        self.arrays["bias_values"][: len(pairs)] = [value for _, value in pairs]
        self.arrays["bias_spans"][:] = spans

    def _set_history(self, choices: list[Choice | Ahead | None]) -> None:
        import numpy as np

        parts: list[Any] = []
        spans = []
        stop = 0
        for choice in choices:
            start = stop
            reply = 0
            if choice is not None and choice.sampling.reads_history:
                part, reply = choice.window()
                parts.append(part)
                stop += len(part)
            spans.append((start, start + reply, stop))
        if stop:
            self._room("history", stop)
            np.concatenate(parts, out=self.arrays["history"][:stop])
        self.arrays["history_spans"][:] = spans
        self.arrays["dry_limit"][:] = [choice.run_limit if choice else 0 for choice in choices]

    def _room(self, name: str, size: int) -> None:
        """A larger array where one is too small: sizes are powers of 2, so they change seldom."""
        if size > len(self.arrays[name]):
            self._memory.grow(name, 1 << (size - 1).bit_length())
