"""How well a model foretells a text: log-probabilities and perplexity.

A text longer than the context window is read through windows that overlap: window ``i`` begins at
token ``i * stride``, and of its tokens those count that no window before it has counted. So every
token but the first is counted once, with at least ``window - stride`` tokens of context behind the
first window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clika_runtime.errors import InternalError, InvalidArgumentError, told

from .engine import SCORE_BYTES, Work

if TYPE_CHECKING:
    from .generation import GenerativeModel

__all__ = ["TextScore", "log_probabilities", "score_text"]


@dataclass(frozen=True)
class TextScore:
    """What a text costs a model.

    ``tokens`` are those of the text, with what the tokenizer puts before it; ``scored`` of them
    have something before them and count, and stand for ``bytes`` bytes of the text. ``nll`` is the
    sum of their negative log-probabilities in nats. The text was read through ``windows`` windows
    of at most ``window`` tokens, ``stride`` apart."""

    tokens: int
    scored: int
    bytes: int
    windows: int
    window: int
    stride: int
    nll: float

    @property
    def perplexity(self) -> float:
        """``exp(nll / scored)``; inf where that is no float."""
        try:
            return math.exp(self.nll / self.scored)
        except OverflowError:
            return math.inf

    @property
    def bits_per_token(self) -> float:
        """Mean cost of a token in bits."""
        return self.nll / self.scored / math.log(2.0)

    @property
    def bits_per_byte(self) -> float:
        """Mean cost of a byte of UTF-8 in bits: comparable between tokenizers."""
        return self.nll / self.bytes / math.log(2.0) if self.bytes else 0.0


def score_text(model: GenerativeModel, text: str, *, window: int = 0, stride: int = 0) -> TextScore:
    """Perplexity of a text of any length.

    ``window`` tokens are seen at once (0: the model's context window), ``stride`` tokens lie
    between the beginnings of two windows (0: half of the window; less is slower and gives more
    context). Refused: a text of fewer than two tokens, numbers out of range. Raises
    ``InternalError`` (``NOT_A_NUMBER``) with the position where logits are NaN.

        score = model.perplexity(open("text.txt").read(), stride=512)
        print(score.perplexity, score.bits_per_byte)
    """
    window, stride = _checked(model, window, stride)
    spans = model.tokenizer.tokenize(text)
    ids = [span.id for span in spans]
    if len(ids) < 2:
        raise InvalidArgumentError(
            f"perplexity: the text has {len(ids)} token(s); it takes two for one to be foretold"
        )
    total, windows = 0.0, 0
    for begin, first, end in _windows(len(ids), window, stride):
        windows += 1
        total -= float(log_probabilities(model, ids[begin:end], first - begin, begin).sum())
    nbytes = len(text.encode()) - spans[0].end
    return TextScore(len(ids), len(ids) - 1, nbytes, windows, window, stride, total)


def _checked(model: GenerativeModel, window: int, stride: int) -> tuple[int, int]:
    for name, value in (("window", window), ("stride", stride)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidArgumentError(f"perplexity: {name} is a whole number, got {told(value)}")
    window = window or model.window
    if not 2 <= window <= model.window:
        raise InvalidArgumentError(
            f"perplexity: window is {window}, 2 .. {model.window} (the model's context) are served"
        )
    stride = stride or max(1, window // 2)
    if stride >= window:
        raise InvalidArgumentError(
            f"perplexity: stride is {stride}, at most {window - 1} leaves each token of a window "
            "something before it"
        )
    return window, stride


def _windows(count: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """(begin, first token counted, end) of each window over ``count`` tokens."""
    begin, first = 0, 1
    while first < count:
        end = min(begin + window, count)
        yield begin, first, end
        begin, first = begin + stride, end


def log_probabilities(
    model: GenerativeModel, ids: Sequence[int], first: int = 1, offset: int = 0
) -> Any:
    """Log-probability of each token from ``first`` on, given those before it: float64 ``[len(ids) -
    first]``.

    Logits exist for a few rows at a time only. ``offset`` is added to positions in errors."""
    import numpy as np

    engine = model.engine
    piece = max(1, min(engine.chunk, SCORE_BYTES // (4 * model.loaded.model.vocab_size)))
    parts = []
    with engine.lock:
        sequence = engine.cache.add()
        try:
            for start in range(0, first - 1, engine.chunk):
                stop = min(start + engine.chunk, first - 1)
                engine.step([Work(sequence, ids[start:stop])])
            for start in range(first - 1, len(ids) - 1, piece):
                stop = min(start + piece, len(ids) - 1)
                rows = engine.extend([sequence], [ids[start:stop]])[0]
                parts.append(_chosen(rows, ids[start + 1 : stop + 1], offset + start + 1))
        finally:
            engine.cache.free(sequence)
    return np.concatenate(parts)


def _chosen(rows: Any, ids: Sequence[int], position: int) -> Any:
    """log softmax(rows) at ids, in float64."""
    import numpy as np

    top = rows.max(axis=1).astype(np.float64)
    if not np.isfinite(top).all():
        place = position + int(np.argmin(np.isfinite(top)))
        raise InternalError(
            f"perplexity: token {place} of the text cannot be scored: its logits are NaN, or none "
            "is above -inf. The weights are damaged, or the dtype is too narrow for them; try "
            "float32",
            "NOT_A_NUMBER",
        )
    # Row by row: all of them in float64 would take twice what the logits do.
    sums = [
        np.exp(row.astype(np.float64) - most).sum() for row, most in zip(rows, top, strict=True)
    ]
    chosen = rows[np.arange(len(ids)), list(ids)].astype(np.float64)
    return chosen - top - np.log(sums)
