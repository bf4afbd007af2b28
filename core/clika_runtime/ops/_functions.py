"""What the Python functions over operators share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")


def of_tensors(function: Function) -> Function:
    """The function behind a check that its arguments annotated ``Tensor`` are tensors; those
    annotated ``Tensor | None`` may be None."""
    names = [name for name in function.__annotations__ if name != "return"]
    wanted = [
        (place, name, function.__annotations__[name] != "Tensor")
        for place, name in enumerate(names)
        if function.__annotations__[name] in ("Tensor", "Tensor | None")
    ]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        from .._native._core import Tensor

        for place, name, optional in wanted:
            if place < len(args):
                value = args[place]
            elif name in kwargs:
                value = kwargs[name]
            else:
                continue
            if not isinstance(value, Tensor) and not (optional and value is None):
                raise TypeError(
                    f"{function.__name__}: {name} must be a tensor, got {type(value).__name__}; "
                    "make one with clika_runtime.tensor()"
                )
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]
