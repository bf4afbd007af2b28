"""Registration data of the otter family; the model's code loads on first need."""

from __future__ import annotations

from collections.abc import Callable

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import FamilySpec


@hookimpl
def clika_register_families(register: Callable[..., None]) -> None:
    register(
        FamilySpec(
            name="otter",
            contract=1,
            vendor="Otter Lab",
            description="Parallel attention and squared-ReLU feed-forward",
            tasks=("text-generation",),
            modalities=("text -> text",),
            verbs=("prompt",),
            model_types=("otter",),
            architectures=("OtterForCausalLM",),
            load="clika_family_otter.otter:FAMILY",
        )
    )
