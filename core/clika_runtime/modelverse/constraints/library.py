"""The edge to ``llguidance``: late import, vocabularies, and grammars compiled within bounds."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.tokenizer import Tokenizer

from .spec import ConstraintSpec

__all__ = [
    "Vocabulary",
    "check_constraint",
    "compile_grammar",
    "compile_over",
    "library",
    "native_vocabulary",
]

#: White space within JSON: a space, or a line break with its indentation.
_SPACE = r"( |\n[ \t]{0,24})?"
# The library walks chains of definitions and references on the stack of the thread: this many of
# them fit into the stack that compiling has.
_STACK = 256 << 20
MAX_DEFINITIONS = 5_000
_DEFINITION = re.compile(r"^[ \t]*[?!]?[\w-]+(?:\[[^\]\n]*\])?(?:\.-?\d+)?[ \t]*:", re.MULTILINE)
_REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
MAX_PROPERTIES = 4_000  # of one object: the time grows with the square
_LONGEST_TOKEN = 64  # bytes of a token that spells a text the library asks about

# A class of characters in an expression, and how often it may stand there.
_CLASS = re.compile(
    r"(?P<escape>\\[^dDwWsSpP])"
    r"|(?P<set>\[\^?\]?(?:\\.|\[:\w+:\]|[^\[\]\\])+\]|\\[dDwWsS]|\\[pP](?:\{\w{1,40}\}|\w)|\.)"
    r"\)*(?:(?P<many>[*+])|\{(?P<least>\d{1,9})(?P<more>,(?P<most>\d{0,9}))?\})?"
)
_SLICE = 16  # characters: few tokens are longer
_MAX_SLICES = 6
# Texts of JSON that are counted: a state admits a slice whole while so many characters may follow.
_TEXT = r'[^"\\\x00-\x1F\x7F]'
_TEXT_SLICES = (
    r"[\x20\x0A\x0D\x09]+",
    *(f"{_TEXT}{{1,{most}}}" for most in (3, 6, 9, 12, 15, 20, 30)),
    f"{_TEXT}+",
)
_KEPT_MADE = 8

_KEPT_TEXTS = 4096  # of forced texts, how they are spelled
_AHEAD = 96  # bytes of a forced text that are spelled at a time
_UNSURE = 4  # tokens at the cut, which might be others if the text went on

_stack_lock = threading.Lock()


def library() -> Any:
    """The package, imported at first use. `UnsupportedError` with the line that installs it."""
    try:
        import llguidance
    except ImportError as error:
        raise UnsupportedError(
            "constrained output needs the package llguidance, which is not installed. Install it "
            "with: pip install 'clika-runtime[constrain]'"
        ) from error
    return llguidance


@lru_cache(maxsize=1)
def limits() -> Any:
    """Bounds of compiling and of each step. A state of the lexer takes 1 to 2 kB."""
    return library().LLParserLimits(
        initial_lexer_fuel=1_000_000,
        step_lexer_fuel=200_000,
        step_max_items=50_000,
        max_items_in_row=2_000,
        max_lexer_states=50_000,
        max_grammar_size=500_000,
        verbose_errors=False,
    )


class Vocabulary:
    """A tokenizer as the library sees it: the bytes of every token, special ones apart.

    ``size`` counts the ids of the logits: a model may have more than the tokenizer, and those are
    never admitted, nor are tokens that the model has no logits for. Any of ``stop_ids`` ends a
    text; where there are none, an id of its own behind all others stands for the end (``padded``),
    which no model can choose.
    """

    def __init__(self, tokenizer: Tokenizer, size: int, stop_ids: frozenset[int]) -> None:
        self.size = size
        tokens = [tokenizer.token_bytes(index) or b"" for index in range(size)]
        special = {index for index in tokenizer.special_ids if index < size}
        ends = sorted(index for index in stop_ids if index < size)
        self.ends = frozenset(ends)
        self.padded = not ends
        if not ends:
            ends = [size]
            tokens.append(b"<end>")
        special.update(ends)
        spelled: dict[bytes, int] = {}
        for index, token in enumerate(tokens):
            if token and index not in special:
                spelled.setdefault(token, index)
        bos = tokenizer.bos_id
        if bos is not None and bos >= size:
            bos = None
        self.tokens = tokens
        self.special = frozenset(special)
        self.native_ends = tuple(ends)
        self.native = native_vocabulary(
            tokens, special, ends, bos, _encoder(tokenizer, tokens, spelled)
        )
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made out of the vocabulary under a key; made where it is not there."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
                while len(self._made) > _KEPT_MADE:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]

    def sliced(self, slices: tuple[str, ...]) -> Any:
        """The native vocabulary with sets of tokens of its own: where a state admits the whole
        expression of such a slice, its tokens are admitted without a look at each."""
        if not slices:
            return self.native

        def make() -> Any:
            try:
                return self.native.with_slices(list(slices))
            except (ValueError, RuntimeError):  # no expression, or over the bounds
                return self.native

        return self.kept(slices, make)


def native_vocabulary(
    tokens: list[bytes],
    special: Iterable[int],
    ends: Sequence[int],
    bos: int | None,
    encode: Callable[[bytes], list[int]],
    **options: Any,
) -> Any:
    """The library's vocabulary: bytes of the tokens, ids of special ones, those that end a text,
    the one that begins it, and how bytes are spelled."""
    lib = library()
    source = _Source(tokens, sorted(special), ends[0], bos, encode)
    wrapper = lib.TokenizerWrapper(source)
    return lib.LLTokenizer(wrapper, n_vocab=len(tokens), eos_token=list(ends), **options)


class _Source:
    """The attributes that ``llguidance.TokenizerWrapper`` reads."""

    def __init__(
        self,
        tokens: list[bytes],
        special: list[int],
        eos: int,
        bos: int | None,
        encode: Callable[[bytes], list[int]],
    ) -> None:
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = eos
        self.bos_token_id = bos
        self.encode = encode

    def __call__(self, data: bytes | str) -> list[int]:
        return self.encode(data.encode() if isinstance(data, str) else data)


def _encoder(
    tokenizer: Tokenizer, tokens: list[bytes], spelled: dict[bytes, int]
) -> Callable[[bytes], list[int]]:
    """From bytes to the tokens that the model would write them with, where these are exactly the
    bytes; else to the longest tokens that fit."""

    def same(ids: list[int], data: bytes) -> bool:
        if any(index >= len(tokens) for index in ids):
            return False
        return b"".join(tokens[index] for index in ids) == data

    def spell(data: bytes) -> list[int]:
        try:
            ids = tokenizer.encode(data.decode(), add_special_tokens=False, parse_special=False)
        except (UnicodeDecodeError, InvalidArgumentError):
            return longest(data)
        if same(ids, data):
            return ids
        if ids and same(ids, b" " + data):  # the space that encoding sets before a text
            first = tokens[ids[0]][1:]
            if not first:
                return ids[1:]
            if first in spelled:
                return [spelled[first], *ids[1:]]
        return longest(data)

    @lru_cache(maxsize=_KEPT_TEXTS)
    def kept(data: bytes) -> tuple[int, ...]:
        return tuple(spell(data))

    def encode(data: bytes) -> list[int]:
        if len(data) <= _AHEAD:
            return list(kept(data))
        # Asked in each step for all that is forced from there on; the beginning is enough.
        stop = _AHEAD
        while stop > _AHEAD - 3 and data[stop] & 0xC0 == 0x80:  # within a character
            stop -= 1
        ids = list(kept(data[:stop]))
        return ids[:-_UNSURE] if len(ids) > _UNSURE else ids

    def longest(data: bytes) -> list[int]:
        result = []
        at = 0
        while at < len(data):
            for end in range(min(len(data), at + _LONGEST_TOKEN), at, -1):
                index = spelled.get(data[at:end])
                if index is not None:
                    result.append(index)
                    at = end
                    break
            else:
                at += 1  # a byte that no token has: the library treats it as not forced
        return result

    return encode


def check_constraint(spec: ConstraintSpec) -> None:
    """`InvalidArgumentError` for a constraint that no tokenizer can be compiled for: keywords of a
    schema that are not served, an expression or a grammar that is none.

    What depends on the tokens, and the bounds of compiling, are checked when it is compiled.

    >>> check_constraint(ConstraintSpec.regex("[0-9"))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    InvalidArgumentError: constraint: this regex cannot be compiled: ... unclosed character class
    """
    lib, grammar = library(), _checked_grammar(spec)
    found: list[tuple[bool, list[str]]] = []
    # A token that the grammar names is a warning, as there are none.
    _run_deep(lambda: found.append(lib.LLMatcher.validate_grammar_with_warnings(grammar)))
    failed, reasons = found[0] if found else (True, ["it cannot be compiled"])
    if failed:
        raise _refused(spec, "; ".join(reasons))


def _checked_grammar(spec: ConstraintSpec) -> str:
    _check_size(spec)
    try:
        return _grammar(library(), spec)
    except (ValueError, RecursionError) as error:
        raise _refused(spec, str(error)) from error


def compile_grammar(vocabulary: Vocabulary, spec: ConstraintSpec) -> Any:
    """The library's matcher at the start of a text. `InvalidArgumentError` says why a constraint
    cannot be compiled."""
    return compile_over(vocabulary.sliced(_slices(library(), spec)), spec)


def compile_over(native: Any, spec: ConstraintSpec) -> Any:
    """`compile_grammar` for one of the library's vocabularies."""
    lib = library()
    grammar = _checked_grammar(spec)
    made: list[Any] = []

    def make() -> None:
        made.append(lib.LLMatcher(native, grammar, log_level=0, limits=limits()))

    _run_deep(make)
    if not made:
        raise _refused(spec, "it cannot be compiled")
    if made[0].is_error():
        raise _refused(spec, made[0].get_error())
    return made[0]


def _grammar(lib: Any, spec: ConstraintSpec) -> str:
    matcher = lib.LLMatcher
    result: str
    if spec.kind == "json_schema":
        options: dict[str, Any] = {"whitespace_flexible": False}
        if not spec.compact:
            options = {"whitespace_flexible": True, "whitespace_pattern": _SPACE}
        options |= {"item_separator": ",", "key_separator": ":", "lenient": False}
        result = matcher.grammar_from_json_schema(spec.text, overrides=options)
    elif spec.kind == "regex":
        result = matcher.grammar_from_regex(spec.text)
    elif spec.kind == "choice":
        options_text = " | ".join(
            json.dumps(text, ensure_ascii=False) for text in json.loads(spec.text)
        )
        result = matcher.grammar_from_lark(f"start: CHOICE\nCHOICE: {options_text}\n")
    elif spec.kind == "lark":
        result = matcher.grammar_from_lark(spec.text)
    else:
        raise InvalidArgumentError(
            f"constraint: the kinds are json_schema, regex, lark and choice, got {spec.kind!r:.80}"
        )
    return result


def _slices(lib: Any, spec: ConstraintSpec) -> tuple[str, ...]:
    """Slices for the classes of characters that the constraint counts: each count is a state of
    its own, in which every token would be looked at. They decide the time alone."""
    counted: dict[str, None] = {}
    repeated: dict[str, None] = {}
    for text in _expressions(spec):
        for match in _CLASS.finditer(text):
            if match["many"] and match["set"]:
                repeated[f"{match['set']}+"] = None
            elif match["least"] and match["set"]:
                least, most = int(match["least"]), int(match["most"] or 0)
                if max(least, most) >= _SLICE:
                    counted[f"{match['set']}{{1,{_SLICE}}}"] = None
            if len(counted) == _MAX_SLICES:
                break
    if spec.kind == "json_schema" and '"maxLength"' in spec.text:
        return (*counted, *_TEXT_SLICES)
    if not counted:
        return ()
    # The library's own are for the texts of JSON.
    rest = lib.LLTokenizer.general_slices() if spec.kind == "json_schema" else repeated
    return tuple([*counted, *rest][:_MAX_SLICES])


def _expressions(spec: ConstraintSpec) -> list[str]:
    """The texts of a constraint that may count characters."""
    if spec.kind != "json_schema":
        return [spec.text] if spec.kind in ("regex", "lark") else []
    texts = []
    stack = [json.loads(spec.text)]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            texts.append(value.get("pattern"))
            texts += value.get("patternProperties") or ()
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return [text for text in texts if isinstance(text, str)]


def _check_size(spec: ConstraintSpec) -> None:
    """Refuse what the library needs more stack or time for than it has limits for."""
    if spec.kind == "lark":
        count = sum(1 for _ in _DEFINITION.finditer(spec.text))
        if count > MAX_DEFINITIONS:
            raise _refused(spec, f"it has {count} definitions, the limit is {MAX_DEFINITIONS}")
    if spec.kind == "json_schema":
        references = widest = 0
        stack = [json.loads(spec.text)]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                references += not _REFERENCES.isdisjoint(value)
                for key in ("properties", "patternProperties"):
                    members = value.get(key)
                    widest = max(widest, len(members) if isinstance(members, dict) else 0)
                stack.extend(value.values())
            elif isinstance(value, list):
                stack.extend(value)
        if references > MAX_DEFINITIONS:
            raise _refused(spec, f"it has {references} references, the limit is {MAX_DEFINITIONS}")
        if widest > MAX_PROPERTIES:
            raise _refused(
                spec, f"an object has {widest} properties, the limit is {MAX_PROPERTIES}"
            )


def _run_deep(work: Callable[[], None]) -> None:
    """Run something in a thread with a large stack."""
    with _stack_lock:
        before = threading.stack_size(_STACK)
        try:
            thread = threading.Thread(target=work, name="clika-constraint")
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()


def _refused(spec: ConstraintSpec, reason: str) -> InvalidArgumentError:
    text = " ".join(reason.replace("<non-verbose/>", "").split())
    kind = spec.kind.replace("_", " ")
    return InvalidArgumentError(f"constraint: this {kind} cannot be compiled: {text[:500]}")
