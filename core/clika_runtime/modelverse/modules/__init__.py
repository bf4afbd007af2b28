"""Model parts that families share. A family composes or subclasses them; nobody copies a forward
pass."""

from __future__ import annotations

from .attention import Attention
from .decoder import DecoderLayer, DecoderModel
from .head import CausalLM
from .linear import Linear
from .mlp import GatedMLP
from .rope import Rotary, inverse_frequencies

__all__ = [
    "Attention",
    "CausalLM",
    "DecoderLayer",
    "DecoderModel",
    "GatedMLP",
    "Linear",
    "Rotary",
    "inverse_frequencies",
]
