"""Running a model step by step: recorded plans, one native call per step.

A step takes new tokens of several sequences, packed one after the other, and gives a token id for
each sequence that asks for one. The forward pass of a step is recorded once per class (kind, token
bucket, batch bucket) with symbolic sizes, and compiled to a plan; no length of a cache is part of a
class. By the numerics policy the class a step runs in never shows in its results."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import clika_runtime as crt
from clika_runtime._native._steps import DecodeRows, StepArrays, Work
from clika_runtime.errors import ClikaRTError, InvalidArgumentError

from .cache import CacheStep, KVCache
from .knobs import MAX_BIASES, MAX_DRAFT
from .sampling import GREEDY, Ahead, Choice, Sampling, TokenLogprob, look
from .step_inputs import (
    NO_WISHES,
    SamplingArrays,
    StepMemory,
    Wishes,
    choose,
    mask_words,
    sampling_inputs,
    sampling_specs,
    set_mask,
    tensors_of,
)

__all__ = ["Engine", "Sampling", "Work"]

# Plans kept at once; the one used longest ago goes first.
MAX_PLANS = 32
BATCH_BUCKETS = (1, 4, 16, 64, 256, 1024)
# Logits of a scoring step are [tokens, vocabulary] in float32: keep them near this size.
SCORE_BYTES = 32 << 20
# The likeliest tokens that a step tells where log-probabilities are asked for.
TOP_LOGPROBS = 20

# The tokens that a mask is asked about one by one, before it is made.
LIKELIEST = 64

# Rows of a step that looks at drafts.
MAX_ROWS = 64

_Row = tuple[Sampling, int, Choice | Ahead | None]


class PlanClass(NamedTuple):
    """What a plan serves: ``decode`` (one token per sequence, an id each), ``verify`` (any tokens,
    an id behind each of them), ``sample`` (any tokens, ids for the rows wanted), ``fill`` (any
    tokens, nothing wanted), ``logits`` (any tokens, logits of the rows wanted); and how."""

    kind: str
    tokens: int
    batch: int
    wishes: Wishes = NO_WISHES


class _Buffers:
    """The memory of decode steps, reused while their shapes stay."""

    def __init__(
        self, batch: int, width: int, wishes: Wishes, vocabulary: int, device: Any
    ) -> None:
        import numpy as np

        self.memory = StepMemory(
            device,
            [
                ("tokens", "int32", (batch,)),
                ("positions", "int32", (batch,)),
                ("slots", "int32", (batch,)),
                ("block_table", "int32", (batch, width)),
                ("cu_seqlens", "int32", (batch + 1,)),
                ("kv_lens", "int32", (batch,)),
                *sampling_specs(batch, wishes, vocabulary),
            ],
        )
        self.sampling = SamplingArrays(batch, wishes, vocabulary, self.memory)
        self.step: StepArrays | None = None  # whose block table stands in the array
        self.memory.arrays["cu_seqlens"][:] = np.arange(batch + 1)

    def set(self, work: Sequence[Work], step: StepArrays) -> dict[str, Any]:
        """The inputs of the next step."""
        held = self.memory.arrays
        held["tokens"][:] = [item.tokens[0] for item in work]
        if step.positions is not held["positions"]:
            step.lie_in(held["positions"], held["slots"], held["kv_lens"])
        if self.step is not step:
            # What stands behind the step's own width is not read.
            held["block_table"][:, : step.block_table.shape[1]] = step.block_table
            self.step = step
        self.sampling.set([(item.sampling or GREEDY, item.index, item.choice) for item in work])
        self.memory.send()
        return self.memory.tensors


class _Again:
    """A decode step whose rows carry nothing from token to token: what it takes to run the next one
    of the same rows. `DecodeRows.follow` says whether that is asked for."""

    def __init__(
        self, work: Sequence[Work], arrays: StepArrays, buffers: _Buffers, plan: Any, cache: KVCache
    ) -> None:
        held = buffers.memory
        samplings = [item.sampling for item in work]
        self.rows = DecodeRows(
            arrays,
            samplings,
            held.arrays["tokens"],
            held.arrays["index"],
            cache.block_size,
            cache.config.max_tokens,
        )
        self.arrays = arrays
        self._memory = held
        self._plan = plan
        self._inputs = [held.tensors[name] for name in plan.input_names()]

    def run(self, work: Sequence[Work], _: StepArrays) -> list[int]:
        """The step that was written into the arrays."""
        self._memory.send()
        return _results(self._plan.run(self._inputs), work, NO_WISHES)


class Engine:
    """Plans and cache of one model.

    engine = Engine(model, KVCache(model.cache_specs(), CacheConfig(2048)))
    sequence = engine.cache.add()
    ids = engine.step([Work(sequence, prompt_ids, Sampling())])
    """

    def __init__(
        self, model: Any, cache: KVCache, *, chunk: int = 512, max_plans: int = MAX_PLANS
    ) -> None:
        if chunk < 1:
            raise InvalidArgumentError(f"Engine: chunk must be at least 1, got {chunk}")
        self.model = model
        self.cache = cache
        self.chunk = min(chunk, cache.config.max_tokens)
        self.max_plans = max_plans
        self.device = crt.Device(cache.config.device)
        self.top_logprobs = min(TOP_LOGPROBS, model.vocab_size)
        self.lock = threading.RLock()
        self.compiled = 0  # plans made so far
        self._plans: OrderedDict[PlanClass, Any] = OrderedDict()
        self._buffers: OrderedDict[tuple[int, int, bool, bool], _Buffers] = OrderedDict()
        self._again: _Again | None = None  # where the plan used last is that of a decode step

    # ---- classes
    def _batch_bucket(self, batch: int) -> int:
        for bucket in BATCH_BUCKETS:
            if batch <= bucket:
                return bucket
        raise InvalidArgumentError(
            f"Engine: a step of {batch} sequences; at most {BATCH_BUCKETS[-1]}"
        )

    def plan(self, kind: str, tokens: int, batch: int, wishes: Wishes = NO_WISHES) -> Any:
        """The plan of a step's class, compiled on first need."""
        self._again = None
        bucket = self._batch_bucket(batch)
        if kind == "decode":
            width = bucket
        elif kind == "verify":
            width = max(bucket, min(bucket * (1 + MAX_DRAFT), MAX_ROWS))
        elif tokens <= self.chunk:
            width = self.chunk
        else:
            # More sequences decode in this step than a chunk has tokens.
            width = 1 << (tokens - 1).bit_length()
        key = PlanClass(kind, width, bucket, wishes)
        found = self._plans.get(key)
        if found is None:
            found = self._compile(key)
            self._plans[key] = found
            self.compiled += 1
            while len(self._plans) > self.max_plans:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return found

    @property
    def plans(self) -> tuple[Any, ...]:
        """The plans that are kept, as finalized graphs; the one used longest ago is the first."""
        return tuple(self._plans.values())

    def _compile(self, key: PlanClass) -> Any:
        """The graph of a step's class: traced as anybody's function is, and finalized."""
        decode = key.kind == "decode"
        every = decode or key.kind == "verify"  # a row for each token
        chooses = every or key.kind == "sample"
        bounds: dict[str, tuple[int, int]] = {}
        specs: list[crt.TensorSpec] = []

        def size(name: str, most: int) -> tuple[int, str | None]:
            """A dim, and its name where it changes."""
            if most == 1:
                return 1, None
            bounds[name] = (1, most)
            return -1, name

        def given(name: str, dtype: Any, *dims: tuple[int, str | None]) -> None:
            sizes, names = zip(*dims, strict=True)
            specs.append(crt.TensorSpec(name, dtype, sizes, dim_names=names))

        batch = size("batch", key.batch)
        tokens = batch if decode else size("tokens", key.tokens)
        bound = (2, None) if key.batch == 1 else (-1, "batch + 1")
        for name in ("tokens", "positions", "slots"):
            given(name, crt.int32, tokens)
        given(
            "block_table", crt.int32, batch, size("blocks", self.cache.config.blocks_per_sequence)
        )
        given("cu_seqlens", crt.int32, bound)
        given("kv_lens", crt.int32, batch)
        wanted = tokens
        if not every:
            limit = key.tokens if key.kind == "logits" else key.batch
            wanted = (1, None) if key.kind == "fill" else size("rows", limit)
            given("rows", crt.int32, wanted)
            if key.kind != "logits":
                given("row_bounds", crt.int32, bound)
        if chooses:
            sizes = {"rows": wanted}
            if key.wishes.adjusts:
                rows = key.tokens if every else key.batch
                listed = rows * self.cache.config.max_tokens
                sizes["history"] = size("history", max(256, 1 << (listed - 1).bit_length()))
                sizes["biases"] = size("biases", rows * MAX_BIASES)
            for name, kind, dims in sampling_inputs(key.wishes, self.model.vocab_size):
                given(name, getattr(crt, kind), *(sizes.get(dim) or (dim, None) for dim in dims))
        names = [spec.name for spec in specs]
        pools = self.cache.pools  # made before the trace, so that they are there between runs

        def forward(inputs: list[Any]) -> list[Any]:
            of = dict(zip(names, inputs, strict=True))
            if not chooses:
                return [self._forward(of, key.kind, pools)]
            logits = self._forward(of, "logits", pools)
            return choose(of, logits, key.wishes, self.top_logprobs)

        outputs = ["result"]
        if key.wishes.adjusts:
            outputs += ["mu"]
        if key.wishes.logprobs:
            outputs += ["logprobs", "top_logprobs", "top_ids"]
        if key.wishes.logits:
            outputs += ["logits"]
        graph = crt.trace(
            forward,
            specs,
            output_names=outputs,
            graph_name=f"{key.kind} step",
            dim_bounds=bounds,
            device=self.device,
        ).graph
        # The pools are written in place; nobody asks a run for them.
        for name in graph.output_names()[len(outputs) :]:
            graph.remove_output(name)
        graph.finalize()
        return graph

    def _forward(self, of: dict[str, Any], kind: str, pools: Any) -> Any:
        """The forward pass of a step over its inputs by name, traced or concrete: logits, or hidden
        states for ``fill``."""
        step = CacheStep(
            self.cache.specs,
            pools,
            of["slots"],
            of["block_table"],
            of["cu_seqlens"],
            of["kv_lens"],
            config=self.cache.config,
            row_bounds=of.get("row_bounds"),
        )
        hidden = self.model(of["tokens"], of["positions"], step, of.get("rows"))
        if kind == "fill":
            return hidden
        return self.model.head(hidden)

    # ---- steps
    def step(self, work: Sequence[Work]) -> list[int]:
        """Runs new tokens of several sequences; returns the ids of the works with ``sampling``, in
        order; -1 where the logits are no numbers.

        The cache grows by the tokens; when the step fails it is as before.
        """
        with self.lock:
            again = self._again
            run: Callable[[Sequence[Work], StepArrays], list[int]]
            if again is not None and again.rows.follow(work):
                arrays, run = again.arrays, again.run
            else:
                sequences = [item.sequence for item in work]
                if work and decodes(work):
                    arrays, run = self.cache.prepare_decode(sequences), self._decode
                else:
                    counts = [len(item.tokens) for item in work]
                    arrays, run = self.cache.prepare_step(sequences, counts), self._mixed
            try:
                return run(work, arrays)
            except BaseException:
                self._settle()
                self.cache.rollback(arrays)
                raise

    def _decode(self, work: Sequence[Work], arrays: StepArrays) -> list[int]:
        batch, width = arrays.block_table.shape
        wishes = _wishes(work)
        if self.device.type != "cpu":
            # Fewer shapes, each of which is a graph of the device.
            longest = self.cache.config.blocks_per_sequence
            width = min(1 << (width - 1).bit_length(), longest)
        buffers = self._decode_buffers(batch, width, wishes)
        inputs = buffers.set(work, arrays)
        plan = self.plan("decode", batch, batch, wishes)
        results = plan.run(inputs)
        logits = results.pop() if wishes.logits else None
        # The read waits for the step, so the arrays may be written again after it.
        ids = _results(results, work, wishes)
        if wishes.logits:
            self._look_late(work, ids, logits)
        if all(item.choice is None for item in work):
            self._again = _Again(work, arrays, buffers, plan, self.cache)
        return ids

    def _look_late(self, work: Sequence[Work], ids: list[int], logits: Any) -> None:
        """Asks the masks about the tokens that were found. Where one is not admitted: about the
        next likeliest, and if it is none of those either, the mask is made and the row chosen
        again. -1 where asking failed, which is the choice's ``failure``."""
        late = [row for row, item in enumerate(work) if item.late]
        wrong = self._not_admitted(work, late, [(ids[row],) for row in late], ids)
        for row in late:
            choice: Any = work[row].choice
            choice.told(row not in wrong)
        if wrong:
            likeliest = self._likeliest(wrong, logits)
            wrong = self._not_admitted(work, wrong, likeliest, ids)
        if wrong:
            self._choose_again(work, wrong, ids, logits)

    def _not_admitted(
        self,
        work: Sequence[Work],
        rows: Sequence[int],
        candidates: Sequence[Sequence[int]],
        ids: list[int],
    ) -> list[int]:
        """Writes the first candidate that a row's mask admits; returns the rows that have none."""
        wrong = []
        for row, tokens in zip(rows, candidates, strict=True):
            choice: Any = work[row].choice
            try:
                place = choice.mask.first_admitted(tokens)
                if place < 0:
                    wrong.append(row)
                else:
                    ids[row] = tokens[place]
            except Exception as error:
                choice.failure = error
                ids[row] = -1
        return wrong

    def _likeliest(self, rows: Sequence[int], logits: Any) -> list[list[int]]:
        """The tokens of the largest logits of each row, the lower of equals first."""
        import numpy as np

        count = min(LIKELIEST, self.model.vocab_size)
        of = self._inputs({"rows": np.array(rows, np.int32), "ids": np.zeros(len(rows), np.int32)})
        found: list[list[int]] = crt.top_logprobs(
            crt.index_select(logits, 0, of["rows"]), of["ids"], count
        )[2].tolist()
        return found

    def _choose_again(
        self, work: Sequence[Work], rows: Sequence[int], ids: list[int], logits: Any
    ) -> None:
        """Makes the masks of some rows and chooses by what they leave."""
        import numpy as np

        vocabulary = self.model.vocab_size
        choices: list[Any] = [work[row].choice for row in rows]
        for place, error in look(choices, vocabulary).items():
            choices[place].failure = error
        words = np.zeros((len(rows), mask_words(vocabulary)), np.int32)
        for place, choice in enumerate(choices):
            if choice.failure is None and choice.words is None:
                choice.failure = InvalidArgumentError(
                    f"{type(choice.mask).__name__}: first_admitted() admits none of the likeliest "
                    f"tokens, mask() allows all"
                )
            if choice.failure is None:
                set_mask(words, place, choice.words)
        greedy = SamplingArrays(len(rows), NO_WISHES, vocabulary)
        greedy.set([(GREEDY, 0, None)] * len(rows))
        of = self._inputs({"rows": np.array(rows, np.int32), "mask": words, **greedy.arrays})
        chosen = choose(of, crt.index_select(logits, 0, of["rows"]), Wishes(masks=True), 0)[0]
        for row, token in zip(rows, chosen.tolist(), strict=True):
            ids[row] = token

    def verify(self, work: Sequence[Work]) -> list[list[int]]:
        """Runs a step in which a draft stands behind the new token of each sequence (or none: one
        of them has one). Returns the ids that follow, per sequence: those of the draft that `step`
        would have given one by one, and the one behind them.

        The cache keeps the token and what of the draft was right; when the step fails it is as
        before. Refused: mirostat, whose state depends on the token before."""
        with self.lock:
            fed = [[*item.tokens, *item.draft] for item in work]
            sequences = [item.sequence for item in work]
            arrays = self.cache.prepare_step(sequences, [len(tokens) for tokens in fed])
            try:
                kept = self._verify(work, fed, arrays)
            except BaseException:
                self.cache.rollback(arrays)
                raise
            for item, ids in zip(work, kept, strict=True):
                wrong = len(item.draft) + 1 - len(ids)
                if wrong:
                    length = self.cache.length(item.sequence)
                    self.cache.truncate(item.sequence, length - wrong)
            return kept

    def _verify(
        self, work: Sequence[Work], fed: Sequence[Sequence[int]], arrays: StepArrays
    ) -> list[list[int]]:
        rows: list[_Row] = []
        for item in work:
            sampling, choice = item.sampling or GREEDY, item.choice
            if choice is not None and item.draft and not choice.draftable:
                raise InvalidArgumentError(
                    "Engine.verify: this request's state behind a draft cannot be told"
                )
            along = [None] * (1 + len(item.draft)) if choice is None else choice.along(item.draft)
            rows += [(sampling, item.index + ahead, row) for ahead, row in enumerate(along)]
        wishes = _wishes(work)
        inputs = _step_inputs(fed, arrays)
        states = SamplingArrays(len(rows), wishes, self.model.vocab_size)
        states.set(rows)
        inputs.update(states.arrays)
        plan = self.plan("verify", len(rows), len(work), wishes)
        results = plan.run(self._inputs(inputs))
        ids: list[int] = results[0].tolist()
        mu = results[1].tolist() if wishes.adjusts else None
        told = [result.tolist() for result in results[-3:]] if wishes.logprobs else None
        kept = []
        start = 0
        for item in work:
            count = 1
            while count <= len(item.draft) and ids[start + count - 1] == item.draft[count - 1]:
                count += 1
            stop = start + count
            kept.append(ids[start:stop])
            if mu is not None and item.choice is not None:
                item.choice.mu = mu[start]
            if told is not None:
                for row in range(start, stop):
                    _tell_logprobs(item.choice, ids[row], *(column[row] for column in told))
            start += 1 + len(item.draft)
        return kept

    def _inputs(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Tensors of the engine's device over host arrays; on the CPU nothing is copied."""
        return tensors_of(arrays, self.device)

    def _decode_buffers(self, batch: int, width: int, wishes: Wishes) -> _Buffers:
        key = (batch, width, wishes.adjusts, wishes.masks)
        found = self._buffers.get(key)
        if found is None:
            found = _Buffers(batch, width, wishes, self.model.vocab_size, self.device)
            self._buffers[key] = found
            while len(self._buffers) > self.max_plans:
                self._buffers.popitem(last=False)
        return found

    def _mixed(self, work: Sequence[Work], arrays: StepArrays) -> list[int]:
        import numpy as np

        wanted = [row for row, item in enumerate(work) if item.sampling is not None]
        inputs = _step_inputs([item.tokens for item in work], arrays)
        inputs["row_bounds"] = _row_bounds(len(work), wanted or [len(work) - 1])
        if not wanted:
            inputs["rows"] = np.array([len(arrays.positions) - 1], np.int32)
            self.plan("fill", len(arrays.positions), len(work)).run(self._inputs(inputs))
            return []
        asked = [work[row] for row in wanted]
        wishes = _wishes(asked)
        inputs["rows"] = arrays.cu_seqlens[1:][wanted] - 1
        sampling = SamplingArrays(len(wanted), wishes, self.model.vocab_size)
        sampling.set([(item.sampling or GREEDY, item.index, item.choice) for item in asked])
        inputs.update(sampling.arrays)
        plan = self.plan("sample", len(arrays.positions), len(work), wishes)
        return _results(plan.run(self._inputs(inputs)), asked, wishes)

    def _settle(self) -> None:
        """Waits for what a failed step has left on the device, which may read the step's arrays."""
        if self.device.type != "cpu":
            with contextlib.suppress(ClikaRTError):
                crt.synchronize(self.device)

    # ---- scoring
    def extend(
        self,
        sequences: Sequence[int],
        tokens: Sequence[Sequence[int]],
        run: Callable[[dict[str, Any]], Any] | None = None,
    ) -> list[Any]:
        """Appends tokens to sequences in one step; returns the logits after each of them, per
        sequence.

        One float32 array ``[len(tokens[b]), vocabulary]`` per sequence. ``run`` takes the place of
        the plan: `eager`, or a compiled form of it. When the step fails the cache is as before."""
        import numpy as np

        with self.lock:
            arrays = self.cache.prepare_step(sequences, [len(new) for new in tokens])
            try:
                inputs = _step_inputs(tokens, arrays)
                total = len(arrays.positions)
                inputs["rows"] = np.arange(total, dtype=np.int32)
                if run is not None:
                    logits = run(self._inputs(inputs)).cpu().numpy()
                else:
                    plan = self.plan("logits", total, len(sequences))
                    logits = plan.run(self._inputs(inputs))[0].cpu().numpy()
            except BaseException:
                self.cache.rollback(arrays)
                raise
            bounds = arrays.cu_seqlens.tolist()
            return [logits[start:stop] for start, stop in itertools.pairwise(bounds)]

    def eager(self, inputs: dict[str, Any]) -> Any:
        """The logits of a step, operator by operator and without a plan."""
        return self._forward(inputs, "logits", self.cache.pools)

    def logits(self, tokens: Sequence[int]) -> Any:
        """Logits after each of the tokens, ``[len(tokens), vocabulary]`` float32 as a NumPy array.

        Runs as a sequence of its own, which is removed again.
        """
        import numpy as np

        piece = max(1, min(self.chunk, SCORE_BYTES // (4 * self.model.vocab_size)))
        with self.lock:
            sequence = self.cache.add()
            try:
                parts = [
                    self.extend([sequence], [tokens[start : start + piece]])[0]
                    for start in range(0, len(tokens), piece)
                ]
            finally:
                self.cache.free(sequence)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def decodes(work: Sequence[Work]) -> bool:
    """Whether a step has one token per sequence, and every sequence asks for the next."""
    return all(len(item.tokens) == 1 and item.sampling is not None for item in work)


def _wishes(work: Sequence[Work]) -> Wishes:
    """What the rows of a step ask for."""
    choices = [item.choice for item in work if item.choice is not None]
    if not choices:
        return NO_WISHES
    return Wishes(
        adjusts=any(choice.sampling.adjusts for choice in choices),
        masks=any(
            item.choice is not None and item.choice.mask is not None and not item.late
            for item in work
        ),
        logprobs=any(choice.wants_logprobs for choice in choices),
        logits=any(item.late for item in work),
    )


def _results(results: Sequence[Any], work: Sequence[Work], wishes: Wishes) -> list[int]:
    """The ids of a step; states and log-probabilities go to the rows' choices."""
    ids: list[int] = results[0].tolist()
    if wishes.adjusts:
        for item, mu in zip(work, results[1].tolist(), strict=True):
            if item.choice is not None:
                item.choice.mu = mu
    if wishes.logprobs:
        columns = [result.tolist() for result in results[-3:]]
        for item, token, *row in zip(work, ids, *columns, strict=True):
            _tell_logprobs(item.choice, token, *row)
    return ids


def _tell_logprobs(
    choice: Choice | None, token: int, chosen: float, values: list[float], tokens: list[int]
) -> None:
    if choice is None or not choice.wants_logprobs or token < 0:
        return
    count = choice.sampling.logprobs
    top = tuple(zip(tokens[:count], values[:count], strict=True))
    choice.logprobs.append(TokenLogprob(token, chosen, top))


def _row_bounds(sequences: int, wanted: list[int]) -> Any:
    """Where the wanted rows of each sequence begin among all wanted rows."""
    import numpy as np

    counts = np.zeros(sequences + 1, np.int32)
    counts[1:][wanted] = 1
    return np.cumsum(counts, dtype=np.int32)


def _step_inputs(fed: Sequence[Sequence[int]], arrays: StepArrays) -> dict[str, Any]:
    import numpy as np

    packed = np.empty(len(arrays.positions), np.int32)
    start = 0
    for tokens in fed:
        stop = start + len(tokens)
        packed[start:stop] = tokens
        start = stop
    return {
        "tokens": packed,
        "positions": arrays.positions,
        "slots": arrays.slots,
        "block_table": arrays.block_table,
        "cu_seqlens": arrays.cu_seqlens,
        "kv_lens": arrays.kv_lens,
    }
