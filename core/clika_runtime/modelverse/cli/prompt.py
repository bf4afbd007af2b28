"""``SOURCE prompt MESSAGE``: one templated generation, streamed to standard output.

The message is an argument, or what standard input holds: for the argument ``-``, and where there is
no argument and standard input is no terminal."""

from __future__ import annotations

import argparse
import codecs
import logging
import re
import sys
import time
from typing import Any

from ...errors import ClikaRTError, InvalidArgumentError, UnsupportedError
from .. import catalog
from ..knobs import REAL, WHOLE
from ..sources import ResolvedSource, human_size
from . import EXIT_OK, loading
from .arguments import MAX_SEQ, Parser, number
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
    **{name: f"--{name.replace('_', '-')}" for name in (*WHOLE, *REAL) if "_" in name},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message",
        metavar="MESSAGE",
        nargs="?",
        help="the user message; '-', or none with a pipe, reads it from standard input (UTF-8)",
    )
    text = parser.add_argument_group("generation")
    text.add_argument("--system", metavar="TEXT", help="a system message before the user's")
    text.add_argument(
        "--image",
        action="append",
        metavar="FILE",
        help="an image beside the message, for a model that reads images",
    )
    text.add_argument(
        "--max-new-tokens",
        type=number(int, *WHOLE["max_new_tokens"]),
        metavar="N",
        help="most tokens of the reply (default: the checkpoint's, else 512)",
    )
    text.add_argument(
        "--temperature",
        type=number(float, *REAL["temperature"]),
        metavar="T",
        help="0 is greedy; higher is more varied (default: the checkpoint's, else 0)",
    )
    text.add_argument(
        "--greedy", action="store_true", help="always the likeliest token; no sampling"
    )
    text.add_argument(
        "--seed",
        type=number(int, *WHOLE["seed"]),
        metavar="N",
        help="makes a sampled run repeatable (default: a fresh seed, shown by -v)",
    )
    text.add_argument(
        "--top-k",
        type=number(int, *WHOLE["top_k"]),
        metavar="N",
        help="sample among the N likeliest tokens; 0 takes all",
    )
    text.add_argument(
        "--top-p",
        type=number(float, *REAL["top_p"], open_low=True),
        metavar="P",
        help="sample among the likeliest tokens that hold probability P together; 1 takes all",
    )
    text.add_argument(
        "--min-p",
        type=number(float, *REAL["min_p"]),
        metavar="P",
        help="sample among tokens at least P times as probable as the likeliest; 0 takes all",
    )
    text.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="end the reply before this text; may be given several times",
    )
    loading.add_arguments(parser)


def check_arguments(arguments: Any, parser: Parser) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    given = vars(arguments)
    if given.get("greedy") and given.get("temperature"):
        parser.error("--greedy and --temperature exclude each other (greedy is temperature 0)")
    if any(not text for text in given.get("stop", ())):
        parser.error("--stop needs a text, got an empty one")
    texts = {"the message": [given.get("message")], "--system": [given.get("system")]}
    for name, values in {**texts, "--stop": given.get("stop", [])}.items():
        if not all(_is_text(value) for value in values if value is not None):
            parser.error(f"{name} is no valid text (bytes that are no UTF-8); convert it first")
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

_GENERATION = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "stop")
_SAMPLING = ("top_k", "top_p", "min_p", "seed")


def run(source: ResolvedSource, identity: catalog.Identity, arguments: Any) -> int:
    try:
        return _run(source, identity, vars(arguments))
    except ClikaRTError as error:
        text = str(error)
        for name, flag in _FLAG_OF.items():
            text = re.sub(rf"\b{name}\b", flag, text)
        error.args = (text,)
        raise


def _run(source: ResolvedSource, identity: catalog.Identity, given: dict[str, Any]) -> int:
    _refuse_images(identity, given)
    stages = Stages(given.get("memory_stages"), source)
    begun = time.perf_counter()
    model = loading.load(source, identity, given)
    seconds = time.perf_counter() - begun
    stages.record("weights", model)
    knobs = _knobs(given, model.defaults)
    if _log.isEnabledFor(logging.DEBUG):
        _report_options(source, model, given, knobs)
    _log.info("%s loaded in %.2f s", source.name, seconds)
    with _start(model, given, knobs) as stream:
        text = ""
        for text in stream:
            stages.record("forward", model)
            sys.stdout.write(text)
            sys.stdout.flush()
    if not text.endswith("\n"):
        sys.stdout.write("\n")
        sys.stdout.flush()
    stages.record("generation", model)
    _report_generation(model, stream.report, given)
    return EXIT_OK


def _refuse_images(identity: catalog.Identity, given: dict[str, Any]) -> None:
    if "image" not in given or identity.row is None:
        return
    family = f"family '{identity.family}' ({identity.modalities})"
    if "image" not in identity.row.spec.input_modalities:
        raise UnsupportedError(f"--image: {family} reads no images")
    raise UnsupportedError(f"--image: this release gives no images to {family}")


def _knobs(given: dict[str, Any], defaults: Any) -> dict[str, Any]:
    """The generation flags that were given; what is absent is the checkpoint's own."""
    knobs = {name: given[name] for name in _GENERATION if name in given}
    if given.get("greedy"):
        knobs["temperature"] = 0.0
    if knobs.get("temperature", defaults.temperature) == 0:
        idle = [f"--{name.replace('_', '-')}" for name in _SAMPLING if name in given]
        if idle:
            _log.warning("%s: no effect, the temperature is 0 (greedy)", ", ".join(idle))
    return knobs


def _start(model: Any, given: dict[str, Any], knobs: dict[str, Any]) -> Any:
    if model.has_chat_template:
        messages = [{"role": "user", "content": given["message"]}]
        if "system" in given:
            messages.insert(0, {"role": "system", "content": given["system"]})
        return model.stream_chat(messages, **knobs)
    if "system" in given:
        raise UnsupportedError("--system needs a chat template, and this checkpoint has none")
    _log.info("the checkpoint has no chat template: the message is continued as it is")
    return model.stream_generate(given["message"], **knobs)


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
    for name in _GENERATION:
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


def _report_generation(model: Any, report: Any, given: dict[str, Any]) -> None:
    for warning in report.warnings:
        _log.warning("%s", warning)
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
    _log.debug("ended by %s, seed %d", report.stop_reason, report.seed)
    peak = peak_memory()
    if peak:
        _log.debug("peak memory of the process: %s", human_size(peak))
