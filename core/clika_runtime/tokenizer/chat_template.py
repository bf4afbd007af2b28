"""Chat templates: Jinja in a sandbox, with bounds on time, size and work.

A template comes with a checkpoint, so it is as hostile as any file. Jinja's immutable sandbox keeps
it from reaching Python; what the sandbox leaves open is cost. Here every loop iteration and macro
call takes from a budget and looks at the clock, and every operation that can make a large value
(``*``, ``~``, ``%``, padding, ``join``, ``replace``, filters) is measured before or right after it
runs, so no single step is long enough to escape the clock.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from clika_runtime.errors import ClikaRTError, InvalidArgumentError

if TYPE_CHECKING:
    import jinja2

__all__ = ["ChatTemplate", "ChatTemplateInputs", "parse_messages"]

MAX_TEMPLATE = 256 << 10  # characters of a template
MAX_OUTPUT = 32 << 20  # characters of a rendered prompt
MAX_VALUE = 32 << 20  # characters and items of any one value on the way
MAX_ITEMS = 1 << 20  # items of a list that a filter or a method makes
MAX_NODES = 1 << 21  # items of any one value, nested ones counted
MAX_WIDTH = 100_000  # of padding, indentation, truncation
MAX_BITS = 1 << 14  # of an integer
MAX_RANGE = 100_000  # items of one range()
MAX_WORK = 200 << 20  # units: a loop step or a call is 1, a new value its size
TIME_LIMIT = 5.0  # seconds

_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%", "**"))
_REASONING = ("reasoning_content", "thinking", "reasoning")
#: Marks where the final message ends. The space behind it tells whether the template trims.
_HERE = "END_OF_THE_FINAL_MESSAGE "
# Filters whose cost or effect cannot be bounded here, or that would make a prompt random.
_LEFT_OUT_FILTERS = ("pprint", "random", "urlize", "wordwrap", "xmlattr", "forceescape")
_DIGITS = re.compile(r"\d+")
_PERCENT_FIELD = re.compile(r"%(?:\([^()]*\))?[-#0 +]*[\d*]*(?:\.[\d*]*)?")
_BRACE_FIELD = re.compile(r"\{[^{}]*\}")
_NESTED_FIELD = re.compile(r"\{[^{}]*\{")


@dataclass
class ChatTemplateInputs:
    """Everything a template may read: a conversation and what goes with it.

    ``messages`` and ``tools`` are lists in the OpenAI shape or their JSON text. ``extra`` holds
    further variables (``enable_thinking`` and the like). ``now_epoch_seconds`` fixes the clock of
    ``strftime_now`` (local time).
    """

    messages: Any
    tools: Any = None
    documents: Any = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    now_epoch_seconds: float | None = None


def _refuse(problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"chat template: {problem}")


class _Exhausted(Exception):
    """A bound was passed. Not an error of the template's own making, so a template cannot test for
    it."""


class _Meter:
    """What one rendering may still spend."""

    __slots__ = ("deadline", "limit", "now", "work")

    def __init__(self, limit: float, now: float | None) -> None:
        self.work = MAX_WORK
        self.limit = limit
        self.deadline = time.monotonic() + limit
        self.now = now

    def charge(self, units: int) -> None:
        self.work -= units
        if self.work < 0:
            raise _Exhausted(f"the template does more work than the limit of {MAX_WORK} units")
        if time.monotonic() > self.deadline:
            raise _Exhausted(f"the template runs longer than the limit of {self.limit:g} seconds")


_active = threading.local()


def _charge(units: int) -> None:
    meter = getattr(_active, "meter", None)
    if meter is not None:
        meter.charge(units)


def _require(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise _Exhausted(f"{what} has a size of {size}, the limit is {limit}")


def _weigh(value: Any) -> int:
    """Characters and items of a value, nested ones counted as often as they would be printed."""
    if isinstance(value, (str, bytes)):
        return len(value) + 1
    total = count = 0
    stack = [value]
    while stack:
        item = stack.pop()
        count += 1
        total += 1
        if count > MAX_NODES or len(stack) > MAX_NODES:
            raise _Exhausted(f"a value has more than {MAX_NODES} items")
        if isinstance(item, (str, bytes)):
            total += len(item)
        elif isinstance(item, int):
            total += item.bit_length() >> 3
        elif isinstance(item, dict):
            total += len(item)
            stack.extend(item.values())
            stack.extend(item.keys())
        elif isinstance(item, (list, tuple, AbstractSet)) or type(item).__name__ in _VIEWS:
            total += len(item)
            stack.extend(item)
        elif type(item).__name__ == "Namespace":
            stack.append(dict(item._Namespace__attrs))
    return total


_VIEWS = frozenset(("dict_keys", "dict_values", "dict_items"))


def _checked(value: Any) -> Any:
    """Charge for a value that has just been made, and hand it on."""
    kind = type(value)
    if kind is str:
        size = len(value)
        if size > MAX_VALUE:
            raise _Exhausted(f"a string has {size} characters, the limit is {MAX_VALUE}")
        _charge(size + 1)
    elif kind is bool or value is None:
        _charge(1)
    elif kind is int:
        if value.bit_length() > MAX_BITS:
            raise _Exhausted(f"an integer has more than {MAX_BITS} bits")
        _charge(1)
    else:
        size = _weigh(value)
        if size > MAX_VALUE:
            raise _Exhausted(f"a value has a size of {size}, the limit is {MAX_VALUE}")
        _charge(size)
    return value


def _metered(values: Iterator[Any]) -> Iterator[Any]:
    for count, value in enumerate(values):
        _require(count, MAX_ITEMS, "the result of a filter")
        _charge(1)
        yield value


def _texts(values: Iterable[Any]) -> list[Any]:
    """The items of something that is to be joined, bounded."""
    items = list(itertools.islice(values, MAX_ITEMS + 1))
    _require(len(items), MAX_ITEMS, "a list to join")
    return items


def _check_joined(items: list[Any], separator: Any) -> None:
    size = len(items) * (_weigh(separator) + 1) + sum(map(_weigh, items))
    _require(size, MAX_VALUE, "a joined string")


def _check_width(*values: Any) -> None:
    for value in values:
        if isinstance(value, (int, float)) and not -MAX_WIDTH <= value <= MAX_WIDTH:
            raise _Exhausted(f"a width or count of {value} is over the limit of {MAX_WIDTH}")


def _check_replaced(text: Any, old: Any, new: Any) -> None:
    text, old, new = str(text), str(old), str(new)
    _require(len(text) + (text.count(old) + 1) * len(new), MAX_VALUE, "a replaced string")


def _check_format(text: Any, marker: str, args: Any) -> None:
    """Bound what ``%`` or ``str.format`` makes of a text: fields times arguments, plus widths."""
    template = str(text)
    if marker == "%":
        found = list(_PERCENT_FIELD.finditer(template))
        fields = [match.group() for match in found]
        # What follows a name with parentheses of its own is not seen by the pattern.
        taken = any(
            "*" in spec or (spec == "%" and template[match.end() : match.end() + 1] == "(")
            for spec, match in zip(fields, found, strict=True)
        )
    else:
        plain = template.replace("{{", "").replace("}}", "")
        fields = _BRACE_FIELD.findall(plain)
        taken = _NESTED_FIELD.search(plain) is not None
    if taken:
        raise _Exhausted("a format string takes its width from an argument")
    runs = [run for spec in fields for run in _DIGITS.findall(spec)]
    widths = sum(int(run) if len(run) < 10 else MAX_VALUE for run in runs)
    size = len(template) + len(fields) * _weigh(args) + widths
    _require(size, MAX_VALUE, "a formatted string")


def _check_method(text: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound a method of a string before it runs."""
    given = (*args, *kwargs.values())
    if isinstance(text, bytes) and name not in ("decode", "startswith", "endswith", "hex"):
        raise _Exhausted(f"the method {name} of bytes is not served")
    if name in ("center", "ljust", "rjust", "zfill"):
        _check_width(*given)
    elif name == "expandtabs":
        _check_width(*given)
        width = next((value for value in given if isinstance(value, int)), 8)
        _require(text.count("\t") * max(width, 0), MAX_VALUE, "an expanded string")
    elif name == "replace" and len(args) >= 2:
        _check_replaced(text, args[0], args[1])
    elif name == "join" and args and isinstance(args[0], (list, tuple)):
        _require(len(args[0]), MAX_ITEMS, "a list to join")
        _check_joined(list(args[0]), text)
    elif name == "translate":
        _require(len(text) * sum(map(_weigh, given)), MAX_VALUE, "a translated string")
    elif name in ("split", "rsplit", "splitlines"):
        # The longest list has an item per two characters, or per separator.
        separator = given[0] if given and isinstance(given[0], type(text)) and given[0] else None
        count = text.count(separator) if separator is not None else len(text) // 2
        if count > MAX_ITEMS:
            raise _Exhausted(f"a split makes up to {count} items, the limit is {MAX_ITEMS}")


def _check_filter(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound a filter before it runs; ``args[0]`` is the value."""
    value = args[0] if args else None
    rest = (*args[1:], *kwargs.values())
    if name in ("center", "indent", "truncate", "batch", "slice"):
        _check_width(*rest)
        if name == "indent":
            _check_replaced(value, "\n", " " * _indentation(rest))
    elif name == "round":
        for item in rest:
            if isinstance(item, int) and abs(item) > 100:
                raise _Exhausted(f"a precision of {item} is over the limit of 100")
    elif name == "replace" and len(rest) >= 2:
        _check_replaced(value, rest[0], rest[1])
    elif name == "format":
        _check_format(value, "%", rest)
    elif name == "sum":
        start = kwargs.get("start", args[2] if len(args) > 2 else 0)
        if not isinstance(start, (int, float)):
            raise _Exhausted("sum is served for numbers only")
    elif name in ("list", "sort", "unique", "groupby", "reverse") and isinstance(
        value, (str, bytes)
    ):
        _require(len(value), MAX_ITEMS, "a list of characters")
    elif name == "tojson":
        _check_width(*rest)
        # Indentation and separators may come with every item.
        extra = sum(
            len(i) if isinstance(i, str) else max(i, 0) for i in rest if isinstance(i, (int, str))
        )
        extra += sum(_weigh(item) for item in rest if isinstance(item, (list, tuple)))
        _require(_weigh(value) * (1 + extra), MAX_VALUE, "a JSON text")
    if name not in ("default", "d", "items", "first", "last", "length", "count"):
        _weigh(value)


def _indentation(values: Iterable[Any]) -> int:
    for value in values:
        if isinstance(value, str):
            return len(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(value, 0)
    return 4


def _bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    leading = 1 if getattr(function, "jinja_pass_arg", None) is not None else 0

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if name == "join" and len(args) > leading:
            return _join(function, leading, args, kwargs)
        _check_filter(name, args[leading:], kwargs)
        result = function(*args, **kwargs)
        if isinstance(result, Iterator):
            return _metered(result)
        return _checked(result)

    return run


def _join(
    function: Callable[..., Any], leading: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    items = _texts(args[leading])
    separator = kwargs.get("d", args[leading + 1] if len(args) > leading + 1 else "")
    _check_joined(items, separator)
    return _checked(function(*args[:leading], items, *args[leading + 1 :], **kwargs))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON. (Jinja's own filter escapes HTML characters, which a model has never seen.)"""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _range(*args: int) -> range:
    result = range(*args)
    if len(result) > MAX_RANGE:
        raise _Exhausted(f"a range has {len(result)} items, the limit is {MAX_RANGE}")
    return result


def _strftime_now(pattern: str) -> str:
    if len(pattern) > 1000:
        raise _Exhausted("the pattern of strftime_now is over 1000 characters")
    meter = getattr(_active, "meter", None)
    now = meter.now if meter is not None else None
    moment = datetime.datetime.now() if now is None else datetime.datetime.fromtimestamp(now)
    return moment.strftime(pattern)


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    """The one environment. Built at first use: jinja2 is not imported before a template is
    needed."""
    import jinja2
    import jinja2.ext
    import jinja2.nodes as nodes
    import jinja2.sandbox
    from jinja2.visitor import NodeTransformer

    def tick(units: int) -> nodes.ExprStmt:
        call = nodes.Call(nodes.EnvironmentAttribute("tick"), [nodes.Const(units)], [], None, None)
        return nodes.ExprStmt(call)

    def checked(node: Any, name: str = "checked") -> Any:
        call = nodes.Call(nodes.EnvironmentAttribute(name), [node], [], None, None)
        return call.set_lineno(node.lineno)

    class Instrument(NodeTransformer):
        """Puts the meter into the tree: a tick per iteration and call, a check per value put
        together."""

        def _body(self, node: Any) -> Any:
            # The text of one pass over the body is charged with its tick: it is appended unseen.
            size = 1 + sum(len(data.data) for data in node.find_all(nodes.TemplateData))
            self.generic_visit(node)
            node.body.insert(0, tick(size).set_lineno(node.lineno))
            return node

        visit_For = visit_Macro = visit_CallBlock = visit_Block = _body

        def visit_Concat(self, node: nodes.Concat) -> Any:
            self.generic_visit(node)
            return checked(nodes.List(node.nodes).set_lineno(node.lineno), "concatenate")

        def _literal(self, node: Any) -> Any:
            self.generic_visit(node)
            if getattr(node, "ctx", "load") != "load":
                return node
            children = list(node.iter_child_nodes())
            if all(isinstance(child, nodes.Const) for child in children):
                return node
            return checked(node)

        visit_List = visit_Dict = visit_Tuple = _literal

    class Generation(jinja2.ext.Extension):
        """``{% generation %}``: marks the assistant's words for training; here its body is all
        there is."""

        tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
        intercepted_binops = _ARITHMETIC

        tick = staticmethod(_charge)
        checked = staticmethod(_checked)

        @staticmethod
        def concatenate(values: list[Any]) -> str:
            _require(sum(map(_weigh, values)), MAX_VALUE, "a concatenated string")
            return "".join(map(str, values))

        def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> Any:
            return super()._generate(Instrument().visit(source), *args, **kwargs)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "*":
                if isinstance(left, (int, float)) and isinstance(right, (int, float)):
                    if isinstance(left, int) and isinstance(right, int):
                        bits = left.bit_length() + right.bit_length()
                        _require(bits, MAX_BITS, "a product (bits)")
                else:
                    times = next((v for v in (left, right) if isinstance(v, int)), 1)
                    body = right if isinstance(left, int) else left
                    _require(_weigh(body) * max(times, 0), MAX_VALUE, "a repeated value")
            elif operator == "**" and isinstance(left, int) and isinstance(right, int):
                bits = left.bit_length() * max(right, -right)
                _require(bits, MAX_BITS, "a power (bits)")
            elif operator == "%" and isinstance(left, (str, bytes)):
                _check_format(left, "%", right)
            elif operator == "+" and not isinstance(left, (int, float)):
                _require(_weigh(left) + _weigh(right), MAX_VALUE, "a sum")
            return _checked(super().call_binop(context, operator, left, right))

        def wrap_str_format(self, value: Any) -> Any:
            wrapper = super().wrap_str_format(value)
            if wrapper is None:
                return None

            def bounded(*args: Any, **kwargs: Any) -> str:
                _check_format(value.__self__, "{", [args, kwargs])
                result: str = _checked(wrapper(*args, **kwargs))
                return result

            return bounded

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
            owner = getattr(__obj, "__self__", None)
            name = getattr(__obj, "__name__", "")
            if isinstance(owner, (str, bytes)):
                if name == "join" and args and not isinstance(args[0], str):
                    args = (_texts(args[0]), *args[1:])
                _check_method(owner, name, args, kwargs)
            elif isinstance(owner, int) and name in ("to_bytes", "from_bytes"):
                raise _Exhausted(f"the method {name} of numbers is not served")
            elif isinstance(owner, (dict, list, tuple)) and not isinstance(owner, type):
                # What get, items and their like return is a part of what exists already.
                _charge(1)
                return super().call(__context, __obj, *args, **kwargs)
            elif __obj is _charge or __obj is _checked:
                return __obj(*args)
            return _checked(super().call(__context, __obj, *args, **kwargs))

    class Namespace(jinja2.utils.Namespace):
        """A namespace without private names."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            jinja2.utils.Namespace.__init__(*args, **kwargs)
            for name in object.__getattribute__(args[0], "_Namespace__attrs"):
                _check_name(name)

        def __setitem__(self, name: str, value: Any) -> None:
            _check_name(name)
            super().__setitem__(name, value)

    def _check_name(name: object) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold the name {name!r}")

    def raise_exception(message: object) -> None:
        raise jinja2.exceptions.TemplateError(str(message))

    @jinja2.pass_context
    def finalize(context: Any, value: Any) -> Any:
        return _checked(value)

    environment = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
        finalize=finalize,
        optimized=False,
        cache_size=0,
    )
    environment.filters["tojson"] = _to_json
    for name in _LEFT_OUT_FILTERS:
        environment.filters.pop(name, None)
    for name, function in list(environment.filters.items()):
        environment.filters[name] = _bounded_filter(name, function)
    environment.globals.pop("lipsum", None)
    environment.globals.update(
        namespace=Namespace,
        raise_exception=raise_exception,
        range=_range,
        strftime_now=_strftime_now,
    )
    return environment


def _shorten(error: BaseException) -> str:
    text = str(error)
    return text if len(text) <= 500 else text[:497] + "..."


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """Rebuild a value out of plain JSON types, so that a template meets no other object of
    Python."""
    if value is None or type(value) in (str, bool, int, float):
        return value
    if depth > 64:
        raise InvalidArgumentError(f"apply_chat_template: {where} is nested deeper than 64 levels")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, where, depth + 1) for item in value]
    raise InvalidArgumentError(
        f"apply_chat_template: {where} may hold strings, numbers, bools, None, lists and dicts, "
        f"found {type(value).__name__}"
    )


def _parse_list(value: Any, where: str) -> list[dict[str, Any]]:
    if isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                f"apply_chat_template: {where} is not valid JSON: {_shorten(error)}"
            ) from error
    if not isinstance(value, (list, tuple)):
        raise InvalidArgumentError(
            f"apply_chat_template: {where} must be a list of objects, found {type(value).__name__}"
        )
    for index, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise InvalidArgumentError(
                f"apply_chat_template: {where}[{index}] must be an object, found "
                f"{type(item).__name__}"
            )
    result: list[dict[str, Any]] = _plain(value, where)
    return result


def parse_messages(messages: Any) -> list[dict[str, Any]]:
    """A conversation as a list of plain dicts, from such a list or from its JSON text.

    Every message is an object with a string ``role``; a value of None is left out of it, since
    templates test for presence. Reasoning has two names in templates, ``reasoning_content`` and
    ``thinking``: a message with one (or with ``reasoning``) has both. Errors:
    ``InvalidArgumentError`` naming the message.
    """
    result = []
    for index, message in enumerate(_parse_list(messages, "messages")):
        if not isinstance(message.get("role"), str):
            raise InvalidArgumentError(
                f"apply_chat_template: messages[{index}] needs a string 'role', found "
                f"{message.get('role')!r}"
            )
        kept = {key: value for key, value in message.items() if value is not None}
        reasoning = next((kept[name] for name in _REASONING if name in kept), None)
        if reasoning is not None:
            kept = {"thinking": reasoning, **kept, "reasoning_content": reasoning}
        result.append(kept)
    return result


def _mark_end(messages: list[dict[str, Any]]) -> None:
    """Put the mark behind the text of the last message."""
    content = messages[-1].get("content") if messages else None
    if isinstance(content, str):
        messages[-1]["content"] = content + _HERE
        return
    for part in reversed(content if isinstance(content, list) else []):
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part["text"] += _HERE
            return
    raise InvalidArgumentError(
        "apply_chat_template: continue_final_message needs a last message with text"
    )


def _cut_at_mark(text: str) -> str:
    at = text.rfind(_HERE.strip())
    if at < 0:
        raise InvalidArgumentError(
            "apply_chat_template: continue_final_message: the template leaves out the end of the "
            "last message"
        )
    spaced = text.startswith(_HERE, at)
    return text[:at] if spaced else text[:at].rstrip()


class ChatTemplate:
    """A compiled chat template.

    ``source`` is Jinja text. Compilation and rendering never run Python code of the template's
    choice and end within ``time_limit`` seconds (default 5). Errors: ``InvalidArgumentError`` for a
    template that does not compile, that raises (``raise_exception``), or that passes a bound.

    >>> ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}").render(
    ...     [{"role": "user", "content": "Hi"}])
    'user: Hi\\n'
    """

    __slots__ = ("_template", "source", "time_limit")

    def __init__(self, source: str, *, time_limit: float = TIME_LIMIT) -> None:
        if not isinstance(source, str):
            raise _refuse(f"the template must be a string, found {type(source).__name__}")
        if len(source) > MAX_TEMPLATE:
            raise _refuse(f"the template has {len(source)} characters, the limit is {MAX_TEMPLATE}")
        self.source = source
        self.time_limit = time_limit
        try:
            self._template = _environment().from_string(source)
        except ImportError:
            raise
        except Exception as error:
            line = getattr(error, "lineno", None)
            at = f"line {line}: " if line else ""
            raise _refuse(f"does not compile: {at}{_shorten(error)}") from error

    def __repr__(self) -> str:
        return f"ChatTemplate({len(self.source)} characters)"

    def reads(self, name: str) -> bool:
        """Whether the template reads a variable of this name.

        >>> ChatTemplate("{{ tools }}").reads("tools"), ChatTemplate("tools").reads("tools")
        (True, False)
        """
        from jinja2 import nodes

        tree = _environment().parse(self.source)
        return any(node.name == name and node.ctx == "load" for node in tree.find_all(nodes.Name))

    def loops_over(self, name: str) -> bool:
        """Whether the template takes a member (or a variable) of this name apart: loops over it, or
        reads an item of it.

        >>> ChatTemplate("{% for p in m.content %}{{ p.text }}{% endfor %}").loops_over("content")
        True
        >>> ChatTemplate("{{ m.content }}").loops_over("content")
        False
        """
        from jinja2 import nodes

        def named(node: nodes.Node) -> bool:
            if isinstance(node, nodes.Getitem):
                return isinstance(node.arg, nodes.Const) and node.arg.value == name
            if isinstance(node, nodes.Getattr):
                return bool(node.attr == name)
            return isinstance(node, nodes.Name) and node.name == name

        kinds = (nodes.Getitem, nodes.Getattr, nodes.Name)
        tree = _environment().parse(self.source)
        loops = [loop.iter for loop in tree.find_all(nodes.For)]
        if any(named(node) or any(map(named, node.find_all(kinds))) for node in loops):
            return True
        items = [item for item in tree.find_all(nodes.Getitem) if item.ctx == "load"]
        return any(
            isinstance(item.arg, nodes.Const) and type(item.arg.value) is int and named(item.node)
            for item in items
        )

    def render(
        self,
        messages: Any,
        *,
        add_generation_prompt: bool = True,
        tools: Any = None,
        documents: Any = None,
        special_tokens: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        continue_final_message: bool = False,
        now_epoch_seconds: float | None = None,
    ) -> str:
        """The prompt of a conversation.

        ``messages`` is a list of message dicts or its JSON text, or a ``ChatTemplateInputs`` that
        brings all the other arguments. The template sees ``messages``, ``tools``, ``documents``,
        ``add_generation_prompt``, the special tokens by name (``bos_token``, ...) and ``extra``.
        ``continue_final_message`` ends the prompt with the last message's text, for the model to go
        on with it; no new turn begins then.
        """
        if isinstance(messages, ChatTemplateInputs):
            inputs = messages
            return self.render(
                inputs.messages,
                add_generation_prompt=inputs.add_generation_prompt,
                continue_final_message=inputs.continue_final_message,
                tools=inputs.tools,
                documents=inputs.documents,
                special_tokens=special_tokens,
                extra=inputs.extra,
                now_epoch_seconds=inputs.now_epoch_seconds,
            )
        variables: dict[str, Any] = dict(special_tokens or {})
        variables.update(_plain(dict(extra or {}), "extra"))
        conversation = parse_messages(messages)
        if continue_final_message:
            add_generation_prompt = False
            _mark_end(conversation)
        variables.update(
            messages=conversation,
            tools=None if tools is None else _parse_list(tools, "tools"),
            documents=None if documents is None else _parse_list(documents, "documents"),
            add_generation_prompt=bool(add_generation_prompt),
        )
        text = self._run(variables, now_epoch_seconds)
        return _cut_at_mark(text) if continue_final_message else text

    def _run(self, variables: dict[str, Any], now: float | None) -> str:
        outer = getattr(_active, "meter", None)
        _active.meter = _Meter(self.time_limit, now)
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(variables):
                size += len(piece)
                if size > MAX_OUTPUT:
                    raise _Exhausted(
                        f"the prompt is longer than the limit of {MAX_OUTPUT} characters"
                    )
                _active.meter.charge(1)
                pieces.append(piece)
        except ClikaRTError:
            raise
        except _Exhausted as error:
            raise _refuse(str(error)) from error
        except RecursionError as error:
            raise _refuse("the template calls itself too deeply") from error
        except MemoryError as error:
            raise _refuse("the template runs out of memory") from error
        except Exception as error:  # whatever the template's own operations raise
            raise _refuse(f"{_shorten(error) or type(error).__name__}") from error
        finally:
            _active.meter = outer
        return "".join(pieces)
