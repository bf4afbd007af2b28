"""Loading by task: the class is found from the checkpoint."""

from __future__ import annotations

import os
from typing import Any

from .generation import GenerativeModel, load_generative
from .sources import ResolvedSource, resolve

__all__ = ["AutoModelForCausalLM"]


class AutoModelForCausalLM:
    """Loads models that continue text. Not made itself; ``from_pretrained`` returns a
    ``GenerativeModel``."""

    def __new__(cls, *args: Any, **kwargs: Any) -> AutoModelForCausalLM:
        raise TypeError("AutoModelForCausalLM: use AutoModelForCausalLM.from_pretrained(source)")

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str] | ResolvedSource,
        *,
        device: str = "cpu",
        offline: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> GenerativeModel:
        """Finds the files of ``source``, loads the model on ``device`` and returns it.

        ``source``: a directory, a file, or ``pkg:NAME``. ``offline`` forbids to fetch anything.
        Further options are those of ``LoadOptions`` (``dtype``, ``max_seq``, ``mode``, ...).

            model = AutoModelForCausalLM.from_pretrained("model.gguf", max_seq=4096)
            print(model.generate("Once upon a time,", max_new_tokens=32))
        """
        found = resolve(source, offline=offline, cache_dir=cache_dir)
        return load_generative(found, device=device, **options)
