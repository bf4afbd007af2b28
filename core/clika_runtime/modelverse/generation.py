"""Text in, text out: the runnable form of a causal language model.

model = load_generative("model.gguf")
print(model.generate("Once upon a time,", max_new_tokens=64, stop=["."]))
print(model.chat([{"role": "user", "content": "Name the capital of France."}], temperature=0.0))
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.io import read_json

from .cache import CacheConfig, KVCache
from .config import Fields, read_stop_ids
from .engine import Engine, Sampling
from .knobs import REAL, WHOLE
from .loader import Checkpoint, LoadedModel, LoadOptions, load_model
from .scheduler import Request, Scheduler
from .stopping import StopStrings, check_stop

__all__ = [
    "GenerationConfig",
    "GenerationReport",
    "GenerativeModel",
    "TextStream",
    "load_generative",
]

DEFAULT_NEW_TOKENS = 512
CONFIG_LIMIT = 16 << 20


@dataclass(frozen=True)
class GenerationConfig:
    """The knobs of a generation.

    ``max_new_tokens`` bounds the reply. ``temperature`` 0 is greedy; ``top_k`` 0, ``top_p`` 1 and
    ``min_p`` 0 are off. ``seed`` None draws a fresh one, which the report names. ``stop`` are
    strings that end the reply and are not part of it; ``stop_ids`` are the checkpoint's own ends.
    """

    max_new_tokens: int = DEFAULT_NEW_TOKENS
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()

    def with_options(self, options: Mapping[str, Any]) -> GenerationConfig:
        """A copy with some knobs changed (None leaves one as it is); refuses an unknown knob or a
        bad value."""
        known = {item.name for item in fields(self)}
        for name in options:
            if name not in known:
                raise InvalidArgumentError(
                    f"generate: unknown option '{name}'; it has {', '.join(sorted(known))}"
                )
        changed = {name: value for name, value in options.items() if value is not None}
        if "stop" in changed:
            changed["stop"] = check_stop(changed["stop"])
        if "stop_ids" in changed:
            changed["stop_ids"] = tuple(changed["stop_ids"])
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

    def sampling(self, seed: int) -> Sampling:
        """The engine's form of the knobs."""
        return Sampling(self.temperature, self.top_k, self.top_p, self.min_p, seed)


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidArgumentError(
            f"generate: {name} must be a whole number in {low} .. {high}, got {value!r}"
        )


def _within(name: str, value: Any, low: float, high: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # A NaN fails the comparison, as it should.
    if not is_number or not low <= value <= high:
        raise InvalidArgumentError(
            f"generate: {name} must be in {low:g} .. {high:g}, got {value!r}"
        )


@dataclass
class GenerationReport:
    """What one generation did.

    ``stop_reason``: ``stop`` (one of the checkpoint's ends, in ``stop_id``), ``stop_string`` (in
    ``stop_text``), ``length``, ``window`` or ``cancelled``. Times are seconds; ``prefill_seconds``
    runs to the first token."""

    prompt_tokens: int
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    stop_reason: str = ""
    stop_id: int | None = None
    stop_text: str | None = None
    seed: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    @property
    def new_tokens(self) -> int:
        """Tokens of the reply."""
        return len(self.token_ids)

    @property
    def prefill_tokens_per_second(self) -> float:
        """Prompt tokens per second up to the first token."""
        return self.prompt_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        """Reply tokens after the first per second."""
        count = self.new_tokens - 1
        return count / self.decode_seconds if self.decode_seconds and count > 0 else 0.0


class TextStream(Iterator[str]):
    """The pieces of a reply as they come; ``report`` fills up and is complete at the end.

    ``close`` (or leaving a ``with`` block) cancels what is still running.
    """

    def __init__(self, model: GenerativeModel, request: Request, config: GenerationConfig) -> None:
        self._scheduler = model.scheduler
        self._request = request
        self._decoder = model.tokenizer.streaming_decoder()
        self._stops = StopStrings(config.stop)
        self._seen = 0
        self._finished = False
        self._pieces: list[str] = []
        self.report = GenerationReport(len(request.tokens), seed=request.sampling.seed)

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        while not self._finished:
            piece = self._next_piece()
            if piece:
                self._pieces.append(piece)
                return piece
        raise StopIteration

    def _next_piece(self) -> str:
        request = self._request
        try:
            self._scheduler.advance(request, self._seen)
        except BaseException:
            self._finished = True
            self._scheduler.cancel(request)
            raise
        piece = ""
        while self._seen < len(request.produced) and self._stops.found is None:
            piece += self._stops.push(self._decoder.push(request.produced[self._seen]))
            self._seen += 1
        if self._stops.found is not None:
            self._finish("stop_string")
        elif request.done and self._seen == len(request.produced):
            piece += self._stops.push(self._decoder.finish())
            piece += self._stops.flush()
            reason = "stop_string" if self._stops.found else request.stop_reason or ""
            self._finish(reason, piece)
            return piece
        if self._finished:
            self._complete(piece)
        return piece

    def _finish(self, reason: str, last: str | None = None) -> None:
        self._finished = True
        self._scheduler.cancel(self._request)
        self.report.stop_reason = reason
        if last is not None:
            self._complete(last)

    def _complete(self, last: str) -> None:
        request, report = self._request, self.report
        report.token_ids = list(request.produced[: self._seen])
        report.text = "".join(self._pieces) + last
        report.stop_id = request.stop_id
        report.stop_text = self._stops.found
        report.prefill_seconds = max(0.0, request.first_token_time - request.started)
        report.decode_seconds = max(0.0, request.last_token_time - request.first_token_time)

    def close(self) -> None:
        """Cancels the reply if it still runs; the text so far stays in the report."""
        if not self._finished:
            self._finish("cancelled", "")

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A stream that nobody reads to its end must not keep its place in the cache.
        if not getattr(self, "_finished", True):
            self.close()


class GenerativeModel:
    """A loaded model that continues text and answers conversations. Made by ``load_generative``.

    Calls from several threads share the model: their steps are batched.
    """

    def __init__(self, loaded: LoadedModel, tokenizer: Any, defaults: GenerationConfig) -> None:
        options = loaded.options
        window = int(loaded.config.max_position_embeddings)
        if options.max_seq:
            window = min(window, options.max_seq)
        self.loaded = loaded
        self.config = loaded.config
        self.tokenizer = tokenizer
        self.window = window
        self._defaults = defaults
        cache = KVCache(
            loaded.model.cache_specs(),
            CacheConfig(
                max_tokens=window,
                max_sequences=options.max_sequences,
                layout=options.kvcache,
                dtype=options.cache_rows(loaded.dtype).name,
                device=options.device,
            ),
        )
        self.engine = Engine(loaded.model, cache, chunk=options.prefill_chunk)
        self.scheduler = Scheduler(self.engine)

    # ---- facts
    @property
    def family(self) -> str:
        """The name of the model's family."""
        return self.loaded.family.name

    @property
    def has_chat_template(self) -> bool:
        """Whether the checkpoint says how a conversation is written."""
        return bool(self.tokenizer.has_chat_template)

    @property
    def defaults(self) -> GenerationConfig:
        """The checkpoint's own knobs, which every call starts from."""
        return self._defaults

    @property
    def report(self) -> dict[str, Any]:
        """What was decided at load: family, dtypes, how weights are multiplied, window, cache,
        seconds."""
        config = self.engine.cache.config
        return {
            **self.loaded.report,
            "window": self.window,
            "cache_dtype": config.rows.name,
            "cache_layout": config.layout,
            "cache_bytes_per_token": self.engine.cache.nbytes_per_token,
        }

    # ---- text
    def render(self, messages: Any, **options: Any) -> str:
        """The prompt text that the chat template makes of a conversation.

        ``messages``: dicts with "role" and "content". ``add_generation_prompt`` (True) opens the
        assistant's turn."""
        return str(self.tokenizer.apply_chat_template(messages, **options))

    def generate(self, prompt: str | Sequence[int], **options: Any) -> str:
        """Continues a text (or token ids) and returns the new text.

        Options: ``max_new_tokens``, ``temperature``, ``top_k``, ``top_p``, ``min_p``, ``seed``,
        ``stop``, ``stop_ids``, over the checkpoint's defaults. Refused: an empty prompt; a prompt
        that fills the window, with both numbers.

            model.generate("Once upon a time,", temperature=0.8, seed=7, stop=["."])
        """
        return _drain(self.stream_generate(prompt, **options)).text

    def stream_generate(self, prompt: str | Sequence[int], **options: Any) -> TextStream:
        """Like ``generate``, as a stream of text pieces; ``report`` of the stream says how it
        went."""
        config = self._defaults.with_options(options)
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        return self._start(ids, config)

    def chat(self, messages: Any, **options: Any) -> str:
        """Renders a conversation and returns the assistant's reply; takes the options of
        ``generate``."""
        return _drain(self.stream_chat(messages, **options)).text

    def stream_chat(self, messages: Any, **options: Any) -> TextStream:
        """Like ``chat``, as a stream of text pieces."""
        config = self._defaults.with_options(options)
        # The template writes the beginning of the text itself.
        ids = self.tokenizer.encode(self.render(messages), add_special_tokens=False)
        return self._start(ids, config)

    def generate_batch(
        self, prompts: Sequence[str | Sequence[int]], **options: Any
    ) -> list[GenerationReport]:
        """Continues several prompts together, as many at a time as the cache holds sequences; one
        report each."""
        streams = [self.stream_generate(prompt, **options) for prompt in prompts]
        return [_drain(stream) for stream in streams]

    def _start(self, ids: Sequence[int], config: GenerationConfig) -> TextStream:
        self._check_ids(ids)
        seed = int.from_bytes(os.urandom(7), "little") if config.seed is None else config.seed
        request = Request(
            ids, config.sampling(seed), config.max_new_tokens, frozenset(config.stop_ids)
        )
        self.scheduler.submit(request)
        return TextStream(self, request, config)

    def _check_ids(self, ids: Sequence[int]) -> None:
        vocabulary = self.loaded.model.vocab_size
        for place, token in enumerate(ids):
            if not hasattr(token, "__index__"):
                raise InvalidArgumentError(
                    f"generate: a prompt is a text or a list of token ids, item {place} is "
                    f"{type(token).__name__}; several prompts go to generate_batch()"
                )
            if not 0 <= token < vocabulary:
                raise InvalidArgumentError(
                    f"generate: token {place} of the prompt is {token}, outside the vocabulary of "
                    f"{vocabulary}"
                )

    # ---- scores
    def logits(self, tokens: str | Sequence[int]) -> Any:
        """Logits after each token, float32 ``[tokens, vocabulary]`` as a NumPy array."""
        ids = self.tokenizer.encode(tokens) if isinstance(tokens, str) else list(tokens)
        self._check_ids(ids)
        if not ids or len(ids) > self.window:
            raise InvalidArgumentError(
                f"logits: {len(ids)} tokens are given, 1 .. {self.window} fit in the context window"
            )
        return self.engine.logits(ids)

    def score(self, tokens: str | Sequence[int]) -> Any:
        """Log-probability of each token after the first, given those before it: float64 ``[tokens -
        1]``."""
        import numpy as np

        ids = self.tokenizer.encode(tokens) if isinstance(tokens, str) else list(tokens)
        rows = self.logits(ids)[:-1].astype(np.float64)
        top = rows.max(axis=1, keepdims=True)
        norms = top[:, 0] + np.log(np.exp(rows - top).sum(axis=1))
        return rows[np.arange(len(rows)), ids[1:]] - norms


def _drain(stream: TextStream) -> GenerationReport:
    for _ in stream:
        pass
    return stream.report


def load_generative(
    source: Any, options: LoadOptions | None = None, **more: Any
) -> GenerativeModel:
    """Loads a model that generates text: a directory, a GGUF file, or what ``sources.resolve``
    returned.

    Options are those of ``LoadOptions``, as an object or as keywords; ``tokenizer`` names another
    tokenizer's file.

        model = load_generative("model.gguf", max_seq=4096, dtype="float32")
    """
    tokenizer_path = more.pop("tokenizer", None)
    if more:
        options = load_options(options or LoadOptions(), more)
    started = time.perf_counter()
    loaded = load_model(source, options)
    tokenizer = _load_tokenizer(loaded.checkpoint, tokenizer_path)
    defaults = read_defaults(loaded.checkpoint, loaded.config)
    loaded.report["load_seconds"] = time.perf_counter() - started
    return GenerativeModel(loaded, tokenizer, defaults)


def load_options(options: LoadOptions, more: Mapping[str, Any]) -> LoadOptions:
    """``options`` with what ``more`` names; a name that is none is refused with those that are."""
    known = {item.name for item in fields(options)}
    for name in more:
        if name not in known:
            raise InvalidArgumentError(
                f"load_generative: unknown option '{name}'; it has {', '.join(sorted(known))}"
            )
    return replace(options, **more)


def _load_tokenizer(checkpoint: Checkpoint, path: Any) -> Any:
    from clika_runtime.tokenizer import Tokenizer

    if path is not None:
        return Tokenizer.from_file(path)
    if checkpoint.kind == "gguf":
        # The file's own tokenizer wins over files beside it.
        return Tokenizer.from_gguf(checkpoint.file)
    return Tokenizer.from_huggingface(checkpoint.folder)


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
    if not found.boolean("do_sample", False):
        return GenerationConfig(max_new_tokens=limit, stop_ids=stop_ids)
    return GenerationConfig(
        max_new_tokens=limit,
        temperature=found.number("temperature", 1.0, low=0.0, high=1e6),
        # 50 is what a generation_config.json leaves out.
        top_k=found.integer("top_k", 50, low=0),
        top_p=found.number("top_p", 1.0, low=0.0, high=1.0),
        min_p=found.number("min_p", 0.0, low=0.0, high=1.0),
        stop_ids=stop_ids,
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
