"""What the Python functions over operators share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from .record import told

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


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it: every error names it.

    What is refused inside is told by `told`; what an argument of a wrong type makes Python raise
    inside becomes a TypeError that says so, with Python's own error as its cause.
    """

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except _OF_TYPES as error:
            from ..errors import ClikaRTError

            if isinstance(error, ClikaRTError) or _told(name, str(error)):
                raise
            given = ", ".join(
                [*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in options.items())]
            )
            raise TypeError(f"{name}: {error}; called with ({given})") from error

    return told(name, called)


_OF_TYPES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def _told(name: str, text: str) -> bool:
    """Whether an error says already which function or operator it is of."""
    from .. import ops

    return text.startswith(f"{name}() ") or text.partition(": ")[0] in ops.__all__


def _shown(value: Any) -> str:
    """An argument in an error: a tensor by its shape."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{getattr(value.dtype, 'name', value.dtype)}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
