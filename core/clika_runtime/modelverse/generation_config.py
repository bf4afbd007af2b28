"""The knobs of a generation: their checks, the engine's form of them, and a checkpoint's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from clika_runtime.errors import InvalidArgumentError, told
from clika_runtime.io import read_json

from .config import Fields, read_stop_ids
from .knobs import MAX_BIASES, REAL, WHOLE
from .loader import Checkpoint
from .sampling import NO_LOGPROBS, Sampling
from .stopping import check_stop

__all__ = ["DEFAULT_NEW_TOKENS", "GenerationConfig", "read_defaults"]

DEFAULT_NEW_TOKENS = 512
CONFIG_LIMIT = 16 << 20
MAX_STOP_IDS = 4096
# What only a draw reads, and of that what mirostat takes the place of.
_FILTERS = (
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
)
_DRAWN = (*_FILTERS, "mirostat", "mirostat_tau", "mirostat_eta", "seed")
# What other programs name so.
_ELSEWHERE = {
    "stream": "stream_generate and stream_chat give the text as it comes",
    "response_format": "constraint= takes a response_format",
    "max_tokens": "it is max_new_tokens here",
}
_SWITCHES = ("logprobs", "skip_special_tokens", "truncate")


@dataclass(frozen=True)
class GenerationConfig:
    """The knobs of a generation.

    ``max_new_tokens`` bounds the reply. ``stop`` are strings that end the reply and are not part of
    it; ``stop_ids`` are the checkpoint's own ends. ``skip_special_tokens`` leaves special tokens
    out of the text. ``truncate`` cuts a prompt over the window at its start, which the report says;
    else it is refused.

    ``temperature`` 0 is greedy. ``seed`` None draws a fresh one, which the report names. Filters,
    off at the default: ``top_k`` (0), ``top_p`` (1), ``min_p`` (0), ``typical_p`` (1),
    ``top_n_sigma`` (0), ``xtc_probability`` (0) with ``xtc_threshold``. ``mirostat`` 1 or 2 (its
    versions) takes their place, with ``mirostat_tau`` (the surprise aimed at, in bits) and
    ``mirostat_eta`` (how fast).

    Penalties, off at the default: ``repetition_penalty`` (1) over prompt and reply,
    ``frequency_penalty`` and ``presence_penalty`` (0) over the reply, DRY by ``dry_multiplier`` (0)
    with ``dry_base``, ``dry_allowed_length`` and ``dry_sequence_breakers`` (texts that end a run).
    They see the last ``penalty_window`` tokens (0: all). ``logit_bias`` maps tokens to what is
    added to their logits, ``banned_tokens`` never appear. `sampling` says the order of all of it.

    Drafts change the time of a reply and nothing else: ``prompt_lookup_num_tokens`` (0: none) is
    how many tokens at most are drafted out of the text so far, ``num_assistant_tokens`` how many by
    an ``assistant_model`` (`GenerativeModel.stream_generate`); `speculation` says more.

    ``logprobs`` reports the log-probability of each token, ``top_logprobs`` so many of the
    likeliest beside it (which turns ``logprobs`` on)."""

    max_new_tokens: int = DEFAULT_NEW_TOKENS
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_window: int = 0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned_tokens: tuple[int, ...] = ()
    logprobs: bool = False
    top_logprobs: int = 0
    prompt_lookup_num_tokens: int = 0
    num_assistant_tokens: int = 7
    skip_special_tokens: bool = True
    truncate: bool = False

    def with_options(self, options: Mapping[str, Any]) -> GenerationConfig:
        """A copy with some knobs changed (None leaves one as it is); refuses an unknown knob or a
        bad value."""
        known = {item.name for item in fields(self)}
        for name in options:
            if name not in known:
                raise InvalidArgumentError(
                    f"generate: unknown option '{name}'; "
                    + _ELSEWHERE.get(name, f"it has {', '.join(sorted(known))}")
                )
        changed = {name: value for name, value in options.items() if value is not None}
        if not changed:
            return self
        for name in ("stop", "dry_sequence_breakers"):
            if name in changed:
                changed[name] = check_stop(changed[name], name)
        for name in ("stop_ids", "banned_tokens"):
            if name in changed:
                most = MAX_STOP_IDS if name == "stop_ids" else MAX_BIASES
                changed[name] = _token_ids(name, changed[name], most)
        if "logit_bias" in changed:
            changed["logit_bias"] = _biases(changed["logit_bias"])
        result = replace(self, **changed)
        result.check()
        return result

    def check(self) -> None:
        """Raises for a value outside its range."""
        for name, (least, most) in WHOLE.items():
            if name != "seed" or self.seed is not None:
                _whole(name, getattr(self, name), least, most)
        for name, (low, high) in REAL.items():
            _within(name, getattr(self, name), low, high)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgumentError(
                    f"generate: {name} must be True or False, got {told(getattr(self, name))}"
                )
        if self.mirostat not in (0, 1, 2) or isinstance(self.mirostat, (bool, float)):
            raise InvalidArgumentError(
                f"generate: mirostat must be 0 (off) or its version, 1 or 2, got "
                f"{told(self.mirostat)}"
            )

    def check_vocabulary(self, size: int) -> None:
        """Raises for a token that the vocabulary lacks."""
        for name, ids in (
            ("stop_ids", self.stop_ids),
            ("banned_tokens", self.banned_tokens),
            ("logit_bias", [token for token, _ in self.logit_bias]),
        ):
            for token in ids:
                if not 0 <= token < size:
                    raise InvalidArgumentError(
                        f"generate: {name} has token {told(token)}, outside the vocabulary of "
                        f"{size}"
                    )

        banned = {token for token, bias in self.logit_bias if bias == -math.inf}
        if len(banned.union(self.banned_tokens)) == size:
            raise InvalidArgumentError(
                f"generate: logit_bias and banned_tokens ban all {size} tokens of the vocabulary"
            )

    def without_effect(self, given: Iterable[str]) -> list[str]:
        """The knobs out of ``given`` that change nothing: only a draw reads them."""
        if self.temperature == 0.0:
            return [name for name in given if name in _DRAWN]
        if self.mirostat:
            return [name for name in given if name in _FILTERS]
        return []

    def sampling(self, seed: int) -> Sampling:
        """The engine's form of the knobs."""
        draws = self.temperature > 0.0
        mirostat = draws and self.mirostat != 0
        bans = tuple((token, -math.inf) for token in self.banned_tokens)
        return Sampling(
            temperature=float(self.temperature),
            top_k=self.top_k,
            top_p=float(self.top_p),
            min_p=float(self.min_p),
            seed=seed,
            top_n_sigma=float(self.top_n_sigma) if draws else 0.0,
            typical_p=float(self.typical_p) if draws else 1.0,
            xtc_probability=float(self.xtc_probability) if draws else 0.0,
            xtc_threshold=float(self.xtc_threshold),
            repetition_penalty=float(self.repetition_penalty),
            frequency_penalty=float(self.frequency_penalty),
            presence_penalty=float(self.presence_penalty),
            penalty_window=self.penalty_window,
            dry_multiplier=float(self.dry_multiplier),
            dry_base=float(self.dry_base),
            dry_allowed_length=self.dry_allowed_length,
            mirostat_tau=float(self.mirostat_tau) if mirostat else 0.0,
            mirostat_eta=float(self.mirostat_eta),
            mirostat_version=self.mirostat or 2,
            bias=self.logit_bias + bans,
            logprobs=self.top_logprobs if self.logprobs or self.top_logprobs else NO_LOGPROBS,
        )


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidArgumentError(
            f"generate: {name} must be a whole number in {low} .. {high}, got {told(value)}"
        )


def _within(name: str, value: Any, low: float, high: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # A NaN fails the comparison, as it should.
    if not is_number or not low <= value <= high:
        raise InvalidArgumentError(
            f"generate: {name} must be in {low:g} .. {high:g}, got {told(value)}"
        )


def _listed(name: str, values: Any, most: int) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgumentError(
            f"generate: {name} must be a list, got {type(values).__name__} {told(values)}"
        )
    found = []
    for value in values:
        found.append(value)
        if len(found) > most:
            raise InvalidArgumentError(
                f"generate: {name} has more than {most} entries, which are the most that are taken"
            )
    return found


def _token(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(
            f"generate: {name} takes token ids, got {type(value).__name__} {told(value)}"
        )
    return int(value.__index__())


def _token_ids(name: str, values: Any, most: int) -> tuple[int, ...]:
    return tuple(_token(name, value) for value in _listed(name, values, most))


def _biases(value: Any) -> tuple[tuple[int, float], ...]:
    """Pairs of a mapping, or of a sequence of pairs. Keys may be texts of digits, as JSON has
    them."""
    pairs = []
    entries = value.items() if isinstance(value, Mapping) else value
    for entry in _listed("logit_bias", entries, MAX_BIASES):
        if not isinstance(entry, (tuple, list)) or len(entry) != 2:
            raise InvalidArgumentError(
                f"generate: logit_bias maps tokens to numbers, got the entry {told(entry)}"
            )
        token, bias = entry
        if isinstance(token, str) and token.isascii() and token.isdigit() and len(token) < 12:
            token = int(token)
        number = isinstance(bias, (int, float)) and not isinstance(bias, bool)
        if not number or not (-1e6 <= bias <= 1e6 or bias == -math.inf):
            raise InvalidArgumentError(
                f"generate: logit_bias of token {told(token)} must be in -1e+06 .. 1e+06, or -inf "
                f"to ban it, got {told(bias)}"
            )
        pairs.append((_token("logit_bias", token), float(bias)))
    return tuple(pairs)


# ---- defaults of a checkpoint
def read_defaults(checkpoint: Checkpoint, config: Any) -> GenerationConfig:
    """The knobs that a checkpoint asks for: `generation_config.json` or GGUF metadata; greedy when
    it asks for none."""
    if checkpoint.kind == "gguf":
        return _gguf_defaults(Fields(checkpoint.config, checkpoint.where), config.vocab_size)
    path = checkpoint.folder / "generation_config.json"
    if not path.is_file():
        return GenerationConfig(stop_ids=config.eos_token_ids)
    found = Fields(read_json(path, CONFIG_LIMIT), str(path))
    stop_ids = read_stop_ids(found, "eos_token_id", config.vocab_size) or config.eos_token_ids
    limit = found.integer("max_new_tokens", DEFAULT_NEW_TOKENS)
    low, high = REAL["repetition_penalty"]
    more = {"repetition_penalty": found.number("repetition_penalty", 1.0, low=low, high=high)}
    if not found.boolean("do_sample", False):
        return GenerationConfig(max_new_tokens=limit, stop_ids=stop_ids, **more)
    return GenerationConfig(
        max_new_tokens=limit,
        temperature=found.number("temperature", 1.0, low=0.0, high=1e6),
        # 50 is what a generation_config.json leaves out.
        top_k=found.integer("top_k", 50, low=0),
        top_p=found.number("top_p", 1.0, low=0.0, high=1.0),
        min_p=found.number("min_p", 0.0, low=0.0, high=1.0),
        typical_p=found.number("typical_p", 1.0, low=0.0, high=1.0),
        stop_ids=stop_ids,
        **more,
    )


def _gguf_defaults(found: Fields, vocabulary: int) -> GenerationConfig:
    stop_ids: list[int] = []
    for key in ("eos_token_id", "eot_token_id", "eom_token_id"):
        stop_ids.extend(read_stop_ids(found, f"tokenizer.ggml.{key}", vocabulary))
    prefix = "general.sampling."
    return GenerationConfig(
        temperature=found.number(f"{prefix}temp", 0.0, low=0.0, high=1e6),
        top_k=found.integer(f"{prefix}top_k", 0, low=0),
        top_p=found.number(f"{prefix}top_p", 1.0, low=0.0, high=1.0),
        min_p=found.number(f"{prefix}min_p", 0.0, low=0.0, high=1.0),
        stop_ids=tuple(dict.fromkeys(stop_ids)),
    )
