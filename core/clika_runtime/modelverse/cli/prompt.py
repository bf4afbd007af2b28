"""``SOURCE prompt MESSAGE``: one templated generation, streamed to standard output.

The message is an argument, or what standard input holds: for the argument ``-``, and where there is
no argument and standard input is no terminal."""

from __future__ import annotations

import argparse
import codecs
import json
import logging
import os
import re
import sys
import time
from typing import Any

from ...errors import ClikaRTError, InvalidArgumentError, UnsupportedError
from .. import catalog
from ..sources import ResolvedSource, human_size
from . import EXIT_OK, generation_flags, loading, reply_flags, reuse_flags
from .arguments import MAX_SEQ, Parser
from .report import common_rows, log_rows
from .stages import Stages, peak_memory

_log = logging.getLogger("clika_runtime.modelverse")
_MAX_MESSAGE = 64 << 20  # bytes of standard input
# How the library names what a flag of ours sets.
_FLAG_OF = {
    "max_tokens or max_sequences": "--max-seq",
    "max_seq": "--max-seq",
    "kvcache": "--kvcache",
    "kv_dtype": "--kv-quant",
    "prefill_chunk": "--prefill-chunk",
    **{name: generation_flags.flag(name) for name in generation_flags.KNOBS if "_" in name},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message",
        metavar="MESSAGE",
        nargs="?",
        help="the user message; '-', or none with a pipe, reads it from standard input (UTF-8)",
    )
    message = parser.add_argument_group("message")
    message.add_argument("--system", metavar="TEXT", help="a system message before the user's")
    message.add_argument(
        "--image",
        action="append",
        metavar="FILE",
        help="an image beside the message, for a model that reads images",
    )
    generation_flags.add_arguments(parser)
    reply_flags.add_arguments(parser)
    reuse_flags.add_arguments(parser)
    loading.add_arguments(parser)


def check_arguments(arguments: Any, parser: Parser) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    given = vars(arguments)
    for name, value in {"the message": "message", "--system": "system"}.items():
        if given.get(value) is not None and not _is_text(given[value]):
            parser.error(f"{name} is no valid text (bytes that are no UTF-8); convert it first")
    generation_flags.check_arguments(given, parser, _is_text)
    reply_flags.check_arguments(given, parser, _is_text)
    reuse_flags.check_arguments(given, parser)
    given["message"] = _message(given.get("message"), parser)
    loading.check_arguments(given, parser)


# ---------------------------------------------------------------- the message


def _is_text(argument: str) -> bool:
    """False for bytes of the command line that are no UTF-8: Python passes them as surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(argument: str | None, parser: Parser) -> str:
    """The message of the command line or of standard input; an empty one is a usage error."""
    if argument is not None and argument != "-":
        if not argument.strip():
            parser.error("the message is empty; give the prompt some text")
        return argument
    if argument is None and (sys.stdin is None or sys.stdin.isatty()):
        parser.error("the message is missing; give it as MESSAGE, or pipe it in")
    text = _read_stdin()
    if not text.strip():
        parser.error("the message is empty: standard input holds no text; give it as MESSAGE")
    return text


def _read_stdin() -> str:
    """Standard input as text, without the newline at its end."""
    if sys.stdin is None:
        raise InvalidArgumentError("prompt: standard input is closed; give the message as MESSAGE")
    data = sys.stdin.buffer.read(_MAX_MESSAGE + 1)
    if len(data) > _MAX_MESSAGE:
        raise InvalidArgumentError(
            f"prompt: standard input holds more than {human_size(_MAX_MESSAGE)}; a message this "
            "long fits no context window"
        )
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"prompt: standard input is not UTF-8: byte 0x{data[error.start]:02x} at offset "
            f"{error.start}; convert it first"
        ) from error
    return text.removesuffix("\n").removesuffix("\r")


# ---------------------------------------------------------------- the run


def run(source: ResolvedSource, identity: catalog.Identity, arguments: Any) -> int:
    try:
        return _run(source, identity, vars(arguments))
    except ClikaRTError as error:
        error.args = (_by_flags(str(error)),)
        raise


def _by_flags(text: str) -> str:
    """A message of the library with the flags in the place of what they set."""
    for name, flag in _FLAG_OF.items():
        text = re.sub(rf"\b{name}\b", flag, text)
    return text


def _run(source: ResolvedSource, identity: catalog.Identity, given: dict[str, Any]) -> int:
    from ..preview import preview

    _refuse_images(identity, given)
    reuse_flags.find_assistant(given)
    stages = Stages(given.get("memory_stages"), source)
    begun = time.perf_counter()
    seen = preview(source)
    seconds = time.perf_counter() - begun
    reply_flags.check_preview(given, seen)
    reuse_flags.check_preview(given, seen)
    begun = time.perf_counter()
    model = loading.load(source, identity, given, seen=seen)
    seconds += time.perf_counter() - begun
    stages.record("weights", model)
    knobs = generation_flags.knobs_of(given)
    if _log.isEnabledFor(logging.DEBUG):
        _report_options(source, model, given, knobs)
    _log.info("%s loaded in %.2f s", source.name, seconds)
    messages = reuse_flags.conversation(given, model) if model.has_chat_template else []
    knobs |= reuse_flags.assistant_options(given, model)
    with _start(model, given, knobs, messages) as stream:
        for warning in stream.report.warnings:
            _log.warning("%s", generation_flags.by_flags(warning))
        said = len(stream.report.warnings)
        text = ""
        try:
            for text in stream:
                stages.record("forward", model)
                if not given.get("json"):
                    sys.stdout.write(text)
                    sys.stdout.flush()
        except KeyboardInterrupt:
            stream.close()
            _report_cancelled(stream.report, given, text)
            raise
    if given.get("json"):
        document = _document(source, model, stream.report, seconds)
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    else:
        calls = reply_flags.calls_of(stream.report)
        if not text.endswith("\n") and (text or not calls):
            sys.stdout.write("\n")
        sys.stdout.writelines(map(reply_flags.call_line, calls))
    sys.stdout.flush()
    stages.record("generation", model)
    for warning in stream.report.warnings[said:]:
        _log.warning("%s", _by_flags(warning))
    _report_generation(model, stream.report, given)
    reuse_flags.save(given, model, messages, stream.report.text)
    return EXIT_OK


def _refuse_images(identity: catalog.Identity, given: dict[str, Any]) -> None:
    if "image" not in given or identity.row is None:
        return
    family = f"family '{identity.family}' ({identity.modalities})"
    if "image" not in identity.row.spec.input_modalities:
        raise UnsupportedError(f"--image: {family} reads no images")
    raise UnsupportedError(f"--image: this release gives no images to {family}")


def _start(
    model: Any, given: dict[str, Any], knobs: dict[str, Any], messages: list[dict[str, Any]]
) -> Any:
    options = knobs | reply_flags.options_of(given)
    if model.has_chat_template:
        # A document has a place for reasoning; on standard output it is part of the text.
        split = bool(given.get("json"))
        return model.stream_chat(messages, split_reasoning=split, **options)
    for name in ("system", "tools", "session"):
        if name in given:
            raise UnsupportedError(f"--{name} needs a chat template, and this checkpoint has none")
    _log.info("the checkpoint has no chat template: the message is continued as it is")
    return model.stream_generate(given["message"], **options)


def _report_options(
    source: ResolvedSource, model: Any, given: dict[str, Any], knobs: dict[str, Any]
) -> None:
    """Each effective option and where its value came from."""
    rows = common_rows(given)
    options, report = model.loaded.options, model.report
    flag = dict.fromkeys(given, "flag")
    rows.append(("source", source.spec, source.found or source.origin))
    rows.append(("family", report.get("family"), "checkpoint"))
    rows.append(("device", options.device, flag.get("device", "best available")))
    rows.append(("dtype", report.get("compute_dtype"), flag.get("dtype", "checkpoint")))
    rows.append(("weights", report.get("mode"), "flag" if given.get("exact") else "default"))
    rows.append(("kvcache", options.kvcache, flag.get("kvcache", "default")))
    rows.append(("kv-quant", given.get("kv_quant", "none"), flag.get("kv_quant", "default")))
    rows.append(("prefill-chunk", options.prefill_chunk, flag.get("prefill_chunk", "default")))
    window = "checkpoint"
    if model.window == given.get("max_seq", MAX_SEQ):
        window = "flag" if "max_seq" in given else "default"
    rows.append(("max-seq", model.window, window))
    plain = type(model.defaults)()
    for name in generation_flags.KNOBS:
        value = knobs.get(name, getattr(model.defaults, name))
        own = getattr(model.defaults, name) != getattr(plain, name)
        origin = "flag" if name in given else "checkpoint" if own else "default"
        if name == "temperature" and given.get("greedy"):
            origin = "--greedy"
        if name == "seed" and value is None:
            value, origin = "fresh", "default"
        rows.append((name.replace("_", "-"), value, origin))
    rows += [
        (name.replace("_", "-"), f"{value:.3f}" if isinstance(value, float) else value, "load")
        for name, value in report.items()
        if name not in ("family", "device", "compute_dtype", "mode", "window", "cache_layout")
    ]
    log_rows(rows)


def _document(source: ResolvedSource, model: Any, report: Any, seconds: float) -> dict[str, Any]:
    """What ``--json`` prints; ``docs/schemas/prompt.json`` is its schema."""
    logprobs = report.logprobs
    if logprobs is not None:
        logprobs = [
            {
                "token": item.token,
                "text": model.tokenizer.id_to_token(item.token),
                "logprob": item.logprob,
                "top": [{"token": token, "logprob": value} for token, value in item.top],
            }
            for item in logprobs
        ]
    return {
        "schema": 1,
        "source": source.name,
        "text": report.text,
        "reasoning": report.reasoning,
        "tool_calls": reply_flags.calls_of(report),
        "token_ids": report.token_ids,
        "stop_reason": report.stop_reason,
        "stop_id": report.stop_id,
        "stop_text": report.stop_text,
        "seed": report.seed,
        "usage": {
            "prompt_tokens": report.prompt_tokens,
            "completion_tokens": report.new_tokens,
            "total_tokens": report.total_tokens,
            "cached_tokens": report.cached_tokens,
        },
        "drafts": reuse_flags.drafts_of(report),
        "seconds": {
            "load": seconds,
            "queue": report.queue_seconds,
            "prefill": report.prefill_seconds,
            "decode": report.decode_seconds,
        },
        "logprobs": logprobs,
        "warnings": report.warnings,
    }


def _report_cancelled(report: Any, given: dict[str, Any], text: str) -> None:
    """Ends the line that Ctrl-C broke off on a terminal, and says what was there."""
    if text and not text.endswith("\n") and not given.get("json") and sys.stdout.isatty():
        sys.stdout.write("\n")
        sys.stdout.flush()
    kept = f"; the session in {given['session']} is unchanged" if "session" in given else ""
    if kept and not os.path.exists(given["session"]):
        kept = "; no session was saved"
    _log.info("cancelled after %d tokens%s", report.new_tokens, kept)


def _report_generation(model: Any, report: Any, given: dict[str, Any]) -> None:
    if report.stop_reason == "window":
        _log.warning(
            "the context window of %d tokens is full, the reply ends here (--max-seq)", model.window
        )
    elif report.stop_reason == "length" and "max_new_tokens" not in given:
        _log.warning(
            "the reply ends at %d tokens (--max-new-tokens); it may be incomplete",
            report.new_tokens,
        )
    _log.info(
        "%d prompt tokens, %.1f tokens/s; %d new tokens, %.1f tokens/s",
        report.prompt_tokens,
        report.prefill_tokens_per_second,
        report.new_tokens,
        report.decode_tokens_per_second,
    )
    if report.cached_tokens:
        _log.info("%d prompt tokens were in the cache", report.cached_tokens)
    if report.draft_steps:
        _log.info(
            "%d of %d drafted tokens were right, in %d steps",
            report.accepted_tokens,
            report.drafted_tokens,
            report.draft_steps,
        )
    _log.debug("ended by %s, seed %d", report.stop_reason, report.seed)
    peak = peak_memory()
    if peak:
        _log.debug("peak memory of the process: %s", human_size(peak))
