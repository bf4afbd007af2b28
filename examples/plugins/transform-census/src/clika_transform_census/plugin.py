"""Registration data of the transform; its code loads on first need."""

from __future__ import annotations

from collections.abc import Callable

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import TransformSpec


@hookimpl
def clika_register_transforms(register: Callable[..., None]) -> None:
    register(
        TransformSpec(
            name="census",
            contract=1,
            load="clika_transform_census.census:census",
            summary="Logs how often each operator stands in a graph; changes nothing",
        )
    )
