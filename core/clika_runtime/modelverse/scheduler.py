"""Requests over one engine: continuous batching with chunked prefill.

Each step decodes one token of every running reply and gives the rest of its token budget to
prompts. Whoever waits for a request drives the steps, so a lone caller needs no thread and several
callers share their steps."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from clika_runtime.errors import ClikaRTError, InternalError, InvalidArgumentError

from .engine import Engine, Work
from .sampling import Choice, Sampling, look

__all__ = ["Request", "Scheduler"]


@dataclass(eq=False)
class Request:
    """One reply on its way.

    ``tokens`` are the prompt's ids, ``produced`` the reply's; a stop id ends the reply and is not
    part of it. ``stop_reason`` is None while it runs, then ``stop`` (a stop id, in ``stop_id``, or
    a mask that is finished), ``length`` (``max_new_tokens``), ``window`` (the context is full) or
    ``cancelled``. ``choice`` is what it carries from token to token, where it needs any; ``cached``
    are the tokens of the prompt that the cache held already."""

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

    @property
    def done(self) -> bool:
        """Whether the request will get no more tokens."""
        return self.stop_reason is not None or self.error is not None


class Scheduler:
    """Shares an engine's steps among requests, first come first served.

    ``token_budget`` bounds the tokens of a step (default: the engine's chunk).
    """

    def __init__(self, engine: Engine, token_budget: int = 0) -> None:
        self.engine = engine
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
        failed with."""
        while len(request.produced) <= have and not request.done:
            with self.engine.lock:
                if len(request.produced) > have or request.done:
                    break
                self._run_step()
        if request.error is not None:
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
        batch, work = self._plan()
        if not work:
            return
        try:
            ids = self.engine.step(work)
        except BaseException as error:
            # The engine has put the cache back; the requests of the step cannot go on.
            for request in batch:
                request.error = error
                self._drop(request)
            if not isinstance(error, Exception):
                raise
            return
        now = time.perf_counter()
        asked = (
            request for request, item in zip(batch, work, strict=True) if item.sampling is not None
        )
        for request, token in zip(asked, ids, strict=True):
            self._take(request, token, now)

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
        prompts = []
        for request in self._running:
            produced = request.produced
            if request.sequence is None:
                continue
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
        for request, sequence in prompts:
            if budget < 1:
                break
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

    def _allowed(self, batch: list[Request], work: list[Work]) -> tuple[list[Request], list[Work]]:
        """Asks what the next tokens may be; a request whose mask fails ends and is left out."""
        asked = [item.choice if item.sampling is not None else None for item in work]
        if not any(asked):
            return batch, work
        errors = look(asked, self.engine.model.vocab_size)
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
            self.engine.cache.free(request.sequence)
            request.sequence = None


def _no_token(request: Request) -> ClikaRTError:
    """What a request fails with whose next token cannot be chosen."""
    number = len(request.produced) + 1
    place = len(request.tokens) + len(request.produced)
    where = f"generate: token {number} of the reply (position {place}) cannot be chosen: "
    if request.choice is not None and request.choice.allows_nothing:
        return InvalidArgumentError(f"{where}the request's constraint allows no token here")
    return InternalError(
        f"{where}its logits are NaN, or none is above -inf. The weights are damaged, or the dtype "
        "is too narrow for them; try float32",
        "NOT_A_NUMBER",
    )
