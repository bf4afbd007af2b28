"""How models mark their reasoning."""

from __future__ import annotations

from dataclasses import dataclass

from .cursor import Cursor, Reading
from .output import Output

__all__ = ["REASONINGS", "Reasoning"]


@dataclass(frozen=True)
class Reasoning:
    """Marks around reasoning, which stands at the start of a reply.

    ``begins`` and ``end`` enclose it. A prompt may end with a mark of ``begins`` (DeepSeek-R1 and
    others): then the reply starts inside. ``dropped`` are marks around the answer that belong to
    no text. Reasoning that is cut off is reasoning to the end.
    """

    name: str
    begins: tuple[str, ...]
    end: str
    dropped: tuple[str, ...] = ()

    @property
    def markers(self) -> tuple[str, ...]:
        """All marks."""
        return (*self.begins, self.end, *self.dropped)

    def opened_by(self, prompt: str) -> bool:
        """Whether a reply to the prompt starts inside the reasoning."""
        return prompt.rstrip().endswith(self.begins)

    def written_by(self, template: str) -> bool:
        """Whether a chat template writes these marks."""
        return self.end in template

    def read(
        self, cursor: Cursor, out: Output, inside: bool, stops: tuple[str, ...] = ()
    ) -> Reading[str | None]:
        """Read the reasoning, if the text starts with it. A text of ``stops`` ends it too; it is
        read and returned."""
        if not inside:
            cursor.keep()
            yield from cursor.space()
            for begin in self.begins:
                if (yield from cursor.found(begin)):
                    inside = True
                    break
            kept = cursor.kept()
            if not inside:
                out.text(kept)
                return None
        stop = yield from cursor.until((self.end, *stops), out.reasoning)
        out.end_reasoning()
        return None if stop == self.end else stop


REASONINGS = {
    item.name: item
    for item in (
        Reasoning("think", ("<think>",), "</think>"),
        Reasoning("granite", ("<think>",), "</think>", ("<response>", "</response>")),
        Reasoning(
            "granite-words",
            ("Here is my thought process:", "Here's my thought process:"),
            "Here is my response:",
        ),
        Reasoning("mistral", ("[THINK]",), "[/THINK]"),
        Reasoning("kimi", ("◁think▷",), "◁/think▷"),
        Reasoning("gemma", ("<|channel>thought",), "<channel|>"),
    )
}
