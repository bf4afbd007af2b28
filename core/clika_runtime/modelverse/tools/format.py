"""What a format of replies is, and the parser of all formats."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from clika_runtime.errors import InvalidArgumentError

from .cursor import Cursor, Malformed, Reading
from .events import Event, Reply, collect
from .output import Output
from .reasoning import REASONINGS, Reasoning
from .toolset import Tool, read_tools

if TYPE_CHECKING:
    from .grammar import GrammarWriter

__all__ = ["Around", "OutputParser", "ToolFormat", "parse_reply"]


class Around(NamedTuple):
    """Texts before the first call of a reply, between two, and behind the last; ``between`` None
    where a reply has one call."""

    begin: str = ""
    between: str | None = None
    end: str = ""


class ToolFormat:
    """A format in which models write tool calls; plugins subclass it.

    ``begins`` are the marks with which a call, or a group of calls, begins anywhere in a text;
    ``markers`` all marks, of which some are special tokens of the vocabulary; ``reasonings`` names
    the marks of reasoning (of `REASONINGS`) that models of the format write. A chat template
    ``signs`` of which any is in it writes the format.
    """

    name: ClassVar[str] = ""
    begins: ClassVar[tuple[str, ...]] = ()
    markers: ClassVar[tuple[str, ...]] = ()
    reasonings: ClassVar[tuple[str, ...]] = ("think",)
    signs: ClassVar[tuple[str, ...]] = ()
    #: Whether a mark of ``begins`` ends reasoning that was not closed.
    ends_reasoning: ClassVar[bool] = False
    #: What stands between calls as `write` writes them; None where a reply has one.
    between: ClassVar[str | None] = None
    #: Whether calls are numbered: `write` is asked for each place, `GrammarWriter.number`.
    numbered: ClassVar[bool] = False

    def __init__(self, tools: tuple[Tool, ...] = ()) -> None:
        self.tools = {tool.name: tool for tool in tools}

    # ------------------------------------------------------------ reading
    def opening(self, cursor: Cursor, out: Output) -> Reading[None]:
        """Read calls that begin without a mark, at the start of the text. Raises `Malformed` where
        there are none."""
        raise Malformed
        yield

    def read(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        """Read the calls behind a mark of ``begins``, which has been read. Raises `Malformed` where
        something else stands; what was read of it is text then."""
        raise NotImplementedError
        yield

    def run(
        self, cursor: Cursor, out: Output, reasoning: Reasoning | None, inside: bool
    ) -> Reading[None]:
        """Read a whole reply."""
        dropped: tuple[str, ...] = ()
        mark: str | None = None
        if reasoning is not None:
            dropped = reasoning.dropped
            stops = self.begins if self.ends_reasoning else ()
            mark = yield from reasoning.read(cursor, out, inside, stops)
        if mark is None:
            yield from self._attempt("", cursor, out)
        while True:
            if mark is None:
                mark = yield from cursor.until((*self.begins, *dropped), out.text)
            if mark is None:
                return
            if mark in dropped:
                out.end_reasoning()
            else:
                yield from self._attempt(mark, cursor, out)
            mark = None

    def _attempt(self, mark: str, cursor: Cursor, out: Output) -> Reading[None]:
        cursor.keep(mark)
        before = out.calls
        try:
            if mark:
                yield from self.read(mark, cursor, out)
            else:
                yield from self.opening(cursor, out)
            if out.calls == before:
                raise Malformed
        except Malformed:
            out.withdraw()
        else:
            cursor.kept()

    # ------------------------------------------------------------ writing
    def write(self, tool: Tool, grammar: GrammarWriter) -> str:
        """The Lark expression of one call of the tool, as `read` reads it, without what `around`
        says."""
        raise NotImplementedError

    def around(self, grammar: GrammarWriter) -> Around:
        """What stands around the calls of a reply, and between them."""
        return Around(between=self.between)

    @classmethod
    def written_by(cls, template: str) -> bool:
        """Whether a chat template writes this format."""
        return any(sign in template for sign in cls.signs)


class OutputParser:
    """Takes a reply apart while it arrives: text, reasoning, tool calls.

    ``format`` is a name of `clika_runtime.plugins.tool_parsers`, a class, or None for a reply
    without calls. ``reasoning`` are its marks, None for none; ``inside`` says that the prompt
    opened it. ``tools`` (the list of the request) give types to arguments that are written without.
    ``push`` and ``finish`` return events; those of all pieces tell the same however the text is
    cut, and a whole text is one piece.

    A call counts as soon as its arguments are complete, closing marks or not. What is malformed or
    cut off is text: nothing raises. ``hold`` tells a call only when it is complete; without it a
    call that proves malformed is withdrawn (`CallWithdrawn`).

    >>> parser = OutputParser("hermes")
    >>> parser.push('Sure.<tool_call>{"name": "now", "arguments"')  # doctest: +NORMALIZE_WHITESPACE
    [TextDelta(text='Sure.')]
    >>> parser.push(': {}}</tool_call>')  # doctest: +NORMALIZE_WHITESPACE
    [CallStart(index=0, name='now', id=''), CallArguments(index=0, text='{'),
     CallArguments(index=0, text='}'), CallEnd(index=0, id='')]
    """

    def __init__(
        self,
        format: str | type[ToolFormat] | None = None,
        *,
        reasoning: str | Reasoning | None = None,
        inside: bool = False,
        tools: Any = None,
        hold: bool = False,
    ) -> None:
        from .choosing import tool_format

        offered = read_tools(tools) if tools is not None else ()
        made = (tool_format(format) if isinstance(format, str) else format or ToolFormat)(offered)
        names = None if tools is None else frozenset(made.tools)
        self._cursor = Cursor()
        self._out = Output(self._cursor, names, hold)
        marks = _reasoning(reasoning)
        self._work: Generator[None, None, None] | None = made.run(
            self._cursor, self._out, marks, inside
        )
        self._step()

    def push(self, piece: str) -> list[Event]:
        """The events of a further piece of text."""
        if self._cursor.ended:
            raise InvalidArgumentError("OutputParser: push after finish")
        self._cursor.feed(piece)
        return self._step()

    def finish(self) -> list[Event]:
        """The events of the end of the text."""
        if self._cursor.ended:
            return []
        self._cursor.ended = True
        self._step_events()
        self._out.finish()
        return self._drain()

    def _step(self) -> list[Event]:
        self._step_events()
        return self._drain()

    def _step_events(self) -> None:
        if self._work is not None:
            try:
                next(self._work)
            except StopIteration:
                self._work = None

    def _drain(self) -> list[Event]:
        events, self._out.events = self._out.events, []
        return events


def _reasoning(value: str | Reasoning | None) -> Reasoning | None:
    if not isinstance(value, str):
        return value
    if value not in REASONINGS:
        raise InvalidArgumentError(
            f"OutputParser: no reasoning {value!r}; known are {', '.join(REASONINGS)}"
        )
    return REASONINGS[value]


def parse_reply(text: str, format: str | type[ToolFormat] | None = None, **options: Any) -> Reply:
    """A whole reply, taken apart; the options are those of `OutputParser`.

    >>> parse_reply('<think>Hm.</think>Hello', reasoning="think")
    Reply(text='Hello', reasoning='Hm.', calls=[])
    """
    parser = OutputParser(format, **options)
    return collect([*parser.push(text), *parser.finish()])
