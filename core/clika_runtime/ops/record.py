"""Operator records: one declaration per operator, from which everything else is derived.

A record feeds the public function, the ``Tensor`` method, the node's opcode, the type stub and the
reference page. It holds no kernel: backends register kernels under the record's name.

What a call does with a record:

1. Bind. Positional and keyword arguments go to ``args`` in order; ``Arg.aliases`` are further
   keyword names. A ``variadic`` argument (``permute``'s dims, ``reshape``'s shape) takes one
   sequence, or, in a call, all remaining positional integers: ``x.reshape(2, 3)`` is
   ``x.reshape((2, 3))``.
2. Settle statics. ``ints`` takes an int, a sequence of ints or None and is a tuple of ints (or
   None) from here on; ``int`` also takes a sequence of exactly one int (``argmax(x, dims=[1])``);
   ``number`` is a Python int or float and is packed as INT or FLOAT accordingly; a ``str`` with
   ``modes`` is checked by ``Arg.mode_index`` and packed as its index, None standing for the
   default. Everything else is as given: dims stay negative, and None stays None, for rules and
   kernels alike.
3. A Python number in a ``number`` tensor argument enters as a 0-d operand with ``Meta.weak`` set
   and dtype bool, int64 or float32. It takes part in promotion only by kind, as in PyTorch.
4. ``infer(*args)`` gives the results, ``promote(*args)`` the dtypes that the tensor arguments enter
   the kernel in: a dtype for all of them, a tuple with one entry per tensor argument, or None
   (an entry or the whole) for "as it is". An input in another dtype is converted first. A size
   that depends on the values of the input is None in a result: its kernel settles it, the call
   runs at once, and it cannot be recorded.
5. Run: the backend's kernel, else ``compose``, which gets the arguments as the caller wrote them
   (an ``ints`` may be a bare int). A ``VIEW`` operator whose ``infer`` returns a ``Meta`` and not
   a ``View`` cannot share bytes; its ``compose`` copies and tries again.

``front`` may wrap the call: it gets the callable of the record and gives the public function, which
takes forms of an argument that the kinds above cannot say (a padding ``"same"``) and puts them
into theirs. Its annotations are the public signature.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RECORDS", "Arg", "Meta", "Record", "View", "op", "scalar", "static", "tensor", "told"]

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()

# Traits that passes, the dispatcher and the docs ask for.
ELEMENTWISE = "elementwise"
COMMUTATIVE = "commutative"
REDUCTION = "reduction"
VIEW = "view"
RANDOM = "random"
FACTORY = "factory"


class _Struct:
    """Value semantics over ``__slots__``; a dataclass would cost the import of inspect."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        body = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({body})"


class Arg(_Struct):
    """One argument. ``kind`` is ``tensor``, ``static`` or ``scalar`` (a runtime scalar)."""

    __slots__ = (
        "name",
        "kind",
        "type",
        "default",
        "dtypes",
        "optional",
        "number",
        "sequence",
        "modes",
        "keyword_only",
        "aliases",
        "variadic",
        "packed",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        type: str = "tensor",
        default: Any = REQUIRED,
        dtypes: frozenset[str] | None = None,  # tensor: names of dtypes; None takes all
        optional: bool = False,  # tensor: may be None
        number: bool = False,  # tensor: may be a Python number
        sequence: bool = False,  # tensor: a list of tensors
        modes: tuple[str, ...] = (),  # static str: the allowed strings; the kernel sees the index
        keyword_only: bool = False,
        aliases: tuple[str, ...] = (),  # further keyword names
        variadic: bool = False,  # static ints: also takes the remaining positional integers
        packed: bool = False,  # tensor: may be a packed weight (a quantization scheme)
    ) -> None:
        self.name = name
        self.kind = kind
        self.type = type
        self.default = default
        self.dtypes = dtypes
        self.optional = optional
        self.number = number
        self.sequence = sequence
        self.modes = modes
        self.keyword_only = keyword_only
        self.aliases = aliases
        self.variadic = variadic
        self.packed = packed

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def mode_index(self, value: Any) -> int:
        """The index of a string mode; refuses an unknown one with the accepted list."""
        if value is None:
            value = self.default
        if isinstance(value, str) and value in self.modes:
            return self.modes.index(value)
        from ..errors import InvalidArgumentError

        kind = "".join(part.capitalize() for part in self.name.split("_"))
        article = "an" if kind[0] in "AEIOU" else "a"
        choices = ", ".join(f"'{mode}'" for mode in self.modes)
        raise InvalidArgumentError(
            f"{self.name}: {value!r} is not {article} {kind}; choose one of {choices}"
        )


class Meta(_Struct):
    """What is known of a tensor without its bytes. ``weak`` marks a Python number's 0-d operand."""

    __slots__ = ("shape", "dtype", "device", "scheme", "layout", "strides", "weak")

    def __init__(
        self,
        shape: tuple[Any, ...],
        dtype: Any,
        device: Any = None,  # None in a result: the device of the inputs
        scheme: int = 0,
        layout: int = 0,
        strides: tuple[Any, ...] | None = None,  # in elements; None: contiguous
        weak: bool = False,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.scheme = scheme
        self.layout = layout
        self.strides = strides
        self.weak = weak

    @property
    def ndim(self) -> int:
        return len(self.shape)


class View(_Struct):
    """A result that shares the bytes of tensor argument ``source``; ``offset`` counts elements."""

    __slots__ = ("shape", "strides", "offset", "source")

    def __init__(
        self, shape: tuple[Any, ...], strides: tuple[Any, ...], offset: Any = 0, source: int = 0
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.source = source


class Record(_Struct):
    """One operator. See the module's text for what each part means to a call."""

    __slots__ = (
        "name",
        "text",
        "args",
        "infer",
        "traits",
        "compose",
        "mutates",
        "outputs",
        "method",
        "source",
        "codes",
        "promote",
        "front",
    )

    def __init__(
        self,
        name: str,
        text: str,  # the summary with the formula, then the long part of the reference page
        args: tuple[Arg, ...],
        infer: Callable[..., Any],
        traits: frozenset[str] = frozenset(),
        compose: Callable[..., Any] | None = None,
        # Which tensor argument each result is, written in place; an int is that of the only result.
        mutates: int | tuple[int | None, ...] = (),
        outputs: int = 1,  # 0: as many as `infer` returns
        method: bool = True,  # also a Tensor method
        source: str = "",  # paper or specification of the method
        codes: tuple[str, ...] = ("INVALID_ARGUMENT",),
        promote: Callable[..., Any] | None = None,  # see step 4 above
        front: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    ) -> None:
        self.name = name
        self.text = text
        self.args = args
        self.infer = infer
        self.traits = traits
        self.compose = compose
        self.mutates = (mutates,) if isinstance(mutates, int) else mutates
        self.outputs = outputs
        self.method = method
        self.source = source
        self.codes = codes
        self.promote = promote
        self.front = front

    # Worked out when asked: declaring a record is on the way of every first call.
    @property
    def summary(self) -> str:
        """The first paragraph of the text, on one line."""
        return " ".join(self.text.strip().partition("\n\n")[0].split())

    @property
    def doc(self) -> str:
        """The text after the summary."""
        return self.text.strip().partition("\n\n")[2].strip()

    @property
    def help(self) -> str:
        """The text of ``help(operator)``."""
        from ._help import text_of

        return text_of(self)

    @property
    def tensors(self) -> tuple[Arg, ...]:
        """The tensor arguments, in order."""
        return tuple(arg for arg in self.args if arg.kind == "tensor")

    @property
    def statics(self) -> tuple[Arg, ...]:
        """The static arguments, in order."""
        return tuple(arg for arg in self.args if arg.kind == "static")

    @property
    def scalars(self) -> tuple[Arg, ...]:
        """The runtime scalars, in order."""
        return tuple(arg for arg in self.args if arg.kind == "scalar")

    def target(self, result: int) -> int | None:
        """The tensor argument that a result is, written in place; None: the result is new."""
        return self.mutates[result] if result < len(self.mutates) else None

    @property
    def written(self) -> tuple[int, ...]:
        """The tensor arguments that the operator writes to, by index."""
        return tuple(index for index in self.mutates if index is not None)

    def __repr__(self) -> str:
        return f"Record({self.name!r})"

    def __hash__(self) -> int:
        return hash(self.name)


RECORDS: dict[str, Record] = {}


def tensor(
    name: str,
    dtypes: frozenset[str] | None = None,
    *,
    optional: bool = False,
    number: bool = False,
    sequence: bool = False,
    packed: bool = False,
    aliases: tuple[str, ...] = (),
) -> Arg:
    """A tensor argument; its metadata is part of the dispatch key."""
    return Arg(
        name,
        "tensor",
        "tensor",
        None if optional else REQUIRED,
        dtypes,
        optional,
        number,
        sequence,
        aliases=aliases,
        packed=packed,
    )


def static(
    name: str,
    type: str,
    default: Any = REQUIRED,
    *,
    modes: tuple[str, ...] = (),
    keyword_only: bool = False,
    aliases: tuple[str, ...] = (),
    variadic: bool = False,
) -> Arg:
    """A static argument, in the key by value.

    ``type`` is ``int``, ``float``, ``bool``, ``str``, ``number``, ``ints``, ``floats``, ``dtype``
    or ``device``. ``dtype`` is packed as the dtype's code and ``device`` not at all (ATTR_NONE).
    """
    return Arg(
        name,
        "static",
        type,
        default,
        modes=modes,
        keyword_only=keyword_only,
        aliases=aliases,
        variadic=variadic,
    )


def scalar(
    name: str,
    type: str = "float",
    default: Any = REQUIRED,
    *,
    keyword_only: bool = False,
) -> Arg:
    """A runtime scalar (``int``, ``float`` or ``number``): rides in the call, is in no key."""
    return Arg(name, "scalar", type, default, keyword_only=keyword_only)


def _checked(name: str, args: list[Arg], infer: Callable[..., Any]) -> Callable[..., Any]:
    """`infer` behind a look at schemes and dtypes of the tensor arguments, and at statics that must
    not be None, with bools as the integers that they stand for; runs on a miss only."""

    def rule(*given: Any) -> Any:
        values = list(given)
        for i, (arg, value) in enumerate(zip(args, given, strict=False)):
            if value is True or value is False:
                values[i] = int(value) if arg.kind == "static" and arg.type == "int" else value
            if value is None and arg.kind == "static" and not arg.modes and arg.default is not None:
                _refuse(f"{name}: {arg.name} must be of type {arg.type}, got None")
            if arg.kind != "tensor" or value is None:
                continue
            if arg.sequence and isinstance(value, Meta):
                raise TypeError(f"{name}: {arg.name} must be a sequence of tensors, got Tensor")
            for meta in value if arg.sequence else (value,):
                _check(name, arg, meta)
        return infer(*values)

    return told(name, rule)


def told(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with errors that name the operator, whichever part of it was refused."""

    @wraps(function)
    def named(*values: Any, **options: Any) -> Any:
        try:
            return function(*values, **options)
        except RuntimeError as error:
            from ..errors import ClikaRTError

            if not isinstance(error, ClikaRTError) or name in str(error):
                raise
            raise type(error)(f"{name}: {error}", error.code_name) from error

    return named


def _check(name: str, arg: Arg, meta: Meta) -> None:
    if meta.scheme != 0:
        if arg.packed:
            return
        problem = "is a packed weight, and the operator takes dense tensors; call dequantize first"
    elif arg.dtypes is None or meta.dtype.name in arg.dtypes:
        return
    else:
        problem = (
            f"has dtype {meta.dtype.name}, which the operator does not take; convert it with .to() "
            f"to one of {', '.join(sorted(arg.dtypes))}"
        )
    _refuse(f"{name}: {arg.name} {problem}")


def _refuse(message: str) -> None:
    from ..errors import InvalidArgumentError

    raise InvalidArgumentError(message)


def op(
    name: str,
    *,
    doc: str,
    args: list[Arg],
    infer: Callable[..., Any],
    **more: Any,
) -> Record:
    """Declare an operator. The first paragraph of ``doc`` is the summary with the formula."""
    if name in RECORDS:
        raise ValueError(f"operator '{name}' is declared twice")
    traits = frozenset(more.pop("traits", ()))
    for part in ("compose", "promote"):
        if more.get(part) is not None:
            more[part] = told(name, more[part])
    record = Record(name, doc, tuple(args), _checked(name, args, infer), traits, **more)
    RECORDS[name] = record
    return record
