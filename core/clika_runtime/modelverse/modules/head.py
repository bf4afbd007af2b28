"""A decoder with a head over its vocabulary."""

from __future__ import annotations

from typing import Any

import clika_runtime as crt
from clika_runtime import nn

from ..cache import StateSpec
from ..rope_scaling import FREQS_TENSOR, LONG_TENSOR, SHORT_TENSOR
from .linear import Linear

__all__ = ["CausalLM"]


class CausalLM(nn.Module):
    """A backbone and its head, apart: ``forward`` gives hidden states, ``head`` turns rows of them
    into logits.

    With ``tied`` the head reads the token table, and the tree has no ``lm_head``. A ``softcap`` c
    above 0 bounds the logits: c * tanh(logits / c).
    """

    def __init__(
        self,
        model: Any,
        hidden_size: int,
        vocab_size: int,
        tied: bool,
        dtype: Any = None,
        softcap: float = 0.0,
    ) -> None:
        super().__init__()
        self.softcap = softcap
        self.model: Any = model
        self.vocab_size = vocab_size
        self.tied = tied
        if not tied:
            self.lm_head = Linear(hidden_size, vocab_size, False, dtype, shard="col")

    @property
    def table(self) -> Any:
        """The token table."""
        return self.model.embed_tokens

    @property
    def tied_names(self) -> dict[str, str]:
        """Names that a tied checkpoint may repeat, and the slots they stand for."""
        return {"lm_head.weight": "model.embed_tokens.weight"} if self.tied else {}

    def cache_specs(self) -> list[StateSpec]:
        """What each layer keeps, in the order of the layers."""
        return list(self.model.cache_specs())

    def set_rope_factors(self, factors: Any) -> None:
        """Takes divisors of the rotary frequencies, one per pair."""
        self.model.rotary.set_factors(factors, FREQS_TENSOR)

    def set_short_rope_factors(self, factors: Any) -> None:
        """Takes longrope's divisors up to the original window."""
        self.model.rotary.set_factors(factors, SHORT_TENSOR)

    def set_long_rope_factors(self, factors: Any) -> None:
        """Takes longrope's divisors beyond the original window."""
        self.model.rotary.set_factors(factors, LONG_TENSOR)

    def forward(self, tokens: Any, positions: Any, step: Any, rows: Any = None) -> Any:
        return self.model(tokens, positions, step, rows)

    def head(self, hidden: Any) -> Any:
        """Logits in float32: ``[R, hidden]`` -> ``[R, vocab]``."""
        if hidden.dtype != crt.float32:
            # Scores of neighbouring tokens may differ by less than a step of a short dtype.
            hidden = hidden.to(crt.float32)
        if self.tied:
            logits = crt.linear(hidden, self.table.weight, None, mode=self.table.mode)
        else:
            logits = self.lm_head(hidden)
        if self.softcap:
            logits = crt.tanh(logits * (1.0 / self.softcap)) * self.softcap
        return logits
