"""The text of ``help(operator)``, from its record. The reference page is made of the same parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes
from ._examples import EXAMPLES
from ._promotion import ALL, FLOATS, INTS, NUMBERS
from .record import REQUIRED

if TYPE_CHECKING:
    from .record import Arg, Record

__all__ = ["call_of", "dtypes_of", "kind_of", "result_of", "text_of"]


def default_of(arg: Arg) -> str:
    value = arg.default
    return f"crt.{value.name}" if isinstance(value, dtypes.dtype) else repr(value)


def result_of(record: Record) -> str:
    if record.outputs == 1:
        return "Tensor"
    if record.outputs == 0:  # as many as the rule gives
        return "tuple[Tensor, ...]"
    return f"tuple[{', '.join(['Tensor'] * record.outputs)}]"


def call_of(record: Record) -> str:
    """``name(arguments)``, as it is called."""
    found = []
    named = False  # has the bare * or a *shape been written?
    for arg in record.args:
        if arg.keyword_only and not named:
            found.append("*")
            named = True
        if arg.variadic:
            found.append(f"*{arg.name}")
            named = True
        else:
            given = "" if arg.default is REQUIRED else f"={default_of(arg)}"
            found.append(f"{arg.name}{given}")
    return f"{record.name}({', '.join(found)})"


def kind_of(arg: Arg) -> str:
    """What an argument is: ``tensor or number``, ``ints``, the words of a mode."""
    if arg.kind == "tensor":
        text = "list of tensors" if arg.sequence else "tensor"
        if arg.number:
            text += " or number"
        if arg.packed:
            text += ", dense or packed"
        return text + (", may be None" if arg.optional else "")
    text = " or ".join(f"`{mode}`" for mode in arg.modes) if arg.modes else arg.type
    return text if arg.kind == "static" else f"{text}, read at run time"


def dtypes_of(arg: Arg) -> str:
    if arg.kind != "tensor":
        return ""
    if arg.dtypes is None:
        return "any"
    return ", ".join(dtype.name for dtype in dtypes.ALL if dtype.name in arg.dtypes)


_SETS = {
    ALL: "integers, floats and bool",
    NUMBERS: "integers and floats",
    FLOATS: "floats",
    INTS: "integers",
    None: "any dtype",
}


def _argument(arg: Arg) -> str:
    parts = [kind_of(arg)]
    if arg.kind == "tensor":
        parts.append(_SETS.get(arg.dtypes) or dtypes_of(arg))
    if arg.default is not REQUIRED:
        parts.append(f"default {default_of(arg)}")
    if arg.aliases:
        parts.append(f"also {', '.join(arg.aliases)}")
    return f"    {arg.name}: {'; '.join(parts)}"


_MEANING = {"INVALID_ARGUMENT": "InvalidArgumentError, an argument breaks a rule"}
_ALWAYS = (
    "    NOT_IMPLEMENTED_FOR_DTYPE: UnsupportedError, the device has no kernel for the dtypes",
    "    OUT_OF_MEMORY: OutOfMemoryError, no memory for the result",
    "    TypeError: an argument of another type",
)


def _raised(code: str) -> str:
    return f"    {code}: {_MEANING[code]}" if code in _MEANING else f"    {code}"


def text_of(record: Record) -> str:
    """The call, summary with formula, text, arguments with defaults, errors, example and source."""
    doc = "\n".join(line.strip() for line in record.doc.split("\n"))
    parts = [record.summary]
    if record.front is None:  # a front has a signature of its own
        parts.insert(0, f"{call_of(record)} -> {result_of(record)}")
    if doc:
        parts.append(doc)
    if record.args:
        parts.append("\n".join(["Arguments:", *map(_argument, record.args)]))
    parts.append("\n".join(["Errors:", *map(_raised, record.codes), *_ALWAYS]))
    example: Any = EXAMPLES.get(record.name)
    if example:
        parts.append("\n".join(["Example:", *(f"    {line}" for line in example.split("\n"))]))
    if record.source:
        parts.append(f"Source: {record.source}.")
    return "\n\n".join(parts)
