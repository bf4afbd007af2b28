"""The memory law: what a model needs on a device, from its configuration and the headers of its
files.

One budget is planned before anything is allocated; ``check`` prints it, every load logs it, and a
load that cannot fit is refused by it. The terms are those that loader, cache and engine allocate:

- *weights*: matrices that are multiplied with in the backend's layout (the published or converted
  bytes, rows rounded up to whole groups), other ones as mapped or converted, and of a table that is
  only gathered from the pages that a window of tokens can touch;
- *cache*: keys and values of every layer for the whole window, in blocks;
- *activations*: the arenas of the plans, which hold the widest moment of a block;
- *workspace*: what kernels take while they run, such as quantized activations;
- *tokenizer* and *base*: the vocabulary's tables, and the process itself.

The most that is resident at once is the largest of three moments: loading the weights (the pages
of the one that is being packed come on top), building the tokenizer, and running.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import clika_runtime as crt
from clika_runtime import nn
from clika_runtime.errors import OutOfMemoryError
from clika_runtime.io import TensorInfo

from .cache import CacheConfig, bytes_per_token
from .cache_rows import row_format
from .knobs import COMPUTE_DTYPES
from .modules import GatedMLP
from .sources import human_size

__all__ = [
    "Added",
    "Budget",
    "Place",
    "Request",
    "admit",
    "budget_of",
    "owners",
    "stays_as_published",
]

_log = logging.getLogger("clika_runtime.modelverse")

MIB = 1 << 20
#: Resident beside the model: interpreter (9 MiB), NumPy (20), the core and its pool (2), the model
#: library and its imports (8), tokenizers and templates (5), the headers of the files (4), graphs
#: and plans of the engine (14), and what compiling the modules leaves behind in the first process
#: after an installation (12). Measured with CPython 3.11 on Linux x86-64.
BASE = 74 * MIB
#: Bytes that a token of the vocabulary costs: an entry of either hash table of the library with its
#: text, and our tables of spellings; of a SentencePiece model also those of its own algorithms.
#: Measured over vocabularies of 49,152 to 262,144 tokens.
TOKEN_BYTES = 400
PIECE_BYTES = 520
#: Bytes of a merge while a byte-pair tokenizer is built: the merges as texts, pairs and table.
MERGE_BYTES = 460
#: The rows of a packed matrix are interleaved in groups of at most this many, those of a dense one
#: in groups of so many, where there are as many.
ROW_GROUP = 16
DENSE_ROW_GROUP = 32
#: Weights stand on huge pages, the last of which may be partly unused; small weights share regions.
HUGE_PAGE = 2 * MIB
REGION = 16 * MIB
REGION_SHARE = 4 * MIB
#: What the system maps around a byte of a file that is read: the step of a gathered table.
FAULT_AROUND = 64 << 10
#: Quantized activations: two bytes a code, a float32 scale and three sums for each 32 (integer
#: products), or float32 (exact products). The pool keeps blocks in steps of an eighth.
FAST_CODE_BYTES = 2 + 4 * 4 / 32
POOL_STEP = 9 / 8
#: Scratch and stack of a worker thread.
WORKER_BYTES = 512 << 10


@dataclass(frozen=True)
class Place:
    """A device to judge: its name, its kind, and its memory in bytes (None: not known)."""

    name: str
    kind: str = "cpu"
    memory: int | None = None


@dataclass(frozen=True)
class Request:
    """How the model is to be used: the sequence length judged, how many sequences, the layout of
    the cache and what its rows are held in (`cache_rows`), tokens of a step, how weights are
    multiplied."""

    window: int
    sequences: int = 1
    layout: str = "paged"
    cache_dtype: str = "float32"
    chunk: int = 512
    mode: str = "fast"


@dataclass(frozen=True)
class Added:
    """What adapters take in bytes: held for good, passing while they are bound; and the elements
    per token that their products need beside those of the base (0: they are merged)."""

    held: int = 0
    passing: int = 0
    widest: int = 0


@dataclass(frozen=True)
class Budget:
    """What a model needs on one device, in bytes.

    ``cache_per_token`` is over all layers; ``cache`` is for ``window`` tokens of each sequence.
    ``adapters`` are LoRA matrices, or the weights that they are merged into.
    ``total`` is the most that is resident at once, ``loading`` the part of that moment when the
    weights are brought in. ``context`` is the longest window that the checkpoint states and
    ``largest_window`` the longest that fits the device (0: none does); both it and ``fits`` are
    None where the device's memory is not known."""

    device: str
    memory: int | None
    window: int
    context: int
    cache_dtype: str
    weights: int
    adapters: int
    cache_per_token: int
    cache: int
    activations: int
    workspace: int
    tokenizer: int
    base: int
    loading: int
    total: int
    fits: bool | None
    largest_window: int | None

    def line(self) -> str:
        """The budget in one line."""
        verdict = ""
        if self.memory is not None:
            verdict = f" of {human_size(self.memory)}, {'fits' if self.fits else 'does not fit'}"
        return (
            f"memory on {self.device}: {human_size(self.total)}{verdict} (weights "
            f"{human_size(self.weights)}, cache {human_size(self.cache)} for {self.window} tokens "
            f"in {self.cache_dtype}, activations {human_size(self.activations)})"
        )

    def terms(self) -> dict[str, Any]:
        """Every term by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def admit(budget: Budget, where: object) -> None:
    """Logs the budget of a load and refuses one that cannot fit, with the numbers and the largest
    window that does.

    Raises ``OutOfMemoryError`` (``OUT_OF_MEMORY``)."""
    if budget.fits is False:
        if budget.largest_window:
            fix = f"the largest window that fits is {budget.largest_window} tokens (max_seq)"
        else:
            fix = "no window fits; take a smaller or more strongly quantized checkpoint"
        raise OutOfMemoryError(
            f"{where}: the model needs {human_size(budget.total)} on {budget.device} and the "
            f"device has {human_size(budget.memory or 0)}: weights {human_size(budget.weights)}, "
            f"cache {human_size(budget.cache)} for {budget.window} tokens "
            f"({budget.cache_per_token} bytes each), loading {human_size(budget.loading)}; {fix}"
        )
    _log.info("%s", budget.line())
    if _log.isEnabledFor(logging.DEBUG):
        for name, value in budget.terms().items():
            shown = value
            if isinstance(value, int) and not isinstance(value, bool):
                counted = name in ("window", "context", "largest_window", "cache_per_token")
                shown = value if counted else f"{value} ({human_size(value)})"
            _log.debug("memory %s = %s", name.replace("_", "-").ljust(15), shown)


# ---------------------------------------------------------------- the law
@dataclass(frozen=True)
class _Weights:
    """Bytes of the weights: held for good, the most while loading, and of tables whose rows are
    mapped as they are read."""

    held: int
    loading: int
    gathered: tuple[int, ...]  # bytes of each such table
    exact: bool  # whether a matrix is multiplied in float32


def budget_of(
    model: Any,
    tensors: Mapping[str, TensorInfo],
    names: Mapping[str, str],
    compute: Any,
    context: int,
    place: Place,
    request: Request,
    *,
    vocabulary: int,
    merges: int = 0,
    woven: Mapping[str, Any] | None = None,
    added: Added | None = None,
) -> Budget:
    """The budget of a tree whose slots ``names`` (slot -> tensor) are to be bound.

    ``compute`` is the dtype of activations. ``vocabulary`` and ``merges`` are the tokenizer's;
    ``woven`` names tensors that are made of several parts of the file; ``added`` is what adapters
    take."""
    added = added or Added()
    host = place.kind == "cpu"
    weights = _weights(model, tensors, names, compute, request.mode, host, woven or {})
    weights = replace(
        weights,
        held=weights.held + added.held,
        loading=max(weights.loading, weights.held + added.held + added.passing),
        exact=weights.exact or added.widest > 0,
    )
    packed = {slot for slot, name in names.items() if tensors[name].packed}
    parts = _Running(model, compute, request, weights, host, added.widest, packed)
    tokenizer = vocabulary * (TOKEN_BYTES if merges else PIECE_BYTES) if host else 0
    base = BASE if host else 0
    building = merges * MERGE_BYTES if host else 0
    fixed = base + weights.held
    loading = base + weights.loading

    def total(window: int) -> int:
        return max(loading, fixed + tokenizer + max(building, parts.bytes(window)))

    window = request.window
    most = total(window)
    largest = None if place.memory is None else _largest(total, context, place.memory)
    return Budget(
        device=place.name,
        memory=place.memory,
        window=window,
        context=context,
        cache_dtype=request.cache_dtype,
        weights=weights.held - added.held + parts.gathered(window),
        adapters=added.held,
        cache_per_token=parts.cache_per_token,
        cache=parts.cache(window),
        activations=parts.activations(window),
        workspace=parts.workspace(window),
        tokenizer=tokenizer + building,
        base=base,
        loading=loading,
        total=most,
        fits=None if place.memory is None else most <= place.memory,
        largest_window=largest,
    )


def _largest(total: Any, context: int, memory: int) -> int:
    """The longest window whose need is within the memory; the need grows with the window."""
    low, high = 0, context
    while low < high:
        middle = (low + high + 1) // 2
        if total(middle) <= memory:
            low = middle
        else:
            high = middle - 1
    return low


def owners(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """(slot, module, attribute) of every weight, in the order in which they are bound."""
    for prefix, module in model.named_modules():
        for attribute in module._parameters:
            if getattr(module, attribute) is not None:
                yield (f"{prefix}.{attribute}" if prefix else attribute), module, attribute


def _weights(
    model: Any,
    tensors: Mapping[str, TensorInfo],
    names: Mapping[str, str],
    compute: Any,
    mode: str,
    host: bool,
    woven: Mapping[str, Any],
) -> _Weights:
    """What `loader` makes of each tensor, in its order."""
    table = getattr(model, "table", None)
    tied = bool(getattr(model, "tied", False))
    held = peak = region = 0
    gathered: list[int] = []
    exact = mode == "exact"
    for slot, owner, attribute in owners(model):
        info = tensors[names[slot]]
        linear = isinstance(owner, nn.Linear) and attribute == "weight"
        multiplied = linear or (tied and owner is table)
        if isinstance(owner, nn.Embedding) and not multiplied and host:
            if info.name not in woven and _mapped(info, compute):
                gathered.append(info.nbytes)
                continue
        interleaved = host and multiplied and _is_interleaved(info)
        kept, passing = _bound(
            info, compute, isinstance(owner, nn.Embedding), multiplied, interleaved
        )
        exact = exact or (linear and not info.packed)
        if info.name in woven:
            passing += info.nbytes  # the parts, and what is made of them
        if multiplied and (info.packed or interleaved):
            if kept >= REGION_SHARE:
                kept = _pages(kept)
            else:  # small weights follow each other in regions
                before = region if region + kept <= REGION else 0
                region = before + kept
                kept = _pages(region) - _pages(before)
        if host:
            peak = max(peak, held + kept + passing)
        held += kept
    return _Weights(held, max(peak, held), tuple(gathered), exact)


def _pages(nbytes: int) -> int:
    return -(-nbytes // HUGE_PAGE) * HUGE_PAGE


def stays_as_published(dtype: str, compute: str, matrix: bool) -> bool:
    """Whether a dense weight stays a view of the mapped file: in the compute dtype, or a matrix in
    a short dtype under float32 (the kernels widen it exactly, and it takes half the memory)."""
    return dtype == compute or (matrix and compute == "float32" and dtype in COMPUTE_DTYPES)


def _mapped(info: TensorInfo, compute: Any) -> bool:
    return info.packed or stays_as_published(
        str(info.dtype), compute.name, matrix=len(info.shape) > 1
    )


def _is_interleaved(info: TensorInfo) -> bool:
    """Whether the host's backend takes a dense weight into its own layout."""
    return not info.packed and len(info.shape) == 2 and info.shape[0] >= DENSE_ROW_GROUP


def _bound(
    info: TensorInfo, compute: Any, table: bool, multiplied: bool, interleaved: bool
) -> tuple[int, int]:
    """(bytes that stay, those that are resident beside them while the tensor is bound: pages of the
    file, and what they were converted to)."""
    if info.packed and (multiplied or table):
        rows = max(1, info.shape[0])
        whole = -(-rows // ROW_GROUP) * ROW_GROUP if multiplied else rows
        return info.nbytes // rows * whole, info.nbytes
    if info.packed:  # read element by element: dequantized
        return info.numel * int(compute.nbytes(1)), info.nbytes
    if interleaved:
        rows, columns = info.shape
        element = info.nbytes // info.numel if _mapped(info, compute) else int(compute.nbytes(1))
        passing = info.nbytes + (0 if _mapped(info, compute) else info.numel * element)
        return -(-rows // DENSE_ROW_GROUP) * DENSE_ROW_GROUP * columns * element, passing
    if _mapped(info, compute):
        return info.nbytes, 0
    # Converted; the pages of the file stay in memory until the system wants them.
    return info.numel * int(compute.nbytes(1)) + info.nbytes, 0


class _Running:
    """What a running model takes beside its weights, as a function of the window."""

    def __init__(
        self,
        model: Any,
        compute: Any,
        request: Request,
        weights: _Weights,
        host: bool,
        added: int,
        packed: set[str],
    ) -> None:
        self._request = request
        self._tables = weights.gathered
        self._host = host
        self._element = int(compute.nbytes(1))
        self._vocabulary = int(model.vocab_size)
        self._widest, self._inputs = _widths(model, packed)
        self._widest += added
        self._code_bytes = 4.0 if weights.exact else FAST_CODE_BYTES
        rows = row_format(request.cache_dtype)
        self.cache_per_token = bytes_per_token(model.cache_specs(), rows)

    def cache(self, window: int) -> int:
        """Blocks of a window, for every sequence."""
        if window < 1:
            return 0
        asked = self._request
        config = CacheConfig(window, asked.sequences, asked.layout)
        total = config.num_blocks * config.tokens_per_block * self.cache_per_token
        # The pools stand on huge pages.
        return _pages(total) if self._host and total >= HUGE_PAGE else total

    def activations(self, window: int) -> int:
        """Arenas of the plans: one that takes a chunk, a second one where a text has several, and
        that of a decode step with its logits."""
        chunk = min(self._request.chunk, window)
        arena = chunk * self._widest * self._element
        rows = self._request.sequences
        decode = rows * (self._widest * self._element + 4 * self._vocabulary)
        return (2 if window > chunk else 1) * arena + 2 * decode

    def workspace(self, window: int) -> int:
        """Activations as the products read them, for each width of an input, and what the worker
        threads of the host have."""
        chunk = min(self._request.chunk, window)
        workers = crt.num_threads() * WORKER_BYTES if self._host else 0
        return int(chunk * sum(self._inputs) * self._code_bytes * POOL_STEP) + workers

    def gathered(self, window: int) -> int:
        """Pages of the tables that the tokens of a window can touch."""
        tokens = window * self._request.sequences
        return sum(min(table, tokens * FAULT_AROUND) for table in self._tables)

    def bytes(self, window: int) -> int:
        """All of it."""
        return (
            self.cache(window)
            + self.activations(window)
            + self.workspace(window)
            + self.gathered(window)
        )


def _widths(model: nn.Module, packed: set[str]) -> tuple[int, tuple[int, ...]]:
    """(elements per token at the widest moment of a block, the widths that products read).

    A block keeps the residual and, of the products that stand in one module (queries, keys, values
    and output; gate, up and down), for each the wider of what it reads and what it gives. Packed
    weights of a gate and its other half give one result, which the next product reads."""
    groups: dict[str, int] = {}
    inputs: set[int] = set()
    residual = 0
    counted: dict[str, int] = {}  # elements of layers that are not as above
    for name, module in model.named_modules():
        if isinstance(module, GatedMLP) and f"{name}.gate_proj.weight" in packed:
            counted[f"{name}.up_proj"] = 0
            counted[f"{name}.down_proj"] = module.down_proj.out_features
        if isinstance(module, nn.Embedding):
            residual = max(residual, int(module.weight.shape[1]))
        if not isinstance(module, nn.Linear):
            continue
        rows, columns = (int(size) for size in module.weight.shape)
        inputs.add(columns)
        parent = name.rpartition(".")[0]
        if parent:  # the head's logits are counted by themselves
            groups[parent] = groups.get(parent, 0) + counted.get(name, max(rows, columns))
    return residual + max(groups.values(), default=0), tuple(sorted(inputs))
