"""A reply as it comes: text pieces, and the report of how it went."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from clika_runtime.errors import ClikaRTError

from .generation_config import GenerationConfig
from .sampling import TokenLogprob
from .scheduler import Request
from .stopping import StopStrings

if TYPE_CHECKING:
    from .generation import GenerativeModel
    from .tools import Event, OutputParser, ToolCall

__all__ = ["GenerationReport", "TextStream", "breaks_after"]


@dataclass
class GenerationReport:
    """What one generation did.

    ``stop_reason``: ``stop`` (one of the checkpoint's ends, in ``stop_id``, or the constraint is
    complete), ``stop_string`` (in ``stop_text``), ``length``, ``window``, ``cancelled`` or
    ``error`` (in ``error``). Of a reply that is taken apart ``text`` is the answer alone,
    ``reasoning`` and ``tool_calls`` the rest. Times are
    seconds; ``queue_seconds`` runs to the place in the cache, ``prefill_seconds`` from the call to
    the first token. ``cached_tokens`` of the prompt were in the cache already. ``logprobs`` has an
    entry per token where they were asked for."""

    prompt_tokens: int
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    stop_reason: str = ""
    stop_id: int | None = None
    stop_text: str | None = None
    seed: int = 0
    cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    draft_steps: int = 0
    queue_seconds: float = 0.0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    logprobs: list[TokenLogprob] | None = None
    warnings: list[str] = field(default_factory=list)
    error: ClikaRTError | None = None
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)

    @property
    def new_tokens(self) -> int:
        """Tokens of the reply."""
        return len(self.token_ids)

    @property
    def total_tokens(self) -> int:
        """Tokens of prompt and reply."""
        return self.prompt_tokens + self.new_tokens

    @property
    def prefill_tokens_per_second(self) -> float:
        """Prompt tokens per second up to the first token."""
        return self.prompt_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        """Reply tokens after the first per second."""
        count = self.new_tokens - 1
        return count / self.decode_seconds if self.decode_seconds and count > 0 else 0.0


class TextStream(Iterator[str], AsyncIterator[str]):
    """The pieces of a reply as they come, for ``for`` and for ``async for``; ``report`` fills up
    and is complete at the end.

    ``close`` (or leaving a ``with`` block) cancels what is still running: no token follows. An
    ``async for`` waits for its steps in threads, so the loop is free meanwhile; cancelling its task
    cancels the reply. Of a reply that is taken apart (`GenerativeModel.stream_chat`) the pieces are
    those of the answer; ``events`` tells all of it.

        with model.stream_generate("Once upon a time,") as stream:
            for piece in stream:
                print(piece, end="")
        print(stream.report.stop_reason)
    """

    def __init__(
        self,
        model: GenerativeModel,
        request: Request,
        config: GenerationConfig,
        warnings: list[str],
        parser: OutputParser | None = None,
        shown: frozenset[int] = frozenset(),
    ) -> None:
        self._scheduler = model.scheduler
        self._request = request
        self._decoder = model.tokenizer.streaming_decoder(config.skip_special_tokens, keep=shown)
        self._parser = parser
        self._events: list[Event] = []
        self._call_id = ""
        self._reading = threading.Lock()
        self._read_out = False
        self._stops = StopStrings(config.stop)
        self._seen = 0
        self._finished = False
        self._pieces: list[str] = []
        self.report = GenerationReport(
            len(request.tokens), seed=request.sampling.seed, warnings=warnings
        )

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        while not self._finished:
            piece = self._advance()
            if piece:
                return piece
        raise StopIteration

    def _advance(self) -> str:
        piece = self._next_piece()
        if piece:
            self._pieces.append(piece)
        return piece

    def events(self) -> Iterator[Event]:
        """The reply as events of `clika_runtime.modelverse.tools`, from its start, as they come:
        text, reasoning, calls.

            for event in model.stream_chat(messages, tools=tools).events():
                if isinstance(event, CallStart):
                    print(event.name)
        """
        from .tools import TextDelta

        told = 0
        while True:
            if self._parser is None:
                pieces = self._pieces[told:]
                yield from map(TextDelta, pieces)
                told += len(pieces)
            else:
                while told < len(self._events):
                    yield self._events[told]
                    told += 1
            if self._finished:
                return
            self._advance()

    def __aiter__(self) -> TextStream:
        return self

    async def __anext__(self) -> str:
        try:
            piece = await asyncio.to_thread(next, self, None)
        except asyncio.CancelledError:
            self._scheduler.cancel(self._request)
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    def _next_piece(self) -> str:
        request = self._request
        try:
            self._scheduler.advance(request, self._seen)
        except BaseException as error:
            if isinstance(error, ClikaRTError):
                self.report.error = error
            self._finish("error", "")
            raise
        piece = ""
        while self._seen < len(request.produced) and self._stops.found is None:
            piece += self._stops.push(self._decoder.push(request.produced[self._seen]))
            self._seen += 1
        if self._stops.found is not None:
            return self._finish("stop_string", piece)
        # A failure comes when the tokens before it are told.
        if request.done and request.error is None and self._seen == len(request.produced):
            piece += self._stops.push(self._decoder.finish())
            piece += self._stops.flush()
            return self._finish(
                "stop_string" if self._stops.found else request.stop_reason or "", piece
            )
        return self._read(piece)

    def _read(self, text: str, end: bool = False) -> str:
        """Takes text of the reply apart; returns what of it belongs to the answer."""
        if self._parser is None:
            return text
        from .tools import TextDelta

        events: list[Event] = []
        with self._reading:  # who closes a stream need not be who reads it
            if not self._read_out:
                events += self._parser.push(text) if text else []
                if end:
                    events += self._parser.finish()
                    self._read_out = True
                events = [self._with_id(event) for event in events]
                self._events += events
        return "".join(event.text for event in events if isinstance(event, TextDelta))

    def _with_id(self, event: Event) -> Event:
        """The event with the id of its call. A model that writes none before the arguments gets
        one of ours; with the length of the prompt in it, it differs from those of other turns of
        the conversation."""
        from .tools import CallEnd, CallStart

        if isinstance(event, CallStart):
            own = f"call_{self.report.prompt_tokens}{event.index:03d}"
            self._call_id = event.id or own
        if isinstance(event, (CallStart, CallEnd)):
            return replace(event, id=self._call_id)
        return event

    def _finish(self, reason: str, last: str) -> str:
        self._finished = True
        last = self._read(last, end=True)
        request, report = self._request, self.report
        self._scheduler.cancel(request)
        report.stop_reason = reason
        report.token_ids = list(request.produced[: self._seen])
        report.text = "".join(self._pieces) + last
        report.stop_id = request.stop_id
        report.stop_text = self._stops.found
        report.cached_tokens = request.cached
        drafts = request.speculation
        if drafts is not None:
            report.drafted_tokens = drafts.drafted
            report.accepted_tokens = drafts.accepted
            report.draft_steps = drafts.steps
            report.warnings += drafts.warnings
        report.queue_seconds = max(0.0, request.admitted - request.started)
        report.prefill_seconds = max(0.0, request.first_token_time - request.started)
        report.decode_seconds = max(0.0, request.last_token_time - request.first_token_time)
        choice = request.choice
        if choice is not None and choice.wants_logprobs:
            report.logprobs = choice.logprobs[: self._seen]
        if self._parser is not None:
            self._report_calls()
        limits = {"length": "max_new_tokens", "window": "the context window"}
        # Such a request is done: nobody moves its mask now.
        if choice is not None and reason in limits and not getattr(choice.mask, "accepting", True):
            report.warnings.append(
                f"the reply ends at {limits[reason]} before its constraint is complete"
            )
        return last

    def _report_calls(self) -> None:
        from .tools import collect

        reply = collect(self._events)
        self.report.reasoning = reply.reasoning
        self.report.tool_calls = reply.calls

    def close(self) -> None:
        """Cancels the reply if it still runs; the text so far stays in the report."""
        if not self._finished:
            self._finish("cancelled", "")

    async def aclose(self) -> None:
        """`close` for asynchronous callers (``contextlib.aclosing``)."""
        self.close()

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    async def __aenter__(self) -> TextStream:
        return self

    async def __aexit__(self, *failure: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A stream that nobody reads to its end must not keep its place in the cache.
        if not getattr(self, "_finished", True):
            self.close()


def breaks_after(tokenizer: Any, breakers: tuple[str, ...]) -> Callable[[int], bool] | None:
    """A function that is told tokens in order and says whether a breaker ends within each."""
    if not breakers:
        return None
    # A letter of ASCII is never part of another character: a token has it or has it not. The space
    # is left out, since decoding may drop one that a text begins with.
    if all(len(text) == 1 and text.isascii() and text != " " for text in breakers):
        return _breaks_by_letter(tokenizer, breakers)
    decoder = tokenizer.streaming_decoder(False)
    longest = max(map(len, breakers))
    tail = ""

    def breaks(token: int) -> bool:
        nonlocal tail
        piece = decoder.push(token)
        seen = tail + piece
        # What ended before this token does not count again.
        fresh = any(seen.find(text, max(0, len(tail) - len(text) + 1)) >= 0 for text in breakers)
        tail = seen[max(0, len(seen) - longest + 1) :] if longest > 1 else ""
        return bool(piece) and fresh

    return breaks


def _breaks_by_letter(tokenizer: Any, letters: tuple[str, ...]) -> Callable[[int], bool]:
    known: dict[int, bool] = {}

    def breaks(token: int) -> bool:
        found = known.get(token)
        if found is None:
            text = tokenizer.decode([token], False)
            found = known[token] = any(letter in text for letter in letters)
        return found

    breaks.stateless = True  # type: ignore[attr-defined]
    return breaks
