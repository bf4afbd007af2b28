"""The edge to the ``tokenizers`` library: late import, and its failures as typed errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from clika_runtime.errors import ClikaRTError, InvalidArgumentError

__all__ = ["add_tokens", "guarded", "library", "set_byte_level", "surround", "twin"]


def library() -> Any:
    """The ``tokenizers`` package, imported at first use."""
    import tokenizers

    return tokenizers


def twin(tokenizer: Any) -> Any:
    """A second ``tokenizers.Tokenizer`` with the parts of the first, whose switches are its own."""
    with guarded("tokenizer"):
        result = library().Tokenizer(tokenizer.model)
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
            value = getattr(tokenizer, part)
            if value is not None:
                setattr(result, part, value)
        added = tokenizer.get_added_tokens_decoder()
        result.add_tokens([added[index] for index in sorted(added)])
        assert result.get_added_tokens_decoder().keys() == added.keys()  # ids go by order
    return result


def add_tokens(
    tokenizer: Any,
    special: Iterable[str],
    users: Iterable[str] = (),
    strips: Mapping[str, str] | None = None,
) -> None:
    """Tell the library which tokens are taken whole out of a text. ``special`` ones can be left out
    of decoded text. ``strips`` names tokens that take the spaces beside them along: "lstrip",
    "rstrip"."""
    sides = strips or {}

    def added(token: str, is_special: bool) -> Any:
        side = {sides[token]: True} if token in sides else {}
        return library().AddedToken(token, special=is_special, normalized=False, **side)

    tokenizer.add_special_tokens([added(token, True) for token in special])
    tokenizer.add_tokens([added(token, False) for token in users])


def set_byte_level(tokenizer: Any, patterns: Iterable[str]) -> None:
    """Cut texts by the patterns, one after the other, and spell the pieces in the letters of
    byte-level vocabularies; nothing goes around a text."""
    lib = library()
    cuts = [lib.pre_tokenizers.Split(lib.Regex(pattern), "isolated") for pattern in patterns]
    letters = lib.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = lib.pre_tokenizers.Sequence([*cuts, letters])
    tokenizer.decoder = lib.decoders.ByteLevel()
    tokenizer.post_processor = lib.processors.ByteLevel(trim_offsets=False)


def surround(backend: Any, before: int | None, after: int | None) -> None:
    """Puts a token before every text and one behind it; None for neither."""
    lib = library()
    # Names are the ids, since a token may hold characters that the template syntax gives a meaning.
    names = {index: f"T{index}" for index in (before, after) if index is not None}
    if not names:
        backend.post_processor = lib.processors.ByteLevel(trim_offsets=False)
        return
    first = [names[before]] if before is not None else []
    last = [names[after]] if after is not None else []
    backend.post_processor = lib.processors.TemplateProcessing(
        single=" ".join([*first, "$A", *last]),
        special_tokens=[
            {"id": name, "ids": [index], "tokens": [backend.id_to_token(index) or name]}
            for index, name in names.items()
        ],
    )


@contextmanager
def guarded(what: str, code_name: str = "INVALID_ARGUMENT") -> Iterator[None]:
    """Turn any failure of the library inside the block into an ``InvalidArgumentError``.

    The library reports some bad input by a Rust panic, which arrives as a ``BaseException`` of its
    own.
    """
    try:
        yield
    except (ClikaRTError, ImportError):
        raise
    except Exception as error:
        # Ctrl-C inside a part of the pipeline that is ours.
        if str(error).startswith("Exception: KeyboardInterrupt"):
            raise KeyboardInterrupt from error
        raise InvalidArgumentError(f"{what}: {_text(error)}", code_name) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise InvalidArgumentError(f"{what}: {_text(error)}", code_name) from error


def _text(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
