"""Requests over one engine: continuous batching with chunked prefill.

Each step decodes one token of every running reply and gives the rest of its token budget to
prompts. Whoever waits for a request drives the steps, so a lone caller needs no thread and several
callers share their steps."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from clika_runtime.errors import ClikaRTError, InternalError, InvalidArgumentError

from .engine import MAX_ROWS, Engine, Work, decodes
from .knobs import MAX_DRAFT
from .prefixes import LEAST, PrefixStore, common_length
from .sampling import Choice, Sampling, look
from .speculation import Pace, Speculation

__all__ = ["Request", "Scheduler"]


@dataclass(eq=False)
class Request:
    """One reply on its way.

    ``tokens`` are the prompt's ids, ``produced`` the reply's; a stop id ends the reply and is not
    part of it. ``stop_reason`` is None while it runs, then ``stop`` (a stop id, in ``stop_id``, or
    a mask that is finished), ``length`` (``max_new_tokens``), ``window`` (the context is full) or
    ``cancelled``. ``choice`` is what it carries from token to token, where it needs any; ``cached``
    are the tokens of the prompt that the cache held already. With ``speculation`` tokens are
    drafted, which changes nothing but the time."""

    tokens: Sequence[int]
    sampling: Sampling
    max_new_tokens: int
    stop_ids: frozenset[int] = frozenset()
    choice: Choice | None = None
    produced: list[int] = field(default_factory=list)
    stop_reason: str | None = None
    stop_id: int | None = None
    error: BaseException | None = None
    cached: int = 0
    started: float = 0.0
    admitted: float = 0.0
    first_token_time: float = 0.0
    last_token_time: float = 0.0
    sequence: int | None = None
    fed: int = 0  # prompt tokens that the cache holds or gets in the step under way
    speculation: Speculation | None = None

    @property
    def done(self) -> bool:
        """Whether the request will get no more tokens."""
        return self.stop_reason is not None or self.error is not None

    @cached_property
    def array(self) -> Any:
        """The prompt as an int32 array."""
        import numpy as np

        return np.asarray(self.tokens, np.int32)


class Scheduler:
    """Shares an engine's steps among requests, first come first served.

    ``token_budget`` bounds the tokens of a step (default: the engine's chunk). ``prefixes`` keeps
    the texts of requests that are done, for prompts that begin with them; without it nothing is
    shared.
    """

    def __init__(
        self, engine: Engine, token_budget: int = 0, prefixes: PrefixStore | None = None
    ) -> None:
        self.engine = engine
        self.prefixes = prefixes
        self.admitted = 0  # tokens of prompts that were kept, in whole units of `LEAST`
        self.pace = Pace()
        self._drafting = False
        self.token_budget = token_budget or engine.chunk
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._stepping = False
        self._cancelled = False  # while a step ran

    def submit(self, request: Request) -> None:
        """Queues a request. A prompt that is empty or fills the window is refused with both
        numbers."""
        window = self.engine.cache.config.max_tokens
        if not request.tokens:
            raise InvalidArgumentError("generate: the prompt has no tokens; give it some text")
        if len(request.tokens) >= window:
            raise InvalidArgumentError(
                f"generate: the prompt has {len(request.tokens)} tokens, the context window holds "
                f"{window}; shorten "
                "the prompt or raise max_seq"
            )
        request.started = time.perf_counter()
        with self.engine.lock:
            self._waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Ends a request: it gets no more tokens. Its place in the cache is free at once, or after
        the step that is under way."""
        if not request.done:
            request.stop_reason = "cancelled"
        # Nobody waits here for a step: who cancels may be an event loop. And a stream may be
        # collected in the middle of a step of this very thread.
        if self.engine.lock.acquire(blocking=False):
            try:
                if self._stepping:
                    self._cancelled = True
                else:
                    self._drop(request)
            finally:
                self.engine.lock.release()
        else:
            self._cancelled = True

    def advance(self, request: Request, have: int) -> None:
        """Runs steps until the request has more than ``have`` tokens or is done; raises what it
        failed with when there are none."""
        while len(request.produced) <= have and not request.done:
            with self.engine.lock:
                if len(request.produced) > have or request.done:
                    break
                self._run_step()
        if request.error is not None and len(request.produced) <= have:
            raise request.error

    def step(self) -> bool:
        """Runs one step for whoever is next; False when no request is left. What a request failed
        with is its ``error``."""
        with self.engine.lock:
            self._sweep()
            if not self._waiting and not self._running:
                return False
            self._run_step()
        return True

    # ---- one step; the engine's lock is held
    def _run_step(self) -> None:
        self._stepping = True
        try:
            self._step()
        finally:
            self._stepping = False
            if self._cancelled:
                self._cancelled = False
                self._sweep()

    def _step(self) -> None:
        self._sweep()
        self._admit()
        try:
            batch, work = self._plan()
        except BaseException as error:
            # How far it came is not known; a request that went on might skip a part of its text.
            self._fail(self._running, error)
            raise
        if not work:
            return
        drafted = self._drafting and any(item.draft for item in work)
        begun = time.perf_counter()
        try:
            found = self.engine.verify(work) if drafted else self.engine.step(work)
        except BaseException as error:
            # The engine has put the cache back; the requests of the step cannot go on.
            self._fail(batch, error)
            if not isinstance(error, Exception):
                raise
            return
        try:
            self._hand_out(batch, work, found, drafted, time.perf_counter() - begun)
        except BaseException as error:
            self._fail(batch, error)
            raise

    def _hand_out(
        self,
        batch: list[Request],
        work: list[Work],
        found: Sequence[Any],
        drafted: bool,
        seconds: float,
    ) -> None:
        """Gives the requests what a step found: a token for each that asked, or several behind a
        draft."""
        now = time.perf_counter()
        if drafted:
            self.pace.record(sum(1 + len(item.draft) for item in work), seconds)
            for request, item, reply in zip(batch, work, found, strict=True):
                if request.speculation is not None and item.draft:
                    request.speculation.record(len(item.draft), len(reply) - 1)
                for token in reply:
                    self._take(request, token, now)
            return
        if self._drafting and all(len(item.tokens) == 1 for item in work):
            self.pace.record(len(work), seconds)
        asked = (
            request for request, item in zip(batch, work, strict=True) if item.sampling is not None
        )
        for request, token in zip(asked, found, strict=True):
            self._take(request, token, now)

    def _fail(self, requests: Sequence[Request], error: BaseException) -> None:
        """Ends those of the requests that are not done yet with an error."""
        for request in list(requests):
            if not request.done:
                request.error = error
            self._drop(request)

    def _sweep(self) -> None:
        """Clears away what was cancelled while a step ran."""
        for queue in (self._running, self._waiting):
            for request in [item for item in queue if item.done]:
                self._drop(request)

    def _admit(self) -> None:
        cache = self.engine.cache
        while self._waiting and cache.free_sequences:
            request = self._waiting.popleft()
            request.admitted = time.perf_counter()
            request.sequence = cache.add()
            self._running.append(request)

    def _plan(self) -> tuple[list[Request], list[Work]]:
        """The requests of a step and their new tokens: decodes first, then prompts into what is
        left."""
        batch: list[Request] = []
        work: list[Work] = []
        budget = max(self.token_budget, len(self._running))
        prompts: list[tuple[Request, int]] = []
        drafting = False
        for request in self._running:
            produced = request.produced
            if request.sequence is None:
                continue
            drafting = drafting or request.speculation is not None
            if not produced:
                prompts.append((request, request.sequence))
                continue
            batch.append(request)
            work.append(
                Work(
                    request.sequence,
                    produced[-1:],
                    request.sampling,
                    len(produced),
                    request.choice,
                )
            )
            budget -= 1
        self._drafting = drafting
        if drafting and not prompts:
            self._draft(batch, work)
        for request, sequence in prompts:
            if budget < 1:
                break
            if not request.fed and not self._reuse(request):
                continue
            stop = min(len(request.tokens), request.fed + budget)
            piece = request.tokens[request.fed : stop]
            batch.append(request)
            sampling = request.sampling if stop == len(request.tokens) else None
            work.append(Work(sequence, piece, sampling, 0, request.choice))
            budget -= len(piece)
            request.fed = stop
        if not batch:
            raise ClikaRTError("scheduler: nothing to run, and a request waits", "INTERNAL")
        return self._allowed(batch, work)

    def _reuse(self, request: Request) -> bool:
        """Gives a new prompt what is known of it, from texts that are kept and from requests that
        run. False where a request before it will have more of it soon."""
        if self.prefixes is None:
            return True
        cache = self.engine.cache
        text = request.array[:-1]
        known, kept = self.prefixes.find(text)
        source = None if kept is None else kept.snapshot
        held: Request | None = None
        promised, before = 0, True
        for other in self._running:
            if other is request:
                before = False
            elif other.sequence is not None:
                common = common_length(text, other.array)
                there = min(common, cache.length(other.sequence))
                if there > max(known, LEAST - 1):
                    known, held = there, other
                if before:
                    promised = max(promised, common)
        if promised >= known + LEAST:
            return False
        sequence = request.sequence
        if sequence is None or not known:
            return True
        if held is not None and held.sequence is not None:
            source = cache.snapshot(held.sequence)
        if source is not None:
            cache.restore(sequence, source)
            cache.truncate(sequence, known)
            request.fed = request.cached = known
        if held is not None and source is not None:
            cache.release(source)
        return True

    def _draft(self, batch: list[Request], work: list[Work]) -> None:
        """Puts drafts behind the new tokens of requests that ask for them, where they pay."""
        count = len(work)
        room = min(MAX_DRAFT, MAX_ROWS // count - 1)
        window = self.engine.cache.config.max_tokens
        asked: list[tuple[int, int]] = []
        for place, request in enumerate(batch):
            owner, produced = request.speculation, request.produced
            most = min(
                room,
                request.max_new_tokens - len(produced) - 1,
                window - len(request.tokens) - len(produced),
            )
            if owner is None or most < 1:
                continue
            mask = None if request.choice is None else request.choice.mask
            draft: Sequence[int] = ()
            # What fails here fails, if it does, where the mask is asked; nobody else ends with it.
            with contextlib.suppress(Exception):
                draft = owner.forced(mask, self.pace, count, most)
            draft = draft or owner.look_up(request.tokens, produced, self.pace, count, most)
            wanted = 0 if draft else owner.ask(self.pace, count, most)
            if wanted:
                asked.append((place, wanted))
            work[place].draft = draft
        if asked:
            self._ask(batch, work, asked)
        drafted = [item for item in work if item.draft]
        for item in drafted:
            admitted = getattr(item.choice and item.choice.mask, "admitted", None)
            if admitted is not None:
                draft, item.draft = item.draft, ()
                with contextlib.suppress(Exception):
                    item.draft = draft[: admitted(draft)]
        sizes = [1 + len(item.draft) for item in work]
        if drafted and not self.engine.cache.fits([item.sequence for item in work], sizes):
            for item in drafted:
                item.draft = ()

    def _ask(
        self, batch: list[Request], work: list[Work], asked: Sequence[tuple[int, int]]
    ) -> None:
        """Drafts of assistants, those of one together: places in the batch, and tokens wanted."""
        groups: dict[Any, list[tuple[int, int]]] = {}
        for place, wanted in asked:
            owner = batch[place].speculation
            groups.setdefault(owner and owner.assistant, []).append((place, wanted))
        for assistant, members in groups.items():
            places, counts = zip(*members, strict=True)
            drafts = assistant.draft([batch[place] for place in places], counts)
            for place, draft in zip(places, drafts, strict=True):
                work[place].draft = draft

    def _allowed(self, batch: list[Request], work: list[Work]) -> tuple[list[Request], list[Work]]:
        """Asks what the next tokens may be, where that is not better done after the step; a request
        whose mask fails ends and is left out."""
        asked = [item.choice if item.sampling is not None else None for item in work]
        if not any(asked):
            return batch, work
        if not any(item.draft for item in work) and decodes(work):
            for place, choice in enumerate(asked):
                if choice is not None and choice.asks_late():
                    choice.words = None
                    work[place].late = True
                    asked[place] = None
            if not any(asked):
                return batch, work
        drafts = [item.draft for item in work] if self._drafting else None
        errors = look(asked, self.engine.model.vocab_size, drafts)
        if not errors:
            return batch, work
        for place, error in errors.items():
            batch[place].error = error
            self._drop(batch[place])
        kept = [place for place in range(len(batch)) if place not in errors]
        return [batch[place] for place in kept], [work[place] for place in kept]

    def _take(self, request: Request, token: int, now: float) -> None:
        if request.stop_reason is not None or request.error is not None:
            return
        produced = request.produced
        if not produced:
            request.first_token_time = now
        request.last_token_time = now
        if token < 0:
            request.error = _no_token(request)
            self._drop(request)
            return
        if token in request.stop_ids:
            request.stop_reason = "stop"
            request.stop_id = token
        elif request.choice is None or self._tell(request, token):
            produced.append(token)
            if request.choice is not None and request.choice.finished:
                request.stop_reason = "stop"
            elif len(produced) >= request.max_new_tokens:
                request.stop_reason = "length"
            elif len(request.tokens) + len(produced) >= self.engine.cache.config.max_tokens:
                request.stop_reason = "window"
            else:
                return
        self._drop(request)

    def _tell(self, request: Request, token: int) -> bool:
        """Tells the request's state its next token; False where that failed, which ends it."""
        try:
            if request.choice is not None:
                request.choice.accept(token)
        except Exception as error:
            request.error = error
            return False
        return True

    def _drop(self, request: Request) -> None:
        if request in self._running:
            self._running.remove(request)
        if request in self._waiting:
            self._waiting.remove(request)
        if request.sequence is not None:
            # What failed leaves nothing behind.
            if self.prefixes is not None and request.error is None:
                self.prefixes.keep(request.sequence, [*request.tokens, *request.produced])
                self.admitted += (len(request.tokens) - 1) // LEAST * LEAST
            elif self.prefixes is not None and request.cached:
                # The fault may lie in the rows that it took, and would meet whoever asks again.
                self.prefixes.forget(request.array)
            self.engine.cache.free(request.sequence)
            request.sequence = None
        if request.speculation is not None:
            request.speculation.close()


def _no_token(request: Request) -> Exception:
    """What a request fails with whose next token cannot be chosen."""
    number = len(request.produced) + 1
    place = len(request.tokens) + len(request.produced)
    where = f"generate: token {number} of the reply (position {place}) cannot be chosen: "
    if request.choice is not None and request.choice.failure is not None:
        return request.choice.failure
    if request.choice is not None and request.choice.allows_nothing:
        return InvalidArgumentError(f"{where}the request's constraint allows no token here")
    return InternalError(
        f"{where}its logits are NaN, or none is above -inf. The weights are damaged, or the dtype "
        "is too narrow for them; try float32",
        "NOT_A_NUMBER",
    )
