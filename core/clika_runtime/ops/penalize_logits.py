"""The operator ``penalize_logits``."""

from __future__ import annotations

from ._shapes import fail, same, text
from .record import Meta, op, tensor

_INT32 = frozenset(("int32",))
_FLOAT32 = frozenset(("float32",))
_COLUMNS = (
    "repetition",
    "frequency",
    "presence",
    "dry_multiplier",
    "dry_base",
    "dry_allowed",
    "dry_limit",
)


def _infer(logits: Meta, history: Meta, spans: Meta, *columns: Meta) -> Meta:
    if logits.ndim != 2 or history.ndim != 1:
        fail(
            "penalize_logits",
            "expected logits [R, V] and history [N], got "
            f"{text(logits.shape)} and {text(history.shape)}",
        )
    rows = logits.shape[0]
    if spans.ndim != 2 or not same(spans.shape[0], rows) or not same(spans.shape[1], 3):
        fail(
            "penalize_logits",
            f"spans {text(spans.shape)} must be [{rows}, 3]: where a row's tokens begin, where its "
            "reply begins, where they end",
        )
    for name, meta in zip(_COLUMNS, columns, strict=True):
        if meta.ndim != 1 or not same(meta.shape[0], rows):
            fail(
                "penalize_logits",
                f"{name} {text(meta.shape)} must be [{rows}], one for each row of logits",
            )
    return Meta(logits.shape, logits.dtype)


op(
    "penalize_logits",
    doc="""
    Makes tokens that a row's text holds already less likely, in place; returns logits.

    The tokens of row r are history[spans[r, 0]] to history[spans[r, 2] - 1]; those from
    spans[r, 1] on are its reply. In this order:

    1. repetition (1: off): x / repetition where x > 0, else x * repetition, for each token of the
       row;
    2. x - frequency * count - presence, for each token of the reply and its count there (0: off);
    3. dry_multiplier (0: off): a token that would continue a run of n tokens, the row's last ones,
       as an earlier place continued the same run, becomes x - dry_multiplier *
       dry_base^(n - dry_allowed), where n is at least dry_allowed. n is the longest such run, at
       most dry_limit. The penalty is at most 1e30.

    logits [R, V], history [N] int32, spans [R, 3] int32, the columns [R] (dry_allowed and dry_limit
    int32). A NaN logit stays NaN. Tokens of history outside the vocabulary count as none; a span
    outside history is an error of the kernel.
    """,
    args=[
        tensor("logits", _FLOAT32),
        tensor("history", _INT32),
        tensor("spans", _INT32),
        tensor("repetition", _FLOAT32),
        tensor("frequency", _FLOAT32),
        tensor("presence", _FLOAT32),
        tensor("dry_multiplier", _FLOAT32),
        tensor("dry_base", _FLOAT32),
        tensor("dry_allowed", _INT32),
        tensor("dry_limit", _INT32),
    ],
    infer=_infer,
    mutates=0,
    method=False,
    source="Keskar et al., CTRL: a conditional transformer language model for controllable "
    "generation, 2019 (repetition); the DRY sampler as published by its author, p-e-w, 2024",
)
