"""The flags of what makes a reply faster and changes nothing of it: drafts, and sessions in
files."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ..knobs import WHOLE
from . import resolve_source
from .arguments import Parser, UsageError, number
from .files import check_target

if TYPE_CHECKING:
    from ..preview import Preview

__all__ = [
    "add_arguments",
    "assistant_options",
    "check_arguments",
    "check_preview",
    "conversation",
    "drafts_of",
    "find_assistant",
    "save",
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("drafts and sessions, which change nothing of the reply")
    group.add_argument(
        "--prompt-lookup-num-tokens",
        type=number(int, *WHOLE["prompt_lookup_num_tokens"]),
        metavar="N",
        help="draft up to N tokens at a time out of the text so far, for replies that copy; 7 is "
        "good, 0 is off (default: 0)",
    )
    group.add_argument(
        "--assistant-model",
        metavar="SOURCE",
        help="a smaller model with the same tokenizer, which drafts the reply",
    )
    group.add_argument(
        "--num-assistant-tokens",
        type=number(int, *WHOLE["num_assistant_tokens"]),
        metavar="N",
        help="tokens that the smaller model drafts at a time, at most (default: 7)",
    )
    group.add_argument(
        "--session",
        metavar="FILE",
        help="go on with the conversation in FILE, if there is one, and keep it there with what "
        "was computed of it",
    )


def check_arguments(given: dict[str, Any], parser: Parser) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    if "num_assistant_tokens" in given and "assistant_model" not in given:
        parser.error("--num-assistant-tokens needs --assistant-model")
    if "session" in given:
        if "tools" in given:
            parser.error("--session and --tools exclude each other")
        check_target(given["session"], force=True)


def find_assistant(given: dict[str, Any]) -> None:
    """Puts the files of the smaller model in the place of its name, before anything is loaded."""
    if "assistant_model" in given:
        given["assistant_model"] = resolve_source(
            given["assistant_model"], argparse.Namespace(**given)
        )


def check_preview(given: dict[str, Any], seen: Preview) -> None:
    """Refuses a smaller model of other tokens, before weights are read; what was read of it takes
    the place of its files."""
    if "assistant_model" in given:
        from ..preview import preview

        assistant = preview(given["assistant_model"])
        seen.check_assistant(assistant)
        given["assistant_model"] = assistant


def assistant_options(given: dict[str, Any], model: Any) -> dict[str, Any]:
    """The smaller model, loaded where and as the model is, as an option of a generation."""
    if "assistant_model" not in given:
        return {}
    from ..generation import load_generative

    own = model.loaded.options
    assistant = load_generative(
        given["assistant_model"], device=own.device, mode=own.mode, max_seq=model.window
    )
    return {"assistant_model": assistant}


def conversation(given: dict[str, Any], model: Any) -> list[dict[str, Any]]:
    """The messages up to the new one, those of the session before it."""
    begun: list[dict[str, Any]] = []
    if "session" in given and os.path.exists(given["session"]):
        session = model.load_session(given["session"])
        if session.messages is None:
            raise UsageError(f"--session: {given['session']} holds no conversation")
        begun = session.messages
    if "system" in given:
        if begun:
            raise UsageError(f"--system: the conversation in {given['session']} has begun already")
        begun = [{"role": "system", "content": given["system"]}]
    return [*begun, {"role": "user", "content": given["message"]}]


def save(given: dict[str, Any], model: Any, messages: list[dict[str, Any]], text: str) -> None:
    """Keeps the conversation with its new reply, where a file was named."""
    if "session" in given:
        model.save_session(given["session"], [*messages, {"role": "assistant", "content": text}])


def drafts_of(report: Any) -> dict[str, int]:
    """How drafts went, as the document has it."""
    return {
        "steps": report.draft_steps,
        "drafted_tokens": report.drafted_tokens,
        "accepted_tokens": report.accepted_tokens,
    }
