"""Vectors of texts from a decoder's hidden states.

The states behind the final norm are pooled over a text's tokens, by their mean or by the last one's
alone, and brought to length 1; the cosine of two texts is then the product of their vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import clika_runtime as crt
from clika_runtime.errors import InternalError, InvalidArgumentError, UnsupportedError, told
from clika_runtime.io import read_json

from .config import Fields
from .engine import Engine

if TYPE_CHECKING:
    from .generation import GenerativeModel
    from .loader import Checkpoint

__all__ = ["POOLINGS", "Embedder", "stated_pooling"]

POOLINGS = ("mean", "last")
# GGUF's numbers of kinds of pooling.
_GGUF_POOLINGS = {1: "mean", 2: "cls", 3: "last", 4: "rank"}
# Switches of sentence-transformers' module for pooling.
_SWITCHES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
_LIMIT = 1 << 20
_MOST = 64  # texts of a step


def stated_pooling(checkpoint: Checkpoint) -> str | None:
    """The pooling that a checkpoint was trained with: ``ARCH.pooling_type`` of a GGUF,
    `1_Pooling/config.json` of a folder; None where it says nothing."""
    if checkpoint.kind == "gguf":
        fields = Fields(checkpoint.config, checkpoint.where, f"{checkpoint.architecture}.")
        number = fields.integer("pooling_type", 0, low=0, high=1 << 16)
        return _GGUF_POOLINGS.get(number, str(number)) if number else None
    path = checkpoint.folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return None
    fields = Fields(read_json(path, _LIMIT), str(path))
    stated = [name for key, name in _SWITCHES.items() if fields.boolean(key, False)]
    return "+".join(stated) or None


class _Headless:
    """A model whose head gives hidden states, in float32: an engine over it computes those."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.vocab_size = model.vocab_size

    def __call__(self, tokens: Any, positions: Any, step: Any, rows: Any = None) -> Any:
        return self.model(tokens, positions, step, rows)

    def head(self, hidden: Any) -> Any:
        return hidden.to(crt.float32)


class Embedder:
    """Embeds texts with a loaded model, over the model's own weights and cache.

    vectors = model.embed(["a cat", "a dog"])  # [2, hidden] float32, of length 1
    """

    def __init__(self, model: GenerativeModel) -> None:
        self._tokenizer = model.tokenizer
        self._window = model.window
        self._checkpoint = model.loaded.checkpoint
        self._engine = Engine(
            _Headless(model.loaded.model), model.engine.cache, chunk=model.engine.chunk
        )
        # One cache, one lock.
        self._engine.lock = model.engine.lock

    def embed(
        self, texts: Sequence[str], *, pooling: str | None = None, normalize: bool = True
    ) -> Any:
        """Vectors of texts: float32 ``[texts, hidden]`` as a NumPy array.

        ``pooling`` "mean" or "last" says which hidden states make a text's vector: the mean of all,
        or that of the last token. None takes what the checkpoint states, else "mean".
        ``normalize`` divides a vector by its length. Texts run together, as many at a time as the
        cache holds sequences. Refused: a text without tokens, or with more than the window holds;
        a pooling that is none of the two."""
        import numpy as np

        how = self.pooling(pooling)
        rows = self._encoded(texts)
        with self._engine.lock:
            most = max(1, min(_MOST, self._engine.cache.free_sequences))
            parts = [
                self._pooled(rows[start : start + most], how) for start in range(0, len(rows), most)
            ]
        vectors = np.concatenate(parts)
        if not np.isfinite(vectors).all():
            place = int(np.argwhere(~np.isfinite(vectors))[0][0])
            raise InternalError(
                f"embed: the hidden states of text {place} are no numbers; the weights are "
                "damaged, or the dtype is too narrow for them; try float32",
                "NOT_A_NUMBER",
            )
        if normalize:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
        return vectors.astype(np.float32)

    def pooling(self, asked: str | None = None) -> str:
        """The pooling that is used: ``asked``, what the checkpoint states, "mean"."""
        how = asked or stated_pooling(self._checkpoint) or "mean"
        if how in POOLINGS:
            return how
        if asked is None:
            raise UnsupportedError(
                f"{self._checkpoint.path}: the checkpoint states the pooling '{how}'; served are "
                f"{', '.join(POOLINGS)} (pooling=...)"
            )
        raise InvalidArgumentError(
            f"embed: pooling is {told(how)}; choose one of {', '.join(POOLINGS)}"
        )

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        if isinstance(texts, (str, bytes, Mapping)) or not isinstance(texts, Sequence) or not texts:
            raise InvalidArgumentError(f"embed: takes a list of texts, got {told(texts)}")
        rows = [self._tokenizer.encode(text) for text in texts]
        for place, ids in enumerate(rows):
            if not 1 <= len(ids) <= self._window:
                raise InvalidArgumentError(
                    f"embed: text {place} has {len(ids)} tokens, 1 .. {self._window} fit in the "
                    "context window"
                )
        return rows

    def _pooled(self, rows: Sequence[Sequence[int]], how: str) -> Any:
        """Vectors of texts that run together, a chunk of tokens a step."""
        import numpy as np

        engine = self._engine
        sums: list[Any] = [0.0] * len(rows)
        fed = [0] * len(rows)
        sequences: list[int] = []
        try:
            for _ in rows:
                sequences.append(engine.cache.add())
            while any(done < len(ids) for done, ids in zip(fed, rows, strict=True)):
                budget, places, pieces = engine.chunk, [], []
                for place, ids in enumerate(rows):
                    piece = ids[fed[place] : fed[place] + budget]
                    if piece:
                        places.append(place)
                        pieces.append(piece)
                        budget -= len(piece)
                states = engine.extend([sequences[place] for place in places], pieces)
                for place, piece, state in zip(places, pieces, states, strict=True):
                    fed[place] += len(piece)
                    if how == "mean":
                        sums[place] = sums[place] + state.sum(axis=0, dtype=np.float64)
                    else:
                        sums[place] = state[-1]
        finally:
            for sequence in sequences:
                engine.cache.free(sequence)
        if how == "last":
            return np.stack(sums)
        return np.stack([total / len(ids) for total, ids in zip(sums, rows, strict=True)])
