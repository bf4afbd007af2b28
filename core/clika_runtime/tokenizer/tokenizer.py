"""``Tokenizer``: text to token ids and back, and conversations to prompts."""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.io._files import invalid, missing, read_head, shown
from clika_runtime.io.gguf import GgufFile, open_gguf

from . import from_gguf as gguf_builder
from ._library import guarded, twin
from .chat_template import ChatTemplate, ChatTemplateInputs
from .loading import Loaded, load_directory, load_file, load_tiktoken
from .pieces import piece_bytes
from .streaming import Spelling, StreamingDecoder, byte_level, make_decoder, token_bytes

__all__ = ["EncodeOptions", "Encoded", "Token", "Tokenizer"]

MAX_TEXT = 256 << 20  # characters of one text
_MAX_ID = (1 << 32) - 1

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Token:
    """One piece of a text: its id, its surface in the vocabulary, and the bytes ``[begin, end)`` it
    came from."""

    id: int
    text: str
    begin: int
    end: int


@dataclass(frozen=True)
class EncodeOptions:
    """How ``encode_batch`` shapes a batch; every field may also be given as a keyword.

    ``max_length`` cuts every text to so many ids, special tokens included, at ``truncation_side``.
    ``return_tensors`` adds tensors: padded with ``pad_id`` (default: the tokenizer's own) at
    ``padding_side``, or laid out flat with ``varlen``; ``device`` is where they land.
    """

    add_special_tokens: bool = True
    return_tensors: bool = False
    pad_id: int | None = None
    varlen: bool = False
    max_length: int | None = None
    truncation_side: str = "right"
    padding_side: str = "right"
    device: Any = None


@dataclass(frozen=True)
class Encoded:
    """A batch of encoded texts: ``ids[i]`` are the ids of text ``i``, in its own length.

    The tensors are there when they were asked for, all int32: ``input_ids`` ``[B, S]``, or ``[N]``
    with ``varlen``; ``attention_mask`` ``[B, S]`` (None with ``varlen``); ``seq_lengths`` ``[B]``;
    ``cu_seqlens`` ``[B + 1]``, the lengths summed up: text ``i`` takes places
    ``[cu_seqlens[i], cu_seqlens[i + 1])`` of a flat batch.
    """

    ids: list[list[int]]
    input_ids: Any = None
    attention_mask: Any = None
    seq_lengths: Any = None
    cu_seqlens: Any = None


class Tokenizer:
    """A tokenizer of a checkpoint, with the special tokens and the chat template that belong to it.

    Make one with ``from_huggingface`` (a model directory), ``from_file``, ``from_gguf`` or
    ``from_tiktoken``. All
    methods may be called from several threads.

    >>> tokenizer = Tokenizer.from_file("tokenizer.json")  # doctest: +SKIP
    >>> tokenizer.decode(tokenizer.encode("Hello"))  # doctest: +SKIP
    'Hello'
    """

    def __init__(
        self,
        backend: Any,
        *,
        special_ids: Mapping[str, int] | None = None,
        stop_ids: Iterable[int] = (),
        chat_template: str | None = None,
        tool_template: str | None = None,
        where: str = "tokenizer",
        spelling: Spelling | None = None,
    ) -> None:
        self._backend = backend
        self._literal: Any = None
        self._where = where
        self._ids = dict(special_ids or {})
        ends = (self._ids[name] for name in ("eos", "eot", "eom") if name in self._ids)
        self._stop_ids = frozenset(stop_ids).union(ends)
        self._template_source = chat_template
        self._tool_template_source = tool_template
        self._template: ChatTemplate | None = None
        with guarded(where, "MALFORMED_FILE"):
            self._size: int = backend.get_vocab_size(with_added_tokens=True)
            added = backend.get_added_tokens_decoder()
        self._added = frozenset(added)
        self._special = frozenset(index for index, token in added.items() if token.special)
        self._byte_level = type(backend.decoder).__name__ == "ByteLevel"
        if self._byte_level:
            spelling = byte_level(backend.id_to_token)
        self._spelling = spelling
        self._piece_bytes: Callable[[str], bytes] | None = None

    # ------------------------------------------------------------ loading
    @classmethod
    def _made(cls, loaded: Loaded) -> Tokenizer:
        return cls(
            loaded.backend,
            special_ids=loaded.special_ids,
            chat_template=loaded.chat_template,
            tool_template=loaded.tool_template,
            where=loaded.where,
            spelling=loaded.spelling,
        )

    @classmethod
    def from_huggingface(cls, directory: str | os.PathLike[str]) -> Tokenizer:
        """Load the tokenizer of a model directory.

        Reads ``tokenizer.json``, else a SentencePiece model (``tokenizer.model``,
        ``spiece.model``), ``tekken.json``, ``vocab.json`` with ``merges.txt``, or a rank file
        (``qwen.tiktoken``; ``tokenizer.model`` of Llama 3). ``tokenizer_config.json`` (and
        ``special_tokens_map.json``, ``chat_template.jinja``) give special tokens and chat template.
        Errors: ``NotFoundError`` for a missing directory or when it holds no tokenizer,
        ``UnsupportedError`` naming a kind that is not served, ``InvalidArgumentError`` naming file
        and field for content that is wrong.
        """
        return cls._made(load_directory(os.fspath(directory)))

    from_pretrained = from_huggingface

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Load one tokenizer file of any kind that ``from_huggingface`` reads, a GGUF checkpoint,
        or a directory that holds one.

        Configuration beside the file is read too. Errors as ``from_huggingface``.
        """
        name = os.fspath(path)
        if os.path.isdir(name):
            return cls.from_huggingface(name)
        if not os.path.exists(name):
            raise missing(name)
        if read_head(name, 4) == b"GGUF":
            return cls.from_gguf(name)
        return cls._made(load_file(name))

    @classmethod
    def from_tiktoken(
        cls,
        path: str | os.PathLike[str],
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """Load a rank file: a token in base64 and its rank on every line.

        ``pattern`` is the regular expression whose matches, and what lies between them, are encoded
        apart; ``special_tokens`` are further tokens and their ids, which must fill the places that
        the ranks leave. Both default to what the publisher of a file of this name uses (Llama 3,
        Qwen). Errors as ``from_huggingface``.
        """
        name = os.fspath(path)
        if not os.path.exists(name):
            raise missing(name)
        return cls._made(load_tiktoken(name, pattern, special_tokens))

    @classmethod
    def from_gguf(cls, source: str | os.PathLike[str] | GgufFile) -> Tokenizer:
        """Build the tokenizer that a GGUF checkpoint carries in its metadata.

        ``source`` is a path or an opened ``GgufFile``. Served, by ``tokenizer.ggml.model``:
        byte-level BPE ("gpt2") with the pre-tokenizer tags of ``PRE_TOKENIZERS``, SentencePiece BPE
        ("llama", "gemma4") and unigram ("t5"), WordPiece ("bert"). Errors: ``UnsupportedError``
        naming another kind or tag, ``InvalidArgumentError`` for metadata that does not fit
        together.
        """
        file = source if isinstance(source, GgufFile) else open_gguf(source)
        metadata = file.metadata
        backend, spelling = gguf_builder.build(metadata, file.path)
        size = len(metadata["tokenizer.ggml.tokens"])
        templates = []
        for key in ("tokenizer.chat_template", "tokenizer.chat_template.tool_use"):
            template = metadata.get(key)
            if template is not None and not isinstance(template, str):
                raise invalid(
                    file.path, f"metadata '{key}' must be a string, found {shown(template)}"
                )
            templates.append(template)
        file.drop_metadata_pages()
        return cls(
            backend,
            special_ids=gguf_builder.special_ids(metadata, size, file.path),
            stop_ids=gguf_builder.end_ids(backend),
            chat_template=templates[0],
            tool_template=templates[1],
            where=file.path,
            spelling=spelling,
        )

    # ------------------------------------------------------------ properties
    def __repr__(self) -> str:
        return f"Tokenizer({self._where!r}, vocab_size={self._size})"

    @property
    def vocab_size(self) -> int:
        """The number of tokens, added ones included."""
        return self._size

    @property
    def bos_id(self) -> int | None:
        """The id that begins a text, or None."""
        return self._ids.get("bos")

    @property
    def eos_id(self) -> int | None:
        """The id that ends a text, or None."""
        return self._ids.get("eos")

    @property
    def pad_id(self) -> int | None:
        """The id that fills a batch, or None."""
        return self._ids.get("pad")

    @property
    def unk_id(self) -> int | None:
        """The id of what the vocabulary cannot spell, or None."""
        return self._ids.get("unk")

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end a generation: end of text, and end of turn where the file has one."""
        return self._stop_ids

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that ``decode`` leaves out."""
        return self._special

    @property
    def special_tokens(self) -> dict[str, str]:
        """The special tokens by the names templates use: ``{"bos_token": "<s>", ...}``."""
        result = {}
        for name, index in self._ids.items():
            token = self.id_to_token(index)
            if token is not None:
                result[f"{name}_token"] = token
        return result

    @property
    def chat_template(self) -> str | None:
        """The source of the chat template, or None."""
        return self._template_source

    @property
    def tool_template(self) -> str | None:
        """The source of the template that is rendered where tools are given: the checkpoint's own
        for tools, else the chat template."""
        return self._tool_template_source or self._template_source

    @property
    def has_chat_template(self) -> bool:
        """Whether the checkpoint brought a chat template."""
        return self._template_source is not None

    # ------------------------------------------------------------ text and ids
    def encode(
        self, text: str, add_special_tokens: bool = True, *, parse_special: bool = True
    ) -> list[int]:
        """The ids of a text.

        Special tokens written out in the text become their ids; without ``parse_special`` they are
        text like any other (for words of strangers). ``add_special_tokens`` adds what the tokenizer
        puts around a text (often bos). Errors: ``InvalidArgumentError`` for what is not a text that
        UTF-8 can hold.
        """
        ids: list[int] = self._encode(text, add_special_tokens, parse_special).ids
        return ids

    def _encode(self, text: str, add_special_tokens: bool, parse_special: bool = True) -> Any:
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"encode: the text must be a string, found {type(text).__name__}"
            )
        if len(text) > MAX_TEXT:
            raise InvalidArgumentError(
                f"encode: the text has {len(text)} characters, the limit is {MAX_TEXT}"
            )
        backend = self._backend if parse_special else self._literal_backend()
        with guarded("encode"):
            return backend.encode(text, add_special_tokens=bool(add_special_tokens))

    def _literal_backend(self) -> Any:
        """The same tokenizer, blind for special tokens in the text. The switch is a state of the
        library's object, so there are two of them; they share the vocabulary."""
        if self._literal is None:
            literal = twin(self._backend)
            literal.encode_special_tokens = True
            self._literal = literal  # two threads may both make one
        return self._literal

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of ids. An id that the vocabulary lacks gives no text, as do special tokens
        unless kept."""
        values = _id_list(ids)
        if self._spelling is not None:
            return self._spelling.text(values, self._special if skip_special_tokens else _NONE)
        with guarded("decode"):
            text: str = self._backend.decode(values, skip_special_tokens=bool(skip_special_tokens))
        return text

    def token_to_id(self, token: str) -> int | None:
        """The id of a token by its surface, or None when the vocabulary lacks it."""
        with guarded("token_to_id"):
            index: int | None = self._backend.token_to_id(token)
        return index

    def id_to_token(self, token_id: int) -> str | None:
        """The surface of a token (a leading ``Ġ`` is a space in byte-level vocabularies), or
        None."""
        if not 0 <= token_id <= _MAX_ID:
            return None
        with guarded("id_to_token"):
            token: str | None = self._backend.id_to_token(token_id)
        return token

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes that a token adds to a text, or None for an id that the vocabulary lacks.

        They may be a part of a character. The space that a SentencePiece vocabulary sets before a
        text is among them. Errors: ``UnsupportedError`` for a vocabulary whose tokens have no bytes
        of their own (WordPiece).
        """
        if not 0 <= token_id <= _MAX_ID:
            return None
        if self._spelling is not None:
            return self._spelling.bytes_of(token_id)
        if self._piece_bytes is None:
            self._piece_bytes = piece_bytes(self._backend.decoder)
        if self._piece_bytes is None:
            kind = type(self._backend.decoder).__name__
            raise UnsupportedError(
                f"token_bytes: the tokens of {self._where} have no bytes of their own, their text "
                f"depends on their neighbours (decoder {kind})"
            )
        surface = self.id_to_token(token_id)
        if surface is None or token_id in self._added:
            return None if surface is None else surface.encode(errors="replace")
        return self._piece_bytes(surface)

    def tokenize(self, text: str, add_special_tokens: bool = True) -> list[Token]:
        """The tokens of a text with the bytes each came from.

        Spans are offsets into the text's UTF-8 and leave no gap: each begins where the one before
        ended, dropped spaces included; tokens that ``add_special_tokens`` adds have empty spans.
        """
        encoding = self._encode(text, add_special_tokens)
        ends = self._exact_ends(text, encoding)
        if ends is None:
            ends = self._offset_ends(text, encoding)
        tokens = []
        begin = 0
        for index, surface, end in zip(encoding.ids, encoding.tokens, ends):  # noqa: B905
            tokens.append(Token(index, surface, begin, end))
            begin = end
        return tokens

    def _exact_ends(self, text: str, encoding: Any) -> list[int] | None:
        """The ends of byte-level tokens, whose bytes are the text's own; None when they are not."""
        if not self._byte_level:
            return None
        data = text.encode()
        ends = []
        position = 0
        for index, surface, added in zip(  # noqa: B905
            encoding.ids, encoding.tokens, encoding.special_tokens_mask
        ):
            if not added:
                piece = surface.encode() if index in self._added else token_bytes(surface)
                if data[position : position + len(piece)] != piece:
                    return None
                position += len(piece)
            ends.append(position)
        return ends if position == len(data) else None

    def _offset_ends(self, text: str, encoding: Any) -> list[int]:
        """The ends of tokens from the library's character offsets, made free of gaps."""
        starts = [0]
        for character in text:
            starts.append(starts[-1] + len(character.encode()))
        rows = list(zip(encoding.offsets, encoding.special_tokens_mask))  # noqa: B905
        last = max((place for place, (_, added) in enumerate(rows) if not added), default=-1)
        ends = []
        position = 0
        for place, ((_, stop), added) in enumerate(rows):
            if not added:
                end = starts[-1] if place == last else starts[stop]
                shared = place + 1 < len(rows) and not rows[place + 1][1]
                if shared and rows[place + 1][0][0] < stop:
                    # Byte tokens of one character: a byte each, the last takes what is left.
                    end = min(position + 1, end)
                position = max(position, end)
            ends.append(position)
        return ends

    def encode_batch(
        self, texts: Sequence[str], options: EncodeOptions | None = None, **keywords: Any
    ) -> Encoded:
        """The ids of several texts: ``encode_batch(["a", "b c"]).ids``, each in its own length.

        ``options``, or its fields as keywords, ask for truncation and for tensors. Errors:
        ``InvalidArgumentError`` for what is not a list of texts, for an unknown option, and for
        padding without a pad id.

        >>> batch = tokenizer.encode_batch(texts, return_tensors=True)  # doctest: +SKIP
        >>> batch.input_ids.shape, batch.cu_seqlens.shape  # doctest: +SKIP
        (clika_runtime.Size([2, 10]), clika_runtime.Size([3]))
        """
        if isinstance(texts, str):
            raise InvalidArgumentError("encode_batch: expected a list of texts, found one string")
        chosen = _batch_options(options, keywords)
        rows = [self._encode_row(text, chosen) for text in texts]
        return self._batch_tensors(rows, chosen) if chosen.return_tensors else Encoded(rows)

    def _encode_row(self, text: str, options: EncodeOptions) -> list[int]:
        if options.max_length is None:
            return self.encode(text, options.add_special_tokens)
        encoding = self._encode(text, False)
        with guarded("encode_batch"):
            special = options.add_special_tokens
            added = self._backend.num_special_tokens_to_add(False) if special else 0
            room = max(0, options.max_length - added)
            encoding.truncate(room, direction=options.truncation_side)
            if special:
                encoding = self._backend.post_process(encoding)
        ids: list[int] = encoding.ids
        return ids

    def _batch_tensors(self, rows: list[list[int]], options: EncodeOptions) -> Encoded:
        lengths = [len(row) for row in rows]
        sums = [0, *itertools.accumulate(lengths)]
        width = max(lengths, default=0)
        mask = None
        if options.varlen:
            ids = _int32([index for row in rows for index in row], (sums[-1],), options.device)
        else:
            pad = self.pad_id if options.pad_id is None else options.pad_id
            if pad is None and any(length < width for length in lengths):
                raise InvalidArgumentError(
                    "encode_batch: the texts differ in length and the tokenizer has no pad token; "
                    "give pad_id (the eos id is the usual choice) or varlen=True"
                )
            left = options.padding_side == "left"
            flat: list[int] = []
            marks: list[int] = []
            for row in rows:
                missing_ids = width - len(row)
                padding = [pad or 0] * missing_ids
                ones, zeros = [1] * len(row), [0] * missing_ids
                flat += padding + row if left else row + padding
                marks += zeros + ones if left else ones + zeros
            ids = _int32(flat, (len(rows), width), options.device)
            mask = _int32(marks, (len(rows), width), options.device)
        return Encoded(
            rows,
            input_ids=ids,
            attention_mask=mask,
            seq_lengths=_int32(lengths, (len(rows),), options.device),
            cu_seqlens=_int32(sums, (len(sums),), options.device),
        )

    def streaming_decoder(
        self, skip_special: bool = True, *, keep: Iterable[int] = ()
    ) -> StreamingDecoder:
        """A decoder for ids that arrive one at a time; its pieces add up to ``decode`` of all of
        them. ``keep`` are special ids to show although special tokens are skipped.

        >>> stream = tokenizer.streaming_decoder()  # doctest: +SKIP
        >>> text = "".join(stream.push(i) for i in ids) + stream.finish()  # doctest: +SKIP
        >>> text == tokenizer.decode(ids)  # doctest: +SKIP
        True
        """
        backend = self._backend

        def decode(ids: list[int]) -> str:
            with guarded("streaming_decoder"):
                text: str = backend.decode(ids, skip_special_tokens=False)
            return text

        return make_decoder(
            spelling=self._spelling,
            decode=decode,
            surface=backend.id_to_token,
            skipped=self._special.difference(keep) if skip_special else _NONE,
        )

    # ------------------------------------------------------------ conversations
    def apply_chat_template(
        self,
        messages: Any,
        add_generation_prompt: bool = True,
        *,
        tools: Any = None,
        documents: Any = None,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        now_epoch_seconds: float | None = None,
        **extra: Any,
    ) -> str:
        """The prompt of a conversation, by the checkpoint's own template.

        ``messages`` is a list of message dicts in the OpenAI shape, its JSON text, or a
        ``ChatTemplateInputs``. ``add_generation_prompt`` ends the prompt with the start of the
        assistant's turn; ``continue_final_message`` ends it with the text of the last message
        instead. ``tools``, ``documents`` and further keywords reach the template as variables.
        ``chat_template`` is a template to use in place of the checkpoint's. A checkpoint with a
        template of its own for tools renders that where tools are given. Errors:
        ``InvalidArgumentError`` when there is no template, when the messages are not a
        conversation, or when the template refuses them.
        """
        given = messages.tools if isinstance(messages, ChatTemplateInputs) else tools
        return self._chat(chat_template, given).render(
            messages,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            documents=documents,
            special_tokens=self.special_tokens,
            extra=extra,
            continue_final_message=continue_final_message,
            now_epoch_seconds=now_epoch_seconds,
        )

    def _chat(self, source: str | None, tools: Any) -> ChatTemplate:
        """The compiled template of a source, else of the checkpoint."""
        if source is None:
            source = self._template_source
            if tools is not None and self._tool_template_source is not None:
                source = self._tool_template_source
        if source is None:
            raise InvalidArgumentError(
                f"apply_chat_template: {self._where} brings no chat template; write the prompt out",
                "FAILED_PRECONDITION",
            )
        compiled = self._template  # another thread may put a different one there
        if compiled is None or compiled.source != source:
            compiled = self._template = ChatTemplate(source)
        return compiled

    def encode_chat(
        self, messages: Any, add_generation_prompt: bool = True, **options: Any
    ) -> list[int]:
        """The ids of a conversation's prompt; the template's own special tokens are the only
        ones."""
        prompt = self.apply_chat_template(messages, add_generation_prompt, **options)
        return self.encode(prompt, add_special_tokens=False)


def _batch_options(options: EncodeOptions | None, keywords: dict[str, Any]) -> EncodeOptions:
    try:
        chosen = replace(options or EncodeOptions(), **keywords)
    except TypeError:
        known = ", ".join(EncodeOptions.__dataclass_fields__)
        raise InvalidArgumentError(
            f"encode_batch: the options are {known}; found {shown(sorted(keywords))}"
        ) from None
    for name in ("truncation_side", "padding_side"):
        value = getattr(chosen, name)
        if not isinstance(value, str) or value.lower() not in ("left", "right"):
            raise InvalidArgumentError(
                f"encode_batch: {name} must be 'left' or 'right', found {shown(value)}"
            )
    chosen = replace(
        chosen,
        truncation_side=chosen.truncation_side.lower(),
        padding_side=chosen.padding_side.lower(),
    )
    for name, least in (("max_length", 0), ("pad_id", 0)):
        value = getattr(chosen, name)
        good = isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31
        if value is not None and not good:
            raise InvalidArgumentError(
                f"encode_batch: {name} must be a number from {least} on, found {shown(value)}"
            )
    return chosen


def _int32(values: list[int], shape: tuple[int, ...], device: Any) -> Any:
    """An int32 tensor of numbers in row-major order."""
    from clika_runtime import dtypes
    from clika_runtime._native._core import Tensor

    tensor = Tensor.from_bytes(array("i", values).tobytes(), shape, dtypes.int32)
    return tensor if device is None or str(device) == "cpu" else tensor.to(device)


def _id_list(ids: Iterable[int]) -> list[int]:
    try:
        values = [int(value.__index__()) for value in ids]
    except (TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"decode: ids must be a sequence of ints ({error})") from error
    for value in values:
        if not 0 <= value <= _MAX_ID:
            raise InvalidArgumentError(f"decode: a token id must be 0 to {_MAX_ID}, found {value}")
    return values
