"""Text in, text out: the runnable form of a causal language model.

model = load_generative("model.gguf")
print(model.generate("Once upon a time,", max_new_tokens=64, stop=["."]))
print(model.chat([{"role": "user", "content": "Name the capital of France."}], temperature=0.0))
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from clika_runtime.errors import ClikaRTError, InvalidArgumentError, told

from . import fit
from .adapters import adapted
from .assistant import Assistant, check_assistant
from .cache import CacheConfig, KVCache
from .embeddings import Embedder
from .engine import Engine
from .generation_config import GenerationConfig
from .loader import LoadedModel, LoadOptions, load_model
from .messages import readable
from .prefixes import PrefixStore
from .preview import Preview, constraint_for, preview
from .sampling import Choice, LogitsMask
from .scheduler import Request, Scheduler
from .scoring import TextScore, log_probabilities, score_text
from .sessions import Session, load_session, save_session
from .speculation import Speculation
from .streams import GenerationReport, TextStream, breaks_after

if TYPE_CHECKING:
    from .constraints import ConstraintSpec
    from .tools import OutputParser

__all__ = [
    "GenerationConfig",
    "GenerationReport",
    "GenerativeModel",
    "TextStream",
    "load_generative",
]

Prompt = str | Sequence[int]


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
                dtype=options.cache_rows(loaded.dtype, loaded.checkpoint).name,
                device=options.device,
                mode=options.mode,
            ),
        )
        self.engine = Engine(loaded.model, cache, chunk=options.prefill_chunk)
        self.prefixes = PrefixStore(cache) if options.prefix_cache else None
        self.scheduler = Scheduler(self.engine, prefixes=self.prefixes)
        self._assistants: WeakKeyDictionary[GenerativeModel, Assistant] = WeakKeyDictionary()

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
            "prefix_cache": "on" if self.prefixes is not None else "off",
        }

    def with_adapters(self, *adapters: Any) -> GenerativeModel:
        """The same weights with these LoRA adapters (paths, ``"PATH:SCALE"``) in the place of the
        model's own; none: without any. It has a cache and plans of its own, so that nothing that
        one adapter has computed is read under another.

            sql = model.with_adapters("sql-adapter", "style.gguf:0.5")
            print(sql.generate("SELECT"), model.generate("SELECT"))
        """
        return type(self)(adapted(self.loaded, adapters), self.tokenizer, self._defaults)

    # ---- text
    def render(self, messages: Any, **options: Any) -> str:
        """The prompt text that the chat template makes of a conversation.

        ``messages``: dicts with "role" and "content", a text or a list of parts ``{"type": "text",
        "text": ...}``. ``add_generation_prompt`` (True) opens the assistant's turn."""
        template = options.get("chat_template") or self.tokenizer.chat_template
        messages = readable(messages, template)
        return str(self.tokenizer.apply_chat_template(messages, **options))

    def generate(self, prompt: Prompt, **options: Any) -> str:
        """Continues a text (or token ids) and returns the new text.

        Options are the knobs of `GenerationConfig`, over the checkpoint's defaults, and one of two
        that restrict the reply: ``constraint``, a `ConstraintSpec` or what its ``read`` takes
        (OpenAI's ``response_format``, ``{"json_schema": ...}``, ``{"regex": ...}``, ``{"choice":
        [...]}``, ``{"lark": ...}``), and ``mask``, a `LogitsMask`. The reply ends where the
        constraint is complete; the report warns where a limit cut it before. Refused: a constraint
        that cannot be compiled; an empty prompt; a prompt that fills the
        window, with both numbers (unless ``truncate``). Several prompts go to ``generate_batch``.

            model.generate("Once upon a time,", temperature=0.8, seed=7, stop=["."])
            model.generate("2 + 2 =", constraint={"regex": " [0-9]+"})
        """
        return _drain(self.stream_generate(prompt, **options)).text

    def stream_generate(
        self,
        prompt: Prompt,
        *,
        constraint: Any = None,
        mask: LogitsMask | None = None,
        assistant_model: GenerativeModel | None = None,
        **options: Any,
    ) -> TextStream:
        """Like ``generate``, as a stream of text pieces; ``report`` of the stream says how it
        went.

        ``assistant_model`` is a smaller model over the same tokenizer, which drafts the reply; the
        reply is the same, to the bit. Refused: one over other tokens.

            small = load_generative("small.gguf")
            stream = model.stream_generate("Once upon a time,", assistant_model=small)
        """
        config = self._defaults.with_options(options)
        assistant = self._assistant(assistant_model)
        mask = self._restriction(_spec(constraint), mask)
        return self._start(self._prompt_ids(prompt), config, mask, options, assistant)

    def chat(self, messages: Any, **options: Any) -> str:
        """Renders a conversation and returns the assistant's reply; takes the options of
        ``generate`` and those of ``stream_chat``, whose report has tool calls and reasoning."""
        return _drain(self.stream_chat(messages, **options)).text

    def stream_chat(
        self,
        messages: Any,
        *,
        tools: Any = None,
        tool_choice: Any = None,
        parallel_tool_calls: bool = False,
        split_reasoning: bool = False,
        constraint: Any = None,
        mask: LogitsMask | None = None,
        assistant_model: GenerativeModel | None = None,
        **options: Any,
    ) -> TextStream:
        """Like ``chat``, as a stream of text pieces.

        ``tools`` (a list in the OpenAI shape) are offered through the chat template. The reply is
        taken apart then: the pieces and the report's ``text`` are the answer alone, the report has
        ``reasoning`` and ``tool_calls``, the stream's ``events`` tell all of it as it comes.
        ``tool_choice`` is ``"auto"`` (the default), ``"none"`` (no tool is offered),
        ``"required"``, or ``{"name": ...}``: the last two make the reply one call, with
        ``parallel_tool_calls`` 1 to 32 (calls that are not forced may always be several).
        ``split_reasoning`` takes reasoning out of the text where no tools are offered. Refused: a
        template that has no place for tools, or writes calls in no known format; several forced
        calls in a format that has one in a reply; tools together with a constraint.

            stream = model.stream_chat(messages, tools=tools)
            for piece in stream:
                print(piece, end="")
            for call in stream.report.tool_calls:
                print(call.name, call.arguments)
        """
        config = self._defaults.with_options(options)
        assistant = self._assistant(assistant_model)
        spec = _spec(constraint)
        form = None
        if tools is not None or tool_choice is not None or split_reasoning:
            from .replies import chat_form

            form = chat_form(self, tools, tool_choice, split_reasoning, parallel_tool_calls)
        restricted = spec is not None or mask is not None
        if restricted and form is not None and form.format is not None:
            raise InvalidArgumentError(
                "chat: tools and a constraint (or mask) exclude each other; leave out one, or set "
                'tool_choice to "none"'
            )
        given = {} if form is None or form.rendered is None else {"tools": form.rendered}
        prompt = self.render(messages, **given)
        if form is not None:
            spec = form.constraint(self.tokenizer, prompt) or spec
        mask = self._restriction(spec, mask)
        # A constraint is about the whole reply: there is nothing to take out of it.
        if restricted:
            form = None
        # The template writes the beginning of the text itself.
        ids = self._encode(prompt, False)
        parser = None if form is None else form.parser(prompt)
        shown = frozenset[int]() if form is None else form.shown
        return self._start(ids, config, mask, options, assistant, parser, shown)

    def generate_batch(
        self, prompts: Sequence[Prompt], *, raise_errors: bool = True, **options: Any
    ) -> list[GenerationReport]:
        """Continues several prompts together, as many at a time as the cache holds sequences; one
        report each, in their order.

        A prompt that fails leaves the others alone: when all are done, the first failure is raised,
        or, without ``raise_errors``, each stands in its report's ``error``. A prompt that is
        refused (empty, over the window) is refused before any runs.
        """
        return self._batch(
            lambda prompt: self.stream_generate(prompt, **options),
            _several("generate_batch", prompts),
            raise_errors,
        )

    def chat_batch(
        self, conversations: Sequence[Any], *, raise_errors: bool = True, **options: Any
    ) -> list[GenerationReport]:
        """Like ``generate_batch``, over conversations."""
        return self._batch(
            lambda turns: self.stream_chat(turns, **options),
            _several("chat_batch", conversations),
            raise_errors,
        )

    def _batch(
        self, start: Callable[[Any], TextStream], items: Iterable[Any], raise_errors: bool
    ) -> list[GenerationReport]:
        streams: list[TextStream] = []
        try:
            for item in items:
                streams.append(start(item))
        except BaseException:
            for stream in streams:
                stream.close()
            raise
        reports = []
        for stream in streams:
            try:
                reports.append(_drain(stream))
            except ClikaRTError:
                reports.append(stream.report)
            except BaseException:
                for other in streams:
                    other.close()
                raise
        failed = [report.error for report in reports if report.error is not None]
        if failed and raise_errors:
            raise failed[0]
        return reports

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return self._encode(prompt, True)
        values: Any = prompt.tolist() if hasattr(prompt, "tolist") else prompt
        if isinstance(values, (bytes, bytearray)) or not isinstance(values, Sequence):
            raise InvalidArgumentError(
                f"generate: a prompt is a text or a list of token ids, got {type(prompt).__name__}"
            )
        return list(values)

    def _encode(self, text: str, add_special_tokens: bool) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"generate: the prompt is no text that UTF-8 can hold: character {error.start} is "
                f"{text[error.start]!r}, half of a surrogate pair"
            ) from error
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return ids

    def _start(
        self,
        ids: Sequence[int],
        config: GenerationConfig,
        mask: LogitsMask | None,
        options: Mapping[str, Any],
        assistant: Assistant | None = None,
        parser: OutputParser | None = None,
        shown: frozenset[int] = frozenset(),
    ) -> TextStream:
        self.check_ids(ids)
        config.check_vocabulary(self.loaded.model.vocab_size)
        warnings = []
        if config.truncate:
            ids, told = self._truncated(ids, config.max_new_tokens)
            warnings += told
        idle = config.without_effect(name for name in options if options[name] is not None)
        if idle:
            reason = "the temperature is 0 (greedy)" if not config.temperature else "mirostat is on"
            warnings.append(f"{', '.join(idle)}: no effect, {reason}")
        seed = int.from_bytes(os.urandom(7), "little") if config.seed is None else config.seed
        sampling = config.sampling(seed)
        choice = None
        if Choice.needed(sampling, mask):
            breaks = None
            if sampling.dry_multiplier:
                breaks = breaks_after(self.tokenizer, config.dry_sequence_breakers)
            choice = Choice(sampling, ids, mask, breaks)
        stop_ids = frozenset(config.stop_ids) | getattr(mask, "stop_ids", frozenset())
        request = Request(ids, sampling, config.max_new_tokens, stop_ids, choice=choice)
        if config.prompt_lookup_num_tokens or assistant is not None:
            if choice is None or choice.draftable:
                request.speculation = Speculation(
                    config.prompt_lookup_num_tokens, assistant, config.num_assistant_tokens
                )
            else:
                warnings.append(f"nothing is drafted: {choice.reason}")
        self.scheduler.submit(request)
        return TextStream(self, request, config, warnings, parser, shown)

    def _assistant(self, model: GenerativeModel | None) -> Assistant | None:
        """What drafts with that model."""
        if model is None:
            return None
        found = self._assistants.get(model) if isinstance(model, GenerativeModel) else None
        if found is None:
            check_assistant(self, model)
            sequences = self.engine.cache.config.max_sequences
            found = Assistant(model, sequences, self.loaded.model.vocab_size)
            self._assistants[model] = found
        return found

    def _restriction(
        self, spec: ConstraintSpec | None, mask: LogitsMask | None
    ) -> LogitsMask | None:
        """The mask of a new reply: the one given, or the state of a constraint, compiled."""
        if spec is None:
            if mask is not None and not isinstance(mask, LogitsMask):
                raise InvalidArgumentError(
                    f"generate: a mask has the methods mask() and accept(token), got "
                    f"{type(mask).__name__}"
                )
            return mask
        if mask is not None:
            raise InvalidArgumentError("generate: constraint and mask exclude each other")
        size = self.loaded.model.vocab_size
        return constraint_for(self.tokenizer, spec, size, self._defaults).start()

    def _truncated(self, ids: Sequence[int], reply: int) -> tuple[Sequence[int], list[str]]:
        """The end of a prompt that leaves room for the reply (at least half of the window for the
        prompt), and what to say of the rest. A token that begins a text stays in front."""
        if len(ids) < self.window:
            return ids, []
        room = self.window - min(reply, self.window // 2)
        first = [ids[0]] if ids[0] == self.tokenizer.bos_id else []
        kept = [*first, *ids[len(ids) - room + len(first) :]]
        return kept, [
            f"the prompt has {len(ids)} tokens, the context window holds {self.window}: "
            f"{len(ids) - len(kept)} tokens at its start were left out"
        ]

    def check_ids(self, ids: Sequence[int]) -> None:
        """Raises for what are no token ids of the model."""
        vocabulary = self.loaded.model.vocab_size
        for place, token in enumerate(ids):
            if isinstance(token, bool) or not hasattr(token, "__index__"):
                raise InvalidArgumentError(
                    f"generate: a prompt is a text or a list of token ids, item {place} is "
                    f"{type(token).__name__}; several prompts go to generate_batch()"
                )
            if not 0 <= token < vocabulary:
                raise InvalidArgumentError(
                    f"generate: token {place} of the prompt is {told(token)}, outside the "
                    f"vocabulary of {vocabulary}"
                )

    # ---- sessions
    def save_session(
        self,
        path: str | os.PathLike[str],
        messages: Any = None,
        tokens: Sequence[int] | None = None,
    ) -> Session:
        """Writes the text that generation used last, with what was computed of it, to a file
        (`sessions` has the format), which appears when it is complete; ``messages`` is the
        conversation behind it. With ``tokens`` it is the text that has most of them in common.

        Refused (``FAILED_PRECONDITION``): a model without ``prefix_cache``, and one that holds no
        text yet."""
        return save_session(self, path, messages, tokens)

    def load_session(self, path: str | os.PathLike[str]) -> Session:
        """Reads a session: prompts that begin with its tokens go on from there, with the same bits
        as in the process that wrote it.

        Refused: a file that is none (``MALFORMED_FILE``), one of another model, dtype, mode, cache
        or kind of processor, and one longer than the context window (``FAILED_PRECONDITION``)."""
        return load_session(self, path)

    # ---- scores
    def logits(self, tokens: str | Sequence[int]) -> Any:
        """Logits after each token, float32 ``[tokens, vocabulary]`` as a NumPy array."""
        ids = self._prompt_ids(tokens)
        self.check_ids(ids)
        if not ids or len(ids) > self.window:
            raise InvalidArgumentError(
                f"logits: {len(ids)} tokens are given, 1 .. {self.window} fit in the context window"
            )
        return self.engine.logits(ids)

    def score(self, tokens: str | Sequence[int]) -> Any:
        """Log-probability of each token after the first, given those before it: float64 ``[tokens -
        1]``."""
        import numpy as np

        ids = self._prompt_ids(tokens)
        self.check_ids(ids)
        if not ids or len(ids) > self.window:
            raise InvalidArgumentError(
                f"score: {len(ids)} tokens are given, 1 .. {self.window} fit in the context window"
            )
        return log_probabilities(self, ids) if len(ids) > 1 else np.empty(0)

    def perplexity(self, text: str, *, window: int = 0, stride: int = 0) -> TextScore:
        """Perplexity of a text of any length, read through windows ``stride`` tokens apart
        (`scoring.score_text`)."""
        return score_text(self, text, window=window, stride=stride)

    # ---- vectors
    @cached_property
    def embedder(self) -> Embedder:
        """What makes vectors of texts."""
        return Embedder(self)

    def embed(self, texts: Sequence[str], **options: Any) -> Any:
        """Vectors of texts, float32 ``[texts, hidden]`` of length 1; options ``pooling`` ("mean",
        "last") and ``normalize`` (`embeddings.Embedder.embed`)."""
        return self.embedder.embed(texts, **options)

    def similar(self, texts: Sequence[str], *, pooling: str | None = None) -> Any:
        """Cosines of texts with each other: float32 ``[texts, texts]``, 1 for one direction."""
        vectors = self.embed(texts, pooling=pooling)
        return vectors @ vectors.T


def _spec(constraint: Any) -> ConstraintSpec | None:
    """What a caller asks of a reply; None for a free one."""
    if constraint is None:
        return None
    from .constraints import ConstraintSpec

    return ConstraintSpec.read(constraint)


def _several(name: str, items: Any) -> Iterable[Any]:
    """What a call over several prompts or conversations is given."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise InvalidArgumentError(f"{name}: a list is needed, got {type(items).__name__}")
    return items


def _drain(stream: TextStream) -> GenerationReport:
    for _ in stream:
        pass
    return stream.report


def load_generative(
    source: Any, options: LoadOptions | None = None, **more: Any
) -> GenerativeModel:
    """Loads a model that generates text: a directory, a GGUF file, what ``sources.resolve``
    returned, or a ``Preview`` of one (`preview`).

    Options are those of ``LoadOptions``, as an object or as keywords; ``tokenizer`` names another
    tokenizer's file. Without ``max_seq`` the context window is the checkpoint's whole one; the
    command line takes at most 4096 tokens of it.

        model = load_generative("model.gguf", max_seq=4096, device="auto")
    """
    started = time.perf_counter()
    seen = source if isinstance(source, Preview) else None
    tokenizer_path = more.pop("tokenizer", None) if seen is None else None
    options = load_options(options or LoadOptions(), more)
    found = seen or preview(source, tokenizer_path)

    def load(placed: LoadOptions) -> GenerativeModel:
        loaded = load_model(found.checkpoint, placed, found.family)
        # Not before: the memory law counts on the room that packing leaves.
        tokenizer = found.tokenizer
        loaded.report["load_seconds"] = time.perf_counter() - started
        return GenerativeModel(loaded, tokenizer, found.defaults)

    return fit.on_a_place(options, load)


def load_options(options: LoadOptions, more: Mapping[str, Any]) -> LoadOptions:
    """``options`` with what ``more`` names; a name that is none is refused with those that are."""
    known = {item.name for item in fields(options)}
    for name in more:
        if name not in known:
            raise InvalidArgumentError(
                f"load_generative: unknown option '{name}'; it has {', '.join(sorted(known))}"
            )
    return replace(options, **more)
