"""The flags of commands that generate text: the knobs of a generation, and the checks of them that
need no model."""

from __future__ import annotations

import argparse
import math
from typing import Any

from ..knobs import REAL, WHOLE
from .arguments import Parser, number

__all__ = ["KNOBS", "add_arguments", "by_flags", "check_arguments", "knobs_of"]

# In the order in which they work.
_SAMPLING = (
    (
        "top_n_sigma",
        "N",
        "sample among tokens within N standard deviations of the largest logit; 0 takes all",
    ),
    ("top_k", "N", "sample among the N likeliest tokens; 0 takes all"),
    (
        "typical_p",
        "P",
        "sample among the tokens of most typical surprise that hold probability P together; "
        "1 takes all",
    ),
    (
        "top_p",
        "P",
        "sample among the likeliest tokens that hold probability P together; 1 takes all",
    ),
    (
        "min_p",
        "P",
        "sample among tokens at least P times as probable as the likeliest; 0 takes all",
    ),
    ("xtc_probability", "P", "how often the likeliest tokens are left out (XTC); 0 is never"),
    ("xtc_threshold", "P", "tokens at least so probable are XTC's (default: 0.1)"),
    ("mirostat_tau", "BITS", "the surprise that mirostat aims at (default: 5)"),
    ("mirostat_eta", "RATE", "how fast mirostat follows (default: 0.1)"),
)
_PENALTIES = (
    ("repetition_penalty", "F", "tokens of prompt and reply are F times less likely; 1 is off"),
    ("frequency_penalty", "F", "subtracted per time that the reply has a token; 0 is off"),
    ("presence_penalty", "F", "subtracted where the reply has a token; 0 is off"),
    ("penalty_window", "N", "penalties see the last N tokens; 0 takes all"),
    ("dry_multiplier", "F", "penalty of tokens that would repeat a passage (DRY); 0 is off"),
    ("dry_base", "F", "growth of the DRY penalty per token of the passage (default: 1.75)"),
    ("dry_allowed_length", "N", "passages up to N - 1 tokens may repeat (default: 2)"),
)
_LISTED = {"dry_sequence_breakers": "dry_sequence_breaker", "banned_tokens": "ban_token"}
#: Every knob of a generation that a flag sets.
KNOBS = (
    "max_new_tokens",
    "temperature",
    *(name for name, _, _ in _SAMPLING),
    "mirostat",
    *(name for name, _, _ in _PENALTIES),
    *_LISTED,
    "logit_bias",
    "seed",
    "stop",
    "logprobs",
    "top_logprobs",
    "prompt_lookup_num_tokens",
    "num_assistant_tokens",
    "skip_special_tokens",
    "truncate",
)


def flag(knob: str) -> str:
    """The flag that sets a knob."""
    return f"--{_LISTED.get(knob, knob).replace('_', '-')}"


def _number(group: Any, name: str, metavar: str, help: str) -> None:
    kind = int if name in WHOLE else float
    low, high = WHOLE.get(name) or REAL[name]
    check = number(kind, low, high, open_low=name in ("top_p", "typical_p"))
    group.add_argument(flag(name), type=check, metavar=metavar, help=help)


def _bias(text: str) -> tuple[int, float]:
    token, equals, value = text.partition("=")
    try:
        pair = int(token), float(value)
    except ValueError:
        pair = -1, math.nan
    if not equals or pair[0] < 0 or not (abs(pair[1]) <= 1e6 or pair[1] == -math.inf):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not ID=BIAS, a token id and a number (-inf bans the token)"
        )
    return pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags, in groups."""
    text = parser.add_argument_group("generation")
    _number(
        text,
        "max_new_tokens",
        "N",
        "most tokens of the reply (default: the checkpoint's, else 512)",
    )
    _number(
        text,
        "temperature",
        "T",
        "0 is greedy; higher is more varied (default: the checkpoint's, else 0)",
    )
    text.add_argument(
        "--greedy", action="store_true", help="always the likeliest token; no sampling"
    )
    _number(
        text, "seed", "N", "makes a sampled run repeatable (default: a fresh seed, shown by -v)"
    )
    text.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="end the reply before this text; may be given several times",
    )
    text.add_argument(
        "--truncate",
        action="store_true",
        help="cut a prompt over the context window at its start, and say so (default: refuse it)",
    )
    text.add_argument(
        "--special-tokens",
        dest="skip_special_tokens",
        action="store_false",
        help="show special tokens in the reply",
    )
    sampling = parser.add_argument_group("sampling, in this order")
    for name, metavar, help in _SAMPLING[:-2]:
        _number(sampling, name, metavar, help)
    sampling.add_argument(
        "--mirostat",
        type=int,
        choices=(0, 1, 2),
        help="steer the surprise of the reply in place of these filters: version 1 or 2; 0 is off",
    )
    for name, metavar, help in _SAMPLING[-2:]:
        _number(sampling, name, metavar, help)
    penalties = parser.add_argument_group("penalties and biases")
    for name, metavar, help in _PENALTIES:
        _number(penalties, name, metavar, help)
    penalties.add_argument(
        "--dry-sequence-breaker",
        dest="dry_sequence_breakers",
        action="append",
        metavar="TEXT",
        help='a text that ends a passage; may be given several times (default: newline : " *)',
    )
    penalties.add_argument(
        "--logit-bias",
        action="append",
        type=_bias,
        metavar="ID=BIAS",
        help="added to the logit of a token; may be given several times",
    )
    penalties.add_argument(
        "--ban-token",
        dest="banned_tokens",
        action="append",
        type=number(int, 0),
        metavar="ID",
        help="a token that never appears; may be given several times",
    )
    told = parser.add_argument_group("output")
    told.add_argument(
        "--json",
        action="store_true",
        help="one JSON document at the end: text, tokens, stop reason, timings, warnings",
    )
    told.add_argument(
        "--logprobs",
        action="store_true",
        help="the log-probability of each token, in the document of --json",
    )
    _number(told, "top_logprobs", "N", "and those of the N likeliest tokens beside it")


def check_arguments(given: dict[str, Any], parser: Parser, is_text: Any) -> None:
    """What argparse cannot say: refused before anything is fetched or loaded."""
    if given.get("greedy") and given.get("temperature"):
        parser.error("--greedy and --temperature exclude each other (greedy is temperature 0)")
    for name in ("stop", "dry_sequence_breakers"):
        texts = given.get(name, ())
        if not all(texts):
            parser.error(f"{flag(name)} needs a text, got an empty one")
        if not all(map(is_text, texts)):
            parser.error(
                f"{flag(name)} is no valid text (bytes that are no UTF-8); convert it first"
            )
    if not given.get("json"):
        for name in ("logprobs", "top_logprobs"):
            if given.get(name):
                parser.error(f"{flag(name)} goes into the document of --json; add --json")


def knobs_of(given: dict[str, Any]) -> dict[str, Any]:
    """The knobs that were given; what is absent is the checkpoint's own."""
    knobs = {name: given[name] for name in KNOBS if name in given}
    if given.get("greedy"):
        knobs["temperature"] = 0.0
    return knobs


def by_flags(text: str) -> str:
    """A message of the library with the flags in the place of the knobs that it names in front."""
    names, colon, rest = text.partition(": no effect")
    if not colon:
        return text
    return ", ".join(flag(name) for name in names.split(", ")) + colon + rest
