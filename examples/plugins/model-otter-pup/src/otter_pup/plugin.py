"""Registration data of the model: its files, as the distribution's RECORD lists them."""

from __future__ import annotations

from collections.abc import Callable

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import ModelSpec

FOLDER = "otter_pup/weights"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


@hookimpl
def clika_register_models(register: Callable[..., None]) -> None:
    register(
        ModelSpec(
            name="otter-pup",
            contract=1,
            files=tuple(f"{FOLDER}/{name}" for name in FILES),
            family="otter",
            license="Apache-2.0",
            summary="Finishes sentences about otters",
        )
    )
