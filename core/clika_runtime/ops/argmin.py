"""The operator ``argmin``."""

from __future__ import annotations

from .argmax import declare_position

declare_position("argmin", "smallest")
