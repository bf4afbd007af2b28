"""SentencePiece models: how they normalize a text and cut it into pieces.

Two algorithms. BPE merges the neighbours whose joint piece has the best score, the leftmost of
equals first, until none is left. Unigram takes the cut with the largest sum of scores (Viterbi).
Both are those of SentencePiece, down to its ties: Kudo and Richardson, "SentencePiece: A simple and
language independent subword tokenizer and detokenizer", 2018, and its model format.

A ``Segmenter`` plugs them into a ``tokenizers.Tokenizer``, which keeps added tokens, framing and
offsets; its model is then a bare vocabulary.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import add, neg
from typing import Any

import numpy as np

from clika_runtime.io._files import invalid, shown, unsupported

from ._library import add_tokens, guarded, library
from .streaming import Spelling

__all__ = [
    "Bpe",
    "Charsmap",
    "Normalizer",
    "Segmenter",
    "SpmModel",
    "Unigram",
    "build",
    "piece_spelling",
]

# Types of a piece.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space inside pieces
_CACHED_CUTS = 1 << 16
_CACHED_LENGTH = 64
_LONGEST = 512  # characters of a unigram piece: each length of its kind costs a look at every place
_UNKNOWN_PENALTY = 10.0
_USER_BONUS = 0.1
BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]
_BYTES = {name: bytes([byte]) for byte, name in enumerate(BYTE_NAMES)}


@dataclass
class SpmModel:
    """A vocabulary with what is known of its making.

    ``tokens[i]``, ``scores[i]`` and ``types[i]`` belong together. The flags are those of
    ``Normalizer``; ``charsmap`` is the blob that ``Charsmap`` reads. ``names`` are surfaces by
    role; ``strips`` are special tokens that take spaces along. ``llama_cpp`` asks for what
    llama.cpp does with the vocabulary of a GGUF file, where that differs from SentencePiece:
    user-defined tokens part a text as control tokens do and stand for their characters as they
    are, unused ones are ordinary, sums of scores are float64.
    """

    kind: str = "unigram"
    tokens: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    unknown: int | None = None  # what stands for the unknown; None: the piece of that type
    byte_fallback: bool = False
    charsmap: bytes = b""
    prefix: bool = True
    remove_extra: bool = True
    escape: bool = True
    suffix: bool = False
    names: dict[str, str] = field(
        default_factory=lambda: {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}
    )
    strips: dict[str, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)  # of all tokens, where they are known
    llama_cpp: bool = False


def _float32(value: float) -> float:
    return array("f", [value])[0]


class _Whole:
    """Finds texts that are taken whole, the longest at each place."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        lengths: dict[str, set[int]] = {}
        for text in self._texts:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}
        self._heads = re.compile(f"[{re.escape(''.join(lengths))}]" if lengths else "(?!)")

    def longest(self, text: str, at: int) -> int:
        """The length of the longest of the texts that stands at ``text[at:]``, 0 for none."""
        for length in self._lengths.get(text[at], ()):
            if text[at : at + length] in self._texts:
                return length
        return 0

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Begin and end of every one, from left to right."""
        at = 0
        while head := self._heads.search(text, at):
            begin = head.start()
            length = self.longest(text, begin)
            at = begin + (length or 1)
            if length:
                yield begin, at


class _Parts:
    """Cuts a text part by part: no piece lies across two neighbours that no piece has inside, so
    what stands between two such places is cut on its own, and words that come again are known."""

    def __init__(self, pieces: Iterable[str], cut: Callable[[str], list[str]]) -> None:
        self._pairs = _pairs(pieces)
        self._cut = cut
        self._known: dict[str, list[str]] = {}

    def __call__(self, text: str) -> list[str]:
        pairs, known = self._pairs, self._known
        pieces: list[str] = []
        ends = [
            place for place, pair in enumerate(map(add, text, text[1:]), 1) if pair not in pairs
        ]
        if text:
            ends.append(len(text))
        begin = 0
        for end in ends:
            part = text[begin:end]
            begin = end
            cut = known.get(part)
            if cut is None:
                cut = self._cut(part)
                if len(part) <= _CACHED_LENGTH:
                    if len(known) >= _CACHED_CUTS:
                        known.clear()
                    known[part] = cut
            pieces += cut
        return pieces


def _pairs(pieces: Iterable[str]) -> set[str]:
    """All pairs of neighbouring characters inside the pieces."""
    between = 0xD800  # a code point that no text holds
    joined = chr(between).join(pieces).encode("utf-32-le", "surrogatepass")
    points = np.array(memoryview(joined).cast("I") if joined else (), np.uint64)
    first, second = points[:-1], points[1:]
    inside = (first != between) & (second != between)
    codes = np.unique(first[inside] << 21 | second[inside])
    split = np.stack([codes >> 21, codes & 0x1FFFFF], 1).astype("<u4")
    text = split.tobytes().decode("utf-32-le")
    return set(map(add, text[::2], text[1::2]))


class Bpe:
    """Cuts a text by merges of score; ``ids`` holds every piece that a merge may make, and
    ``scores[ids[piece]]`` is its float32 score.

    ``whole`` are pieces that are taken where they stand and never merged (user-defined ones).
    ``unused`` pieces may be made on the way and are taken apart again at the end.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        scores: Iterable[float],
        whole: Iterable[str] = (),
        unused: Iterable[str] = (),
    ) -> None:
        self._ids = ids
        self._costs = array("f", map(neg, scores))
        self._whole = _Whole(whole)
        self._unused = frozenset(unused)
        self._between = _Parts(ids, self._cut)

    def __call__(self, text: str) -> list[str]:
        """The pieces of a text; a character that is no piece stands alone."""
        pieces = []
        position = 0
        for begin, end in self._whole.spans(text):
            pieces += self._between(text[position:begin])
            pieces.append(text[begin:end])
            position = end
        return pieces + self._between(text[position:])

    def _cut(self, text: str) -> list[str]:
        find, costs, unused = self._ids.get, self._costs, self._unused
        size = len(text)
        # A symbol is known by where it begins: where it ends (0 once it is merged into the one
        # before), and where the symbol before it begins.
        ends = list(range(1, size + 1))
        before = list(range(-1, size - 1))
        parts: dict[str, tuple[str, str]] = {}
        heap = [
            (costs[index], at, at + 1, at + 2)
            for at in range(size - 1)
            if (index := find(text[at : at + 2])) is not None
        ]
        if unused:
            parts = {
                text[at:end]: (text[at], text[at + 1])
                for _, at, _, end in heap
                if text[at:end] in unused
            }
        heapify(heap)
        while heap:
            _, left, middle, right = heappop(heap)
            if ends[left] != middle or ends[middle] != right:
                continue  # one of the two has grown or is gone
            ends[left], ends[middle] = right, 0
            neighbours = []
            if right < size:
                before[right] = left
                neighbours.append((left, right, ends[right]))
            if before[left] >= 0:
                neighbours.append((before[left], left, right))
            for first, second, end in neighbours:
                piece = text[first:end]
                index = find(piece)
                if index is not None:
                    heappush(heap, (costs[index], first, second, end))
                    if piece in unused:
                        parts[piece] = (text[first:second], text[second:end])
        pieces = []
        at = 0
        while at < size:
            pieces.append(text[at : ends[at]])
            at = ends[at]
        return _apart(pieces, parts) if unused else pieces


def _apart(pieces: list[str], parts: Mapping[str, tuple[str, str]]) -> list[str]:
    """The pieces with those in ``parts`` replaced by their two halves, again and again."""
    result = []
    stack = pieces[::-1]
    while stack:
        piece = stack.pop()
        halves = parts.get(piece)
        if halves is None:
            result.append(piece)
        else:
            stack += halves[::-1]
    return result


class Unigram:
    """Cuts a text so that the sum of the pieces' scores is largest.

    A character that is no piece costs 10 more than the worst piece. The score of a user-defined
    piece (``whole``) is 0.1 for each byte but the first, so that it wins over ordinary ones.
    ``single`` keeps the sums in float32 as SentencePiece does, which decides ties; llama.cpp and
    ``tokenizers`` keep them in float64.
    """

    def __init__(
        self, scores: Mapping[str, float], whole: Iterable[str] = (), *, single: bool
    ) -> None:
        self._code = "f" if single else "d"
        self._scores = dict(scores)
        self._unknown = _float32(min(scores.values(), default=0.0) - _UNKNOWN_PENALTY)
        for piece in whole:
            self._scores[piece] = _float32(_USER_BONUS * (len(piece.encode()) - 1))
        lengths: dict[str, set[int]] = {}
        for piece in self._scores:
            if len(piece) > _LONGEST:
                raise ValueError(f"{len(piece)} characters, the limit is {_LONGEST}")
            if len(piece) > 1:
                lengths.setdefault(piece[:2], set()).add(len(piece))
        # The lengths of the longer pieces by their first two characters.
        self._lengths = {head: tuple(sorted(found)) for head, found in lengths.items()}
        # Sums of float32 scores are exact in float64, wherever they begin; in float32 they are not,
        # and the text must be one.
        self._parts = None if single else _Parts(self._scores, self._cut)

    def __call__(self, text: str) -> list[str]:
        """The pieces of a text; a character that is no piece stands alone."""
        return self._cut(text) if self._parts is None else self._parts(text)

    def _cut(self, text: str) -> list[str]:
        scores, lengths, unknown = self._scores, self._lengths, self._unknown
        size = len(text)
        best: array[float] = array(self._code, [0.0]) * (size + 1)
        rounded: array[float] = array(self._code, [0.0])
        begins = [-1] * (size + 1)
        for at in range(size):
            here = best[at]
            for length in (1, *lengths.get(text[at : at + 2], ())):
                end = at + length
                if end > size:
                    break
                score = scores.get(text[at:end])
                if score is None:
                    if length > 1:
                        continue
                    score = unknown
                rounded[0] = here + score
                if begins[end] < 0 or rounded[0] > best[end]:
                    best[end] = rounded[0]
                    begins[end] = at
        pieces = []
        end = size
        while end:
            pieces.append(text[begins[end] : end])
            end = begins[end]
        return pieces[::-1]


class Charsmap:
    """The replacements of a normalizer: a double array of byte strings and a pool of texts.

    ``blob`` is a little-endian uint32, the array's size in bytes, the array (Darts-clone units of
    32 bits), and the texts, each ended by a NUL. Errors: ``ValueError`` for a blob that does not
    hold together.
    """

    def __init__(self, blob: bytes) -> None:
        if len(blob) < 4:
            raise ValueError(f"has {len(blob)} bytes, at least 4 are needed")
        size = int.from_bytes(blob[:4], "little")
        if size % 4 or not 4 <= size <= len(blob) - 4:
            raise ValueError(f"says that its array has {size} bytes, of {len(blob)} in all")
        self._units = array("I")
        self._units.frombytes(blob[4 : 4 + size])
        if sys.byteorder == "big":
            self._units.byteswap()
        self._texts = blob[4 + size :]
        self._plain: set[str] = set()
        root = _offset(self._units[0])
        # ASCII characters that are replaced neither alone nor before another one of ASCII.
        self.plain_ascii = "".join(
            chr(byte) for byte in range(128) if not self._replaces_ascii(root ^ byte, byte)
        )

    def _replaces_ascii(self, node: int, byte: int) -> bool:
        units = self._units
        if node >= len(units) or units[node] & 0x800000FF != byte:
            return False
        after = node ^ _offset(units[node])
        follow = (after ^ byte for byte in range(128))
        return bool(units[node] >> 8 & 1) or any(
            place < len(units) and units[place] & 0x800000FF == byte
            for byte, place in enumerate(follow)
        )

    def longest(self, text: str, at: int) -> tuple[str, int] | None:
        """The replacement of the longest match at ``text[at:]`` and the match's length, or None."""
        window = text[at : at + 2]
        if window in self._plain:
            return None
        found = None
        units = self._units
        count = len(units)
        node = _offset(units[0])
        for length, character in enumerate(text[at : at + 64], 1):
            for byte in character.encode():
                node ^= byte
                if node >= count or units[node] & 0x800000FF != byte:
                    if found is None and length <= 2 and len(self._plain) < _CACHED_CUTS:
                        self._plain.add(window)
                    return found
                leaf = units[node] >> 8 & 1
                node ^= _offset(units[node])
                if node >= count:
                    return found
            if leaf:
                found = self._text(units[node] & 0x7FFFFFFF), length
        return found

    def _text(self, begin: int) -> str:
        end = self._texts.find(b"\0", begin)
        if end < 0:
            raise ValueError(f"a replacement begins at byte {begin} of {len(self._texts)}")
        return self._texts[begin:end].decode("utf-8", "replace")


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)


@dataclass(frozen=True)
class Normalizer:
    """What is done to a text before it is cut.

    ``charsmap`` replaces characters; ``kept`` texts are left as they are. ``remove_extra`` drops
    spaces at both ends and all but one in a row. ``prefix`` sets a space before the text, or behind
    it with ``suffix``. ``escape`` writes spaces as U+2581.
    """

    charsmap: Charsmap | None = None
    kept: tuple[str, ...] = ()
    prefix: bool = True
    remove_extra: bool = True
    escape: bool = True
    suffix: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_whole", _Whole(self.kept))
        plain = "" if self.charsmap is None else self.charsmap.plain_ascii
        if self.remove_extra:
            plain = plain.replace(" ", "")
        # Characters that stay as they are.
        run = rf"[{re.escape(plain)}]+(?![^\x00-\x7f])" if plain else "[^ ]+"
        if self.kept or (self.charsmap is not None and not plain):
            run = "(?!)"
        object.__setattr__(self, "_run", re.compile(run))

    def __call__(self, text: str) -> tuple[str, list[int]]:
        """The normalized text, and for each of its characters the byte of ``text`` that it came
        from; one more entry is where the text ends."""
        space = SPACE if self.escape else " "
        places: Sequence[int]
        if self.charsmap is None and not self.remove_extra:
            result, places = text.replace(" ", space), range(len(text))
        else:
            result, places = self._rewrite(text, space)
        bytes_before = _byte_offsets(text)
        origins = [bytes_before[place] for place in places]
        held = result or (text and not self.remove_extra)
        if self.prefix and self.suffix and not held:
            held = any(replacement != " " for replacement, _, _ in self._units(text))
        if self.prefix and held:
            if self.suffix:
                result, origins = result + space, [*origins, bytes_before[-1]]
            else:
                result, origins = space + result, [0, *origins]
        return result, [*origins, bytes_before[-1]]

    def _units(self, text: str) -> Iterator[tuple[str, int, bool]]:
        """What replaces the parts of a text, where each part begins, and whether it stays as it
        is."""
        whole: _Whole = self._whole  # type: ignore[attr-defined]
        run: re.Pattern[str] = self._run  # type: ignore[attr-defined]
        charsmap = self.charsmap
        at = 0
        while at < len(text):
            match = run.match(text, at)
            end = at + whole.longest(text, at) if match is None else match.end()
            if end > at:
                yield text[at:end], at, True
                at = end
                continue
            found = charsmap.longest(text, at) if charsmap is not None else None
            replacement, length = found or (text[at], 1)
            yield replacement, at, False
            at += length

    def _rewrite(self, text: str, space: str) -> tuple[str, Sequence[int]]:
        characters: list[str] = []
        places: list[int] = []
        dropping = self.remove_extra
        for replacement, begin, same in self._units(text):
            kept = replacement.lstrip(" ") if dropping else replacement
            begin += len(replacement) - len(kept) if same else 0
            characters += kept.replace(" ", space)
            places += range(begin, begin + len(kept)) if same else [begin] * len(kept)
            if kept:
                dropping = self.remove_extra and kept.endswith(" ")
        while self.remove_extra and characters and characters[-1] == space:
            del characters[-1], places[-1]
        return "".join(characters), places


def _byte_offsets(text: str) -> Sequence[int]:
    """Where each character begins in the UTF-8 of the text, and where the text ends."""
    if text.isascii():
        return range(len(text) + 1)
    return list(accumulate((len(character.encode()) for character in text), initial=0))


class Segmenter:
    """A pre-tokenizer of the ``tokenizers`` library that gives finished tokens.

    ``ids`` are the pieces by their surface. A character outside of them becomes the byte tokens of
    its UTF-8 (``byte_ids``, 256 of them), or the unknown token, once for a run.
    """

    def __init__(
        self,
        normalizer: Normalizer,
        cut: Callable[[str], list[str]],
        ids: Mapping[str, int],
        byte_ids: Sequence[int] | None,
        unknown: tuple[int, str] | None,
    ) -> None:
        self._normalizer = normalizer
        self._cut = cut
        self._ids = ids
        self._bytes = None if byte_ids is None else list(zip(byte_ids, BYTE_NAMES, strict=True))
        self._unknown = unknown
        self._token = library().Token

    def pre_tokenize(self, text: Any) -> None:
        """Cut every part that is not an added token; ``text`` is a ``PreTokenizedString``."""
        text.tokenize(self._tokens)

    def _tokens(self, text: str) -> list[Any]:
        normalized, origins = self._normalizer(text)
        token, ids, known = self._token, self._ids, self._bytes
        result = []
        end = 0
        open_since = -1  # where the run of unknown characters began
        for piece in self._cut(normalized):
            begin, end = end, end + len(piece)
            index = ids.get(piece)
            if index is not None:
                open_since = -1
                result.append(token(index, piece, (origins[begin], origins[end])))
            elif known is not None:
                for byte in piece.encode():
                    result.append(token(*known[byte], (origins[begin], origins[end])))
            elif self._unknown is not None:
                if open_since >= 0:
                    result.pop()
                else:
                    open_since = begin
                result.append(token(*self._unknown, (origins[open_since], origins[end])))
        return result


def build(model: SpmModel, where: str) -> tuple[Any, Spelling]:
    """A ``tokenizers.Tokenizer`` with the ids of the model, and how its tokens become text.

    It puts nothing around a text yet. ``where`` is the file that messages name. Errors:
    ``InvalidArgumentError`` for a model that does not fit together, ``UnsupportedError`` for a kind
    that is not served.
    """
    tokens = model.tokens
    ids = model.ids or dict(zip(tokens, range(len(tokens))))  # noqa: B905
    if len(ids) != len(tokens):
        index = next(index for index, token in enumerate(tokens) if ids[token] != index)
        raise invalid(
            where,
            f"the piece {shown(tokens[index])} stands twice, at {index} and {ids[tokens[index]]}",
        )
    types = np.asarray(model.types)

    def of_kind(*kinds: int) -> list[str]:
        return [tokens[index] for index in np.flatnonzero(np.isin(types, kinds))]

    inner = model.llama_cpp
    users = of_kind(USER_DEFINED)
    special = of_kind(UNKNOWN, CONTROL, BYTE)
    unused = [] if inner else of_kind(UNUSED)
    kept = () if inner else tuple(users)
    cut: Callable[[str], list[str]]
    known: dict[str, int]
    if model.kind == "bpe":
        # Merges make no special token; a character of a text may be one.
        known = ids.copy()
        for token in special:
            if len(token) > 1:
                del known[token]
        cut = Bpe(known, model.scores, kept, unused)
    elif model.kind == "unigram":
        made = dict(zip(tokens, model.scores))  # noqa: B905
        for piece in special + unused:
            del made[piece]
        for piece in users:
            made[piece] = 0.0
        try:
            cut = Unigram(made, kept, single=not inner)
        except ValueError as error:
            raise invalid(where, f"a piece has {error}") from error
        known = {token: ids[token] for token in made}
    else:
        raise unsupported(where, f"SentencePiece models of kind '{model.kind}' are not served")
    byte_ids = _byte_ids(model, ids, where)
    unknown = of_kind(UNKNOWN)[:1] if model.unknown is None else [tokens[model.unknown]]
    if byte_ids is None and not unknown:
        raise invalid(where, "holds neither an unknown token nor 256 byte tokens")
    try:
        charsmap = Charsmap(model.charsmap) if model.charsmap else None
    except ValueError as error:
        raise invalid(where, f"the character map {error}") from error
    normalizer = Normalizer(
        charsmap, kept, model.prefix, model.remove_extra, model.escape, model.suffix
    )
    segmenter = Segmenter(
        normalizer, cut, known, byte_ids, (ids[unknown[0]], unknown[0]) if unknown else None
    )
    lib = library()
    with guarded(f"{where}: tokenizer", "MALFORMED_FILE"):
        tokenizer = lib.Tokenizer(lib.models.BPE(vocab=ids, merges=[]))
        tokenizer.pre_tokenizer = lib.pre_tokenizers.PreTokenizer.custom(segmenter)
        add_tokens(tokenizer, of_kind(CONTROL, UNKNOWN), users if inner else (), model.strips)
    spelling = piece_spelling(
        tokens,
        model.types,
        tokenizer.id_to_token,
        spaced_users=not inner,
        drops=model.prefix or model.remove_extra,
        every=model.remove_extra,
    )
    return tokenizer, spelling


def _byte_ids(model: SpmModel, ids: Mapping[str, int], where: str) -> list[int] | None:
    if not model.byte_fallback:
        return None
    absent = [
        name
        for name in BYTE_NAMES
        if name not in ids or (model.types[ids[name]] != BYTE and not model.llama_cpp)
    ]
    if absent:
        raise invalid(
            where, f"falls back to bytes and lacks {len(absent)} of 256, {absent[0]} first"
        )
    return [ids[name] for name in BYTE_NAMES]


def piece_spelling(
    tokens: Sequence[str],
    types: Sequence[int],
    surface: Callable[[int], str | None],
    *,
    spaced_users: bool = False,
    drops: bool = False,
    every: bool = False,
) -> Spelling:
    """How pieces become text: U+2581 is a space, and a byte token is its byte.

    ``surface`` knows tokens that were added to the vocabulary. ``spaced_users`` has U+2581 mean a
    space in user-defined tokens too. ``drops`` takes the first space from a text, ``every`` those
    of all leading tokens that are nothing else.
    """
    spaced = {NORMAL, UNUSED, USER_DEFINED} if spaced_users else {NORMAL, UNUSED}

    def bytes_of(index: int) -> bytes | None:
        if index >= len(tokens):
            added = surface(index)
            return None if added is None else added.encode()
        token, kind = tokens[index], types[index]
        if kind == BYTE:
            return _BYTES.get(token) or token.encode()
        return (token.replace(SPACE, " ") if kind in spaced else token).encode()

    def space_led(index: int) -> bool:
        return index < len(tokens) and types[index] in spaced and tokens[index][0] == SPACE

    return Spelling(bytes_of, space_led if drops else None, every, per_byte=True)
