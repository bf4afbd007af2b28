"""Typed errors: a status class, a stable code name and a message.

Callers branch on the class or on ``code_name``, never on the text. The message names the operation,
the values received and, where there is one, the fix.
"""

from __future__ import annotations

import enum
import reprlib
from typing import Any

__all__ = [
    "ClikaRTError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OutOfMemoryError",
    "Status",
    "UnavailableError",
    "UnsupportedError",
    "from_native",
    "is_capability_decline",
    "status_of",
    "told",
]


class Status(enum.IntEnum):
    """The coarse class of a failure. The numbers are append-only; it prints as its name."""

    Ok = 0
    InvalidArgument = 1
    NotFound = 2
    Unsupported = 3
    Internal = 4
    Unavailable = 5

    def __str__(self) -> str:
        return self.name


class ClikaRTError(RuntimeError):
    """Base of every error of the runtime.

    ``code_name`` is the stable fine code; an empty string says that the failure did not originate
    in the runtime. ``status`` is the coarse class and prints as its name. ``str(error)`` is the
    message alone.

    >>> try:
    ...     raise InvalidArgumentError("relu: expected 1 argument, got 2")
    ... except ClikaRTError as error:
    ...     print(error.status, error.code_name, error, sep=" | ")
    InvalidArgument | INVALID_ARGUMENT | relu: expected 1 argument, got 2
    """

    status: Status = Status.Internal
    default_code: str = ""

    def __init__(self, message: object = "", code_name: str | None = None) -> None:
        super().__init__(str(message))
        self.code_name: str = self.default_code if code_name is None else code_name

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.code_name), self.__dict__


class InvalidArgumentError(ClikaRTError, ValueError):
    """An argument, or the state it was given in, breaks a rule. Also a ``ValueError``."""

    status = Status.InvalidArgument
    default_code = "INVALID_ARGUMENT"


class NotFoundError(ClikaRTError, FileNotFoundError):
    """A file, an entry or a name that was asked for does not exist. Also a
    ``FileNotFoundError``."""

    status = Status.NotFound
    default_code = "NO_SUCHFILE"


class UnsupportedError(ClikaRTError):
    """The request is well formed, and this runtime does not serve it."""

    status = Status.Unsupported
    default_code = "NOT_IMPLEMENTED"


class OutOfMemoryError(ClikaRTError, MemoryError):
    """Memory of the host or of a device is out. Also a ``MemoryError``."""

    status = Status.Internal
    default_code = "OUT_OF_MEMORY"


class UnavailableError(ClikaRTError):
    """Work was shed, ran past its deadline or was cancelled; it may succeed later."""

    status = Status.Unavailable
    default_code = "UNAVAILABLE"


class InternalError(ClikaRTError):
    """An invariant of the runtime broke, or a part that it needs could not be brought up."""

    status = Status.Internal
    default_code = "INTERNAL"


# Codes whose class cannot be read off the name. Append only: a code never changes its class.
_STATUS_OF_CODE: dict[str, Status] = {
    "INVALID_ARGUMENT": Status.InvalidArgument,
    "FAILED_PRECONDITION": Status.InvalidArgument,
    "MALFORMED_FILE": Status.InvalidArgument,
    "NO_SUCHFILE": Status.NotFound,
    "NOT_FOUND": Status.NotFound,
    "NOT_IMPLEMENTED": Status.Unsupported,
    "NOT_IMPLEMENTED_FOR_DEVICE": Status.Unsupported,
    "NOT_IMPLEMENTED_FOR_DTYPE": Status.Unsupported,
    "NOT_IMPLEMENTED_FOR_GEOMETRY": Status.Unsupported,
    "NOT_IMPLEMENTED_FOR_LAYOUT": Status.Unsupported,
    "NOT_IMPLEMENTED_FOR_PAIR": Status.Unsupported,
    "NOT_IMPLEMENTED_FOR_PARAM": Status.Unsupported,
    "NOT_IMPLEMENTED_FOR_SCHEME": Status.Unsupported,
    "FAMILY_NOT_INSTALLED": Status.Unsupported,
    "FAMILY_UNKNOWN": Status.Unsupported,
    "UNAVAILABLE": Status.Unavailable,
    "CANCELLED": Status.Unavailable,
    "TIMED_OUT": Status.Unavailable,
    "INTERNAL": Status.Internal,
    "NOT_A_NUMBER": Status.Internal,
    "OUT_OF_MEMORY": Status.Internal,
    "BACKEND_NOT_LOADED": Status.Internal,
    "BACKEND_UNAVAILABLE": Status.Internal,
    "BACKEND_DRIVER_ABSENT": Status.Internal,
    "PLUGIN_FAILED": Status.Internal,
    "BINDING_VERSION_MISMATCH": Status.Internal,
    "LICENSE_FAILED": Status.Internal,
    "LICENSE_EXPIRED": Status.Internal,
}

_DECLINES = frozenset(name for name in _STATUS_OF_CODE if name.startswith("NOT_IMPLEMENTED"))

_CLASS_OF_STATUS: dict[int, type[ClikaRTError]] = {
    Status.InvalidArgument: InvalidArgumentError,
    Status.NotFound: NotFoundError,
    Status.Unsupported: UnsupportedError,
    Status.Internal: InternalError,
    Status.Unavailable: UnavailableError,
}


_short = reprlib.Repr()
_short.maxlevel = 3
_short.maxstring = _short.maxother = _short.maxlong = 80


def told(value: object) -> str:
    """A value of a caller as messages show it: at most 80 characters, however large or deep it is.

    >>> told([1.5, "a"]), len(told("x" * 1000))
    ("[1.5, 'a']", 80)
    """
    try:
        return _short.repr(value)[:80]
    except Exception:  # its own __repr__, or an integer of thousands of digits
        return f"<{type(value).__name__}>"


def is_capability_decline(code_name: str) -> bool:
    """True when the code names a case that the runtime does not serve: an operation, device, dtype,
    layout, scheme, pair, geometry or parameter value. Such a call may be served another way. Names
    compare exactly; False for a backend that runs nothing at all, and for an empty or unknown name.

    >>> is_capability_decline("NOT_IMPLEMENTED_FOR_DTYPE")
    True
    >>> is_capability_decline("BACKEND_NOT_LOADED")
    False
    """
    return code_name in _DECLINES


def status_of(code_name: str) -> Status:
    """The status that the runtime reports beside a code name; ``Status.Internal`` for an unknown
    name.

    >>> print(status_of("NO_SUCHFILE"))
    NotFound
    """
    return _STATUS_OF_CODE.get(code_name, Status.Internal)


def from_native(status: int, code: str, message: str) -> ClikaRTError:
    """The error object for a failure that the native core reports as status, code and message. An
    empty code takes the default of its class."""
    if code == OutOfMemoryError.default_code:
        return OutOfMemoryError(message)
    return _CLASS_OF_STATUS.get(status, InternalError)(message, code or None)
