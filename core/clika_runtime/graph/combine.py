"""Joining graphs into one, and taking one apart.

Every call builds new graphs from copies of nodes and consumes its sources only once they are whole,
so a refused call leaves all of them as they were.

Sizes. A dynamic size of one part is none of another part's, also under the same name, until a
connection makes them equal. The sizes at both ends of every connection are equations; a size that
stands alone on one side takes what the other side says (a fixed size, or an expression), which then
holds wherever it occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import dtypes
from .._native._core import Port, SymInt, device_number, device_of
from ..errors import InvalidArgumentError
from .edits import PRECONDITION
from .opcode import MOVE, NameKind
from .queries import ValueCut
from .strides import restride

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .._native._graph import Node, Value
    from .model_graph import ModelGraph

IO_NAMES = ("prefix_on_collision", "prefix_always", "keep")
CROSS_DEVICE = ("move", "refuse")


@dataclass(frozen=True)
class Rename:
    """A name that a merge changed: of a node, an input or an output of ``part``."""

    part: str
    kind: NameKind
    from_: str
    to: str


class _Sizes:
    """The sizes of several parts as expressions of one recording, with what connections say."""

    def __init__(self, parts: Sequence[tuple[str, Any]]) -> None:
        from .model_graph import ModelGraph

        self.parts = parts
        self.holder = ModelGraph("sizes")  # owns the recording
        self.tracer = self.holder._tracer
        self.bounds: dict[str, tuple[int, int]] = {}
        self.bound: dict[str, int] = {}  # symbol -> what it is
        self.names: dict[int, str] = {}  # encoded symbol -> its name here
        self.given: list[dict[str, int]] = []  # per part: its symbols here
        for index, (_, part) in enumerate(parts):
            own = {}
            symbols = part._tracer.symbols()
            for name, (low, high) in zip(symbols, part._tracer.symbol_bounds(), strict=True):
                here = f"{index}:{name}"
                own[name] = self.tracer.encoded(self.tracer.symbol(here, low, high))
                self.bounds[here] = (low, high)
                self.names[own[name]] = here
            self.given.append(own)

    def of(self, part: int, size: int) -> int:
        """A size of a part, as far as it is known."""
        here = self.tracer.taken(self.parts[part][1]._tracer, size, self.given[part])
        return self._known(here)

    def _known(self, size: int) -> int:
        found: int = self.tracer.taken(self.tracer, size, self.bound)
        return found

    def equate(self, what: str, pairs: list[tuple[int, int]]) -> None:
        """Makes both sizes of each pair equal. Raises where they cannot be."""
        while pairs:
            waiting = [pair for pair in pairs if not self._settle(what, *pair)]
            if len(waiting) == len(pairs) and not self._same_names(what, waiting):
                one, other = (self.tracer.size(self._known(size)) for size in waiting[0])
                raise InvalidArgumentError(
                    f"{what} joins the sizes {self._text(one)} and {self._text(other)}, which are "
                    "not known to be equal"
                )
            pairs = waiting

    def _settle(self, what: str, one: int, other: int) -> bool:
        one, other = self._known(one), self._known(other)
        if one == other:
            return True
        if one >= 0 and other >= 0:
            raise InvalidArgumentError(f"{what} joins the sizes {one} and {other}")
        for symbol, size in ((other, one), (one, other)):
            name = self.names.get(symbol)
            if name is not None and self.tracer.taken(self.tracer, size, {name: 1}) == size:
                self._bind(what, name, size)
                return True
        return False

    def _bind(self, what: str, name: str, size: int) -> None:
        low, high = self.bounds[name]
        found = self.tracer.size(size)
        least, most = found.bounds() if isinstance(found, SymInt) else (found, found)
        other = self.names.get(size)
        if other is not None:
            least, most = self.bounds[other]
        if most < low or least > high:
            raise InvalidArgumentError(
                f"{what} joins a size between {low} and {high} to {self._text(found)}"
            )
        if other is not None:
            self.bounds[other] = (max(low, least), min(high, most))
        one = {name: size}
        self.bound = {
            key: self.tracer.taken(self.tracer, value, one) for key, value in self.bound.items()
        }
        self.bound[name] = size

    def _same_names(self, what: str, pairs: list[tuple[int, int]]) -> bool:
        """Tries, for expressions that nothing else settles, that symbols of one name are one size:
        parts of one graph share its names."""
        for one, other in pairs:
            one, other = self._known(one), self._known(other)
            left, right = self._symbols(one), self._symbols(other)
            for label, name in left.items():
                twin = right.get(label)
                if twin is not None and twin != name:
                    self._bind(what, twin, self._encoded(name))
            if self._known(one) == self._known(other):
                return True
        return False

    def _symbols(self, size: int) -> dict[str, str]:
        """The symbols of a size by the names that their parts know them by."""
        return {
            name.partition(":")[2]: name
            for name in self.bounds
            if self.tracer.taken(self.tracer, size, {name: 1}) != size
        }

    def _encoded(self, name: str) -> int:
        low, high = self._made(name)
        found: int = self.tracer.encoded(self.tracer.symbol(name, low, high))
        return found

    def _made(self, name: str) -> tuple[int, int]:
        """The bounds that a symbol was made with."""
        index, _, label = name.partition(":")
        tracer = self.parts[int(index)][1]._tracer
        bounds: tuple[int, int] = tracer.symbol_bounds()[tracer.symbols().index(label)]
        return bounds

    def _text(self, size: Any) -> str:
        text = repr(size)
        for name in sorted(self.bounds, key=len, reverse=True):
            index, _, label = name.partition(":")
            text = text.replace(name, f"{self.parts[int(index)][0]}.{label}")
        return text

    def into(self, target: Any, home: int = -1) -> list[dict[str, int]]:
        """Per part: its symbols as sizes of ``target``, a tracer that is the recording of part
        ``home``. A symbol keeps its name where no other has it."""
        free = [name for name in self.bounds if name not in self.bound]
        labels = [name.partition(":")[2] for name in free]
        taken = set(target.symbols())
        final = {}
        for name, label in zip(free, labels, strict=True):
            index = int(name.partition(":")[0])
            low, high = self.bounds[name]
            if index == home and (low, high) == self._made(name):
                chosen = label
            else:
                chosen = label
                if labels.count(label) > 1 or label in taken:
                    chosen = f"{self.parts[index][0]}/{label}"
                count = 0
                while chosen in taken:
                    count += 1
                    chosen = f"{self.parts[index][0]}/{label}_{count}"
                taken.add(chosen)
            final[name] = target.encoded(target.symbol(chosen, low, high))
        return [
            {
                name: target.taken(self.tracer, self._known(size), final)
                for name, size in own.items()
            }
            for own in self.given
        ]


class _Copy:
    """Copies values and nodes of one graph into another. ``values`` maps what is copied; a value
    that is not in it yet is made when it is asked for."""

    def __init__(
        self,
        target: Any,
        source: Any,
        given: dict[str, int] | None = None,
        device: int | None = None,
    ) -> None:
        self.target = target
        self.source = source
        self.given = given or {}
        self.device = device
        self.values: dict[int, int] = {}
        self.elsewhere: dict[int, Callable[[], int]] = {}  # values that others make
        self.exact: dict[int, int] = {}  # sizes that stand for themselves
        self.entered: set[int] = set()  # values that are inputs of the target
        self._sizes: dict[int, int] = {}

    def size(self, size: int) -> int:
        if size >= 0:
            return size
        if size not in self._sizes:
            self._sizes[size] = self._size(size)
        return self._sizes[size]

    def _size(self, size: int) -> int:
        if size in self.exact:
            return self.exact[size]
        own, tracer = self.source._tracer, self.target._tracer
        for known, stands in self.exact.items():  # a multiple of one
            quotient = own.size(size) // own.size(known)
            if quotient * own.size(known) == own.size(size):
                rest = tracer.size(self.size(own.encoded(quotient)))
                found: int = tracer.encoded(tracer.size(stands) * rest)
                return found
        found = tracer.taken(own, size, self.given)
        symbolic = tracer.size(found)
        if isinstance(symbolic, SymInt) and symbolic.bounds()[1] < 0:
            raise InvalidArgumentError(
                f"merge: the size {own.size(size)!r} would be {symbolic!r}, which is negative"
            )
        return found

    def shape(self, value: int) -> tuple[int, ...]:
        return tuple(self.size(size) for size in self.source.meta(value)[3])

    def place(self, value: int) -> int:
        """The device of a value in the target."""
        found: int = self.source.meta(value)[2] if self.device is None else self.device
        return found

    def value(self, value: int) -> int:
        path = []
        at = value
        while at >= 0 and at not in self.values:  # what it shares bytes with comes first
            if at in self.elsewhere:
                self.values[at] = self.elsewhere[at]()
                break
            path.append(at)
            at = -1 if self.source.producer_id(at)[0] < 0 else self.source.meta(at)[4]
        for item in reversed(path):
            self.values[item] = self._make(item)
        return self.values[value]

    def _make(self, value: int) -> int:
        source, target = self.source, self.target
        node, port = source.producer_id(value)
        if node < 0:
            return self.constant(value)
        dtype, scheme, _, _, alias, write = source.meta(value)
        label = source.value_name(value)
        named = source.op(node) and label != f"{source.node_name(node)}_{port}"
        made: int = target.add_value(
            dtype,
            scheme,
            self.place(value),
            self.shape(value),
            self.value(alias) if alias >= 0 else -1,
            write,
            label if named and target.constant_id(label) < 0 else "",
        )
        steps = source._tracer.steps(value)
        if steps is not None:
            target._tracer.adopt(made, -1, [self.size(step) for step in steps])
        return made

    def constant(self, value: int) -> int:
        """A constant over the same bytes; one that is there already where it is the same."""
        source, target = self.source, self.target
        count = target.counts_of()[0]
        found: int = target._tracer.captured(source._constants[value])
        if found >= count:
            if source.value_is_alive(value):
                label = source.value_name(value)
                if target.constant_id(label) < 0:
                    target.name_value(found, label)
            if self.device is not None:
                target.place_value(found, self.device)
        return found

    def argument(self, value: Any) -> Any:
        if isinstance(value, SymInt):
            return self.target._tracer.size(self.size(self.source._tracer.encoded(value)))
        if isinstance(value, (list, tuple)):
            return type(value)([self.argument(item) for item in value])
        return value

    def node(self, node: int, name: str) -> int:
        """An operator under a name."""
        source, target = self.source, self.target
        results = [
            self._make(value) if value in self.entered else self.value(value)
            for value in source.results(node)
        ]
        reads = [self.value(value) if value >= 0 else -1 for value in source.ports(node)]
        made: int = target.make_node(source.op(node), name, reads, results)
        target._operators += 1
        target._calls[made] = [self.argument(value) for value in source._calls.get(node, [])]
        if node in source._extras:
            target._extras[made] = dict(source._extras[node])
        if node in source._bodies:
            target._bodies[made] = source._bodies[node]
        return made

    def input(self, value: int, name: str) -> int:
        """An input of the target for a value of the source."""
        dtype, scheme, _, _, _, _ = self.source.meta(value)
        made: int = self.target.add_value(dtype, scheme, self.place(value), self.shape(value))
        self.target.make_node("", name, [], [made])
        self.values[value] = made
        self.entered.add(value)
        return made

    def settle(self) -> None:
        """Strides of views of what entered: it may lie otherwise here than in the source."""
        values = [self.values[value] for value in self.entered]
        values += [self.values[value] for value in self.elsewhere if value in self.values]
        uses = [use for value in values for use in self.target.use_list(value)]
        restride(self.target, [node for node, _ in uses])

    def facts(self) -> None:
        """What else the source knows: captured tensors that runs rewrite, sizes it was traced
        with."""
        self.settle()
        tracer = self.target._tracer
        bounds = zip(tracer.symbols(), tracer.symbol_bounds(), strict=True)
        names = {tracer.encoded(tracer.symbol(name, *span)): name for name, span in list(bounds)}
        for name, size in self.source._pinned.items():
            here = names.get(self.given.get(name, 0), None if self.given else name)
            if here is not None and here in names.values():
                self.target._pinned.setdefault(here, size)
        for value, root in self.source._states.items():
            if value in self.values and self.source.value_is_alive(value):
                self.target._states[self.values[value]] = self.constant(root)


def _consume(graph: Any) -> None:
    """Empties a graph whose nodes others have now."""
    graph.set_output_list([])
    for node in reversed(graph.node_ids()):
        graph.drop_node(node)
    for value in list(graph._constants):
        if graph.value_is_alive(value):
            graph.drop_value(value)
    for held in (graph._calls, graph._constants, graph._extras, graph._bodies, graph._states):
        held.clear()
    graph.consumed = True


def _check_source(call: str, what: str, graph: Any) -> None:
    """Whether a call can take a graph's nodes."""
    from .model_graph import ModelGraph

    if not isinstance(graph, ModelGraph):
        raise TypeError(f"{call}: {what} must be a ModelGraph, got {type(graph).__name__}")
    if graph.consumed:
        raise InvalidArgumentError(
            f"{call}: {what} no longer exists (a merge, a split or an extract consumed it)"
        )
    if graph.is_finalized():
        raise InvalidArgumentError(
            f"{call}: {what} is finalized; {call} before finalize()", PRECONDITION
        )
    graph._check_idle(call)


def _check_part_name(call: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{call}: the name of a part must be a str, got {type(name).__name__}")
    if not name or "/" in name or "." in name:
        raise InvalidArgumentError(
            f"{call}: {name!r} names no part; a name is not empty and holds no '/' and no '.'"
        )
    return name


def _check_choice(argument: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidArgumentError(f"merge: {argument} must be one of {listed}, got {value!r}")


def _pairs(what: str, given: Any) -> list[tuple[Any, Any]]:
    items = list(given.items()) if hasattr(given, "items") else list(given)
    for item in items:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise TypeError(f"merge: {what} must hold pairs, got {item!r}")
    return [(item[0], item[1]) for item in items]


@dataclass(frozen=True)
class _Link:
    """A connection: part and name of an output, part and name of an input."""

    source: int
    output: str
    target: int
    input: str
    text: str


class _Merge:
    """The checks that both forms of merge share."""

    def __init__(self, parts: list[tuple[str, Any]], links: list[_Link], cross_device: str) -> None:
        self.parts = parts
        self.links = links
        seen: dict[tuple[int, str], _Link] = {}
        for link in links:
            source, target = parts[link.source][1], parts[link.target][1]
            if link.output not in source.output_names():
                raise InvalidArgumentError(
                    f"merge: part '{parts[link.source][0]}' has no output '{link.output}'"
                )
            if link.input not in target.input_names():
                raise InvalidArgumentError(
                    f"merge: part '{parts[link.target][0]}' has no input '{link.input}'"
                )
            other = seen.setdefault((link.target, link.input), link)
            if other is not link:
                raise InvalidArgumentError(
                    f"merge: the connections {other.text} and {link.text} feed one input"
                )
        self.outputs = {(link.source, link.output) for link in links}
        self.inputs = seen
        self._ends = {link: self._found(link) for link in links}
        self.devices, self.placed = self._placement()
        self.sizes = _Sizes(parts)
        for link in links:
            self._equate(link, cross_device)

    def _placement(self) -> tuple[list[int | None], Any]:
        """(device of each part that has one of its own, where the merged graph is placed)."""
        wanted = [part._placed for _, part in self.parts]
        if all(device == wanted[0] for device in wanted):
            return [None] * len(wanted), wanted[0]
        return [None if device is None else device_number(device) for device in wanted], None

    def ends(self, link: _Link) -> tuple[int, int]:
        """(value that a connection takes, value of the input that it feeds)."""
        return self._ends[link]

    def _found(self, link: _Link) -> tuple[int, int]:
        source, target = self.parts[link.source][1], self.parts[link.target][1]
        value = dict(source.output_list())[link.output]
        return value, target.results(target.node_id(link.input))[0]

    def device(self, part: int, value: int) -> int:
        own = self.devices[part]
        found: int = self.parts[part][1].meta(value)[2] if own is None else own
        return found

    def _equate(self, link: _Link, cross_device: str) -> None:

        source, target = self.parts[link.source][1], self.parts[link.target][1]
        value, fed = self.ends(link)
        dtype, scheme, _, shape, _, _ = source.meta(value)
        wanted, other_scheme, _, dims, _, _ = target.meta(fed)
        if dtype != wanted or scheme != other_scheme:
            raise InvalidArgumentError(
                f"merge: the connection {link.text} joins {dtypes.by_code(dtype).name} to "
                f"{dtypes.by_code(wanted).name}"
            )
        if len(shape) != len(dims):
            raise InvalidArgumentError(
                f"merge: the connection {link.text} joins {len(shape)} dims to {len(dims)}"
            )
        one, other = self.device(link.source, value), self.device(link.target, fed)
        if one != other and self.placed is None and cross_device == "refuse":
            raise InvalidArgumentError(
                f"merge: the connection {link.text} goes from {device_of(one)} to "
                f"{device_of(other)}, which cross_device='refuse' refuses"
            )
        self.sizes.equate(
            f"merge: the connection {link.text}",
            [
                (self.sizes.of(link.source, a), self.sizes.of(link.target, b))
                for a, b in zip(shape, dims, strict=True)
            ],
        )

    def connect(self, copies: Sequence[Any]) -> None:
        """Tells each copy where the values of its connected inputs come from."""
        moved: dict[tuple[int, int], int] = {}
        on_the_way: set[_Link] = set()

        def fetch(link: _Link) -> int:
            if link in on_the_way:
                raise InvalidArgumentError(
                    f"merge: the connection {link.text} feeds a part with its own result"
                )
            on_the_way.add(link)
            value, fed = self.ends(link)
            found: int = copies[link.source].value(value)
            on_the_way.discard(link)
            device = self.device(link.target, fed)
            if self.placed is not None or self.device(link.source, value) == device:
                return found
            if (found, device) not in moved:
                moved[found, device] = _move(copies[0].target, found, device)
            return moved[found, device]

        for link in self.links:
            _, fed = self.ends(link)
            copies[link.target].elsewhere[fed] = lambda link=link: fetch(link)

    def check_result(self, target: Any, copies: Sequence[Any]) -> None:
        """Refuses a cycle, and bytes that two parts write."""
        for link in self.links:
            copies[link.target].value(self.ends(link)[1])
        if not target.is_acyclic():
            raise InvalidArgumentError("merge: the connections close a cycle of operators")
        writers: dict[int, str] = {}
        root_of = target.root_id
        for (name, part), copy in zip(self.parts, copies, strict=True):
            if not part._has_writes():
                continue
            roots = {
                root_of(copy.value(value)) for value in part._writes if part.value_is_alive(value)
            }
            for root in roots:
                if target.producer_id(root)[0] < 0 and writers.setdefault(root, name) != name:
                    raise InvalidArgumentError(
                        f"merge: parts '{writers[root]}' and '{name}' both write to one captured "
                        "tensor; what a run would leave there is not defined"
                    )


def _move(target: Any, value: int, device: int) -> int:
    """A copy of a value on another device."""

    dtype, scheme, _, shape, _, _ = target.meta(value)
    (made,) = target._add_operator(
        MOVE, [Port(0)], [value], [(dtype, scheme, device, shape, -1, False)]
    )
    target._extras[target.producer_id(made)[0]] = {"device": str(device_of(device))}
    found: int = made
    return found


def merge(
    parts: Mapping[str, ModelGraph] | Sequence[tuple[str, ModelGraph]],
    connections: Iterable[tuple[str, str]] = (),
    *,
    io_names: str = "prefix_on_collision",
    cross_device: str = "move",
) -> tuple[ModelGraph, list[Rename]]:
    """One graph that runs every part, and the names that changed. It consumes the parts.

    ``connections`` feed an output of one part into an input of another, as ("encoder.h", "head.h");
    neither is the merged graph's any longer. Both ends have one dtype and one rank, and a dynamic
    size takes what the other end says. Operators are named ``<part>/<node>``. ``io_names`` decides
    about inputs and outputs: ``prefix_on_collision`` prefixes names that several parts use,
    ``prefix_always`` every name, ``keep`` none. A connection between two devices moves its value;
    ``cross_device="refuse"`` refuses it. Constants over the same bytes become one.

    Raises `InvalidArgumentError`; every part is then as it was.

    >>> import clika_runtime as crt
    >>> def part(name):
    ...     spec = crt.TensorSpec(name, crt.float32, [2])
    ...     return crt.trace(lambda t: [crt.relu(t[0])], [spec]).graph
    >>> merged, renames = merge({"a": part("x"), "b": part("z")}, [("a.output_0", "b.z")])
    >>> [node.name for node in merged.nodes()], merged.output_names()
    (['x', 'a/Relu_1', 'b/Relu_1'], ['output_0'])
    """
    from .model_graph import ModelGraph

    _check_choice("io_names", io_names, IO_NAMES)
    _check_choice("cross_device", cross_device, CROSS_DEVICE)
    listed = _pairs("parts", parts)
    names: list[str] = []
    for name, part in listed:
        if _check_part_name("merge", name) in names:
            raise InvalidArgumentError(f"merge: two parts have the name '{name}'")
        names.append(name)
        _check_source("merge", f"part '{name}'", part)
    if not listed:
        raise InvalidArgumentError("merge: there is no part to merge")
    if len({id(part) for _, part in listed}) < len(listed):
        raise InvalidArgumentError("merge: one graph stands for two parts")
    links = []
    for source, fed in _pairs("connections", connections):
        ends = []
        for end in (source, fed):
            if not isinstance(end, str):
                raise TypeError(f"merge: a connection joins two strings, got {end!r}")
            name, dot, label = end.partition(".")
            if not dot or name not in names:
                raise InvalidArgumentError(
                    f"merge: {end!r} names no part and value; the parts are {names}, and a "
                    "connection is such as ('part.output', 'part.input')"
                )
            ends.append((names.index(name), label))
        links.append(_Link(*ends[0], *ends[1], f"{source} -> {fed}"))

    plan = _Merge(listed, links, cross_device)
    inputs = _io_names("input", listed, plan.inputs, io_names, lambda part: part.input_names())
    outputs = _io_names("output", listed, plan.outputs, io_names, lambda part: part.output_names())
    target: Any = ModelGraph("merged")
    target._placed = plan.placed
    target._from_file = all(part._from_file for _, part in listed)
    given = plan.sizes.into(target._tracer)
    copies = [
        _Copy(target, part, given[index], plan.devices[index])
        for index, (_, part) in enumerate(listed)
    ]
    plan.connect(copies)
    renames = []
    for index, (name, part) in enumerate(listed):
        for node in part.input_ids():
            label = part.node_name(node)
            if (index, label) in inputs:
                new = inputs[index, label]
                copies[index].input(part.results(node)[0], new)
                if new != label:
                    renames.append(Rename(name, NameKind.Input, label, new))
    returned = []
    for index, (name, part) in enumerate(listed):
        for node in part.node_ids():
            if part.op(node):
                label = part.node_name(node)
                new = f"{name}/{label}"
                if target.node_id(new) >= 0:
                    raise InvalidArgumentError(f"merge: two nodes would be named '{new}'")
                copies[index].node(node, new)
                renames.append(Rename(name, NameKind.Node, label, new))
    for index, (name, part) in enumerate(listed):
        for label, value in part.output_list():
            if (index, label) in outputs:
                new = outputs[index, label]
                returned.append((new, copies[index].value(value)))
                if new != label:
                    renames.append(Rename(name, NameKind.Output, label, new))
        copies[index].facts()
    target.set_output_list(returned)
    plan.check_result(target, copies)
    for _, part in listed:
        _consume(part)
    return target, renames


def _io_names(
    what: str,
    parts: list[tuple[str, Any]],
    connected: Any,
    mode: str,
    listed: Callable[[Any], list[str]],
) -> dict[tuple[int, str], str]:
    """The merged graph's name of every input or output that no connection takes."""
    left = [
        (index, label)
        for index, (_, part) in enumerate(parts)
        for label in listed(part)
        if (index, label) not in connected
    ]
    users: dict[str, list[int]] = {}
    for index, label in left:
        users.setdefault(label, []).append(index)
    found = {}
    for index, label in left:
        shared = len(users[label]) > 1
        if shared and mode == "keep":
            first, second = (parts[at][0] for at in users[label][:2])
            raise InvalidArgumentError(
                f"merge: parts '{first}' and '{second}' both have an {what} named '{label}', which "
                "IoNames::Keep keeps; merge with IoNames::PrefixOnCollision or PrefixAlways"
            )
        prefixed = mode == "prefix_always" or shared and mode == "prefix_on_collision"
        found[index, label] = f"{parts[index][0]}/{label}" if prefixed else label
    names = list(found.values())
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(f"merge: two {what}s would be named '{name}'")
    return found


def merge_into(graph: Any, second: Any, io_map: Any) -> list[Rename]:
    """`ModelGraph.merge`."""
    graph._check_idle("merge")
    _check_source("merge", "second", second)
    if second is graph:
        raise InvalidArgumentError("merge: a graph cannot be merged into itself")
    links = []
    for source, fed in _pairs("io_map", io_map):
        if not isinstance(source, str) or not isinstance(fed, str):
            raise TypeError(f"merge: io_map joins names, got {(source, fed)!r}")
        links.append(_Link(0, source, 1, fed, f"{source} -> second.{fed}"))
    parts = [("first", graph), ("second", second)]
    plan = _Merge(parts, links, "move")
    # Names of `second` that stay free are its own; others take the first free one.
    taken = {graph.node_name(node) for node in graph.node_ids()}
    taken |= {second.node_name(node) for node in second.node_ids()}
    returned = [
        (name, value) for name, value in graph.output_list() if (0, name) not in plan.outputs
    ]
    out_names = {name for name, _ in returned}
    renames = []

    def free(kind: NameKind, name: str, clashes: bool, used: set[str]) -> str:
        new, count = name, 0
        while clashes and new in used:
            count += 1
            new = f"{name}_{count}"
        used.add(new)
        if new != name:
            renames.append(Rename("second", kind, name, new))
        return new

    with graph._undoing():
        given = plan.sizes.into(graph._tracer, home=0)
        own = _Resized(graph, given[0], plan.devices[0])
        copy = _Copy(graph, second, given[1], plan.devices[1])
        plan.connect([own, copy])
        for node in second.input_ids():
            label = second.node_name(node)
            if (1, label) not in plan.inputs:
                clashes = graph.node_id(label) >= 0
                copy.input(second.results(node)[0], free(NameKind.Input, label, clashes, taken))
        for node in second.node_ids():
            if second.op(node):
                label = second.node_name(node)
                clashes = graph.node_id(label) >= 0
                copy.node(node, free(NameKind.Node, label, clashes, taken))
        used = out_names | {name for name, _ in second.output_list()}
        for name, value in second.output_list():
            new = free(NameKind.Output, name, name in out_names, used)
            returned.append((new, copy.value(value)))
        graph.set_output_list(returned)
        plan.check_result(graph, [own, copy])
        own.apply()
        copy.facts()
        graph._placed = plan.placed
    _consume(second)
    return renames


class _Resized:
    """Stands for a copy of the graph that another is merged into: its values are its own, with
    sizes that connections fixed and the device it was placed on."""

    def __init__(self, graph: Any, given: dict[str, int], device: int | None) -> None:
        self.target = graph
        self.copy = _Copy(graph, graph, given, device)
        self.values = graph.alive_values()
        self.elsewhere: dict[int, Callable[[], int]] = {}

    def value(self, value: int) -> int:
        return value

    def apply(self) -> None:
        graph, copy = self.target, self.copy
        tracer = graph._tracer
        if copy.device is not None:
            for value in self.values:
                graph.place_value(value, copy.device)
        bounds = dict(zip(tracer.symbols(), tracer.symbol_bounds(), strict=True))
        if all(
            size == tracer.encoded(tracer.symbol(name, *bounds[name]))
            for name, size in copy.given.items()
        ):
            return
        # Everything that can be refused comes first.
        shapes = {value: copy.shape(value) for value in self.values}
        steps = {
            value: [copy.size(step) for step in tracer.steps(value)]
            for value in self.values
            if tracer.steps(value) is not None
        }
        calls = {
            node: [copy.argument(item) for item in call] for node, call in graph._calls.items()
        }
        for value, shape in shapes.items():
            if shape != graph.meta(value)[3]:
                graph.reshape_value(value, shape)
        for value, found in steps.items():
            tracer.adopt(value, -1, found)
        graph._calls.update(calls)


def split(
    graph: ModelGraph, at: ValueCut | Callable[[Node], str]
) -> tuple[dict[str, ModelGraph], list[tuple[str, str]]]:
    """Parts of a graph by name, and the connections between them, in the form that `merge` takes.
    It consumes the graph.

    ``at`` is a cut (`ModelGraph.min_value_cut`): the part "before" holds what its values are
    computed by, "after" the rest. Or it is a function that names the part of each operator, asked
    once per operator in the order of `nodes`; the parts come in an order in which every connection
    runs forward. A value that another part reads is an output of its producer's part and an input
    of each reader's, under its name. An input of the graph goes with the first part that reads it.
    A part run on its own gives a view as a view; pass it on as ``x.contiguous()``.

    What the function raises goes through. Raises `InvalidArgumentError` where parts feed each
    other, and where a write in place and what shares its bytes would be parted.

    >>> import clika_runtime as crt
    >>> model = lambda t: [crt.neg(crt.relu(t[0]))]
    >>> graph = crt.trace(model, [crt.TensorSpec("x", crt.float32, [2])], output_names=["y"]).graph
    >>> parts, connections = split(graph, lambda node: node.op_code.name.lower())
    >>> {name: (part.input_names(), part.output_names()) for name, part in parts.items()}
    {'relu': (['x'], ['Relu_1_0']), 'neg': (['Relu_1_0'], ['y'])}
    >>> connections
    [('relu.Relu_1_0', 'neg.Relu_1_0')]
    """
    _check_source("split", "the graph", graph)
    work = _Split(graph)
    if isinstance(at, ValueCut):
        work.by_cut(at)
    elif callable(at):
        work.by_function(at)
    else:
        raise TypeError(f"split: takes a ValueCut or a function, got {type(at).__name__}")
    parts, connections = work.build()
    _consume(graph)
    return parts, connections


class _Split:
    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.ids = graph.node_ids()
        self.operators = [node for node in self.ids if graph.op(node)]
        self.part: dict[int, str] = {}  # node -> its part
        self.order: list[str] = []
        self.crossing: dict[int, list[str]] = {}  # value -> the parts that get it
        self.returned: set[int] = set()  # values that the last part only returns

    # ---------------------------------------------------------- who goes where
    def by_cut(self, cut: ValueCut) -> None:
        graph = self.graph
        values = [graph._value(value, "split") for value in cut.values]
        if not values:
            raise InvalidArgumentError("split: the cut holds no value")
        work = [graph.producer_id(value)[0] for value in values]
        before: set[int] = set()
        while work:
            node = work.pop()
            if node < 0 or node in before:
                continue
            before.add(node)
            work.extend(graph.producer_id(value)[0] for value in graph.ports(node) if value >= 0)
        # An input that nothing before the cut reads goes with the nodes after it, unless it is cut.
        for node in self.operators:
            self.part[node] = "before" if node in before else "after"
        self.order = ["before", "after"]
        cut_inputs = {graph.producer_id(value)[0] for value in values}
        self._place_inputs({node: "before" for node in cut_inputs if node >= 0})
        if all(self.part[node] == "before" for node in self.operators):
            self.returned = set(values)  # what is handed over is what the graph returns
            self.crossing = {
                value: ["after"] for value in values if graph.producer_id(value)[0] >= 0
            }

    def by_function(self, fn: Callable[[Node], str]) -> None:
        graph = self.graph
        if not self.operators:
            raise InvalidArgumentError("split: the graph has no operator")
        graph._calling = "split"
        try:
            for node in self.operators:
                self.part[node] = _check_part_name("split", fn(graph.node_view(node)))
        finally:
            graph._calling = ""
        self.order = self._forward(list(dict.fromkeys(self.part[node] for node in self.operators)))
        self._place_inputs({})

    def _forward(self, names: list[str]) -> list[str]:
        """The parts so that each comes after those it reads from."""
        graph = self.graph
        needs: dict[str, set[str]] = {name: set() for name in names}
        for node in self.operators:
            for value in graph.ports(node):
                maker = graph.producer_id(value)[0] if value >= 0 else -1
                if maker in self.part and self.part[maker] != self.part[node]:
                    needs[self.part[node]].add(self.part[maker])
        order: list[str] = []
        while len(order) < len(names):
            ready = [name for name in names if name not in order and needs[name] <= set(order)]
            if not ready:
                stuck = [name for name in names if name not in order]
                raise InvalidArgumentError(
                    f"split: the parts {stuck} feed each other; every connection must run forward"
                )
            order.append(ready[0])
        return order

    def _place_inputs(self, fixed: dict[int, str]) -> None:
        """An input goes with the first part that reads it."""
        graph = self.graph
        for node in graph.input_ids():
            (value,) = graph.results(node)
            readers = {self.part[reader] for reader, _ in graph.use_list(value)}
            first = [name for name in self.order if name in readers]
            self.part[node] = fixed.get(node) or (first or self.order)[0]

    # ---------------------------------------------------------- the parts
    def build(self) -> tuple[dict[str, ModelGraph], list[tuple[str, str]]]:
        from .model_graph import ModelGraph

        graph = self.graph
        for node in self.operators:
            for value in graph.ports(node):
                maker = graph.producer_id(value)[0] if value >= 0 else -1
                if maker >= 0 and self.part[maker] != self.part[node]:
                    readers = self.crossing.setdefault(value, [])
                    if self.part[node] not in readers:
                        readers.append(self.part[node])
        self._check_writes()
        for value in self.crossing:
            graph._check_current("split", value)
        names = self._crossing_names()
        targets: dict[str, Any] = {}
        copies: dict[str, _Copy] = {}
        outputs: dict[str, list[tuple[str, int]]] = {name: [] for name in self.order}
        for name in self.order:
            targets[name] = ModelGraph(f"{graph.name}/{name}")
            targets[name]._placed = graph._placed
            targets[name]._from_file = graph._from_file
            copies[name] = _Copy(targets[name], graph)
            entering = [
                (value, graph.node_name(node))
                for node in graph.input_ids()
                if self.part[node] == name
                for value in graph.results(node)
            ] + [(value, names[value]) for value, parts in self.crossing.items() if name in parts]
            _enter(copies[name], entering)
        for node in self.operators:
            copies[self.part[node]].node(node, graph.node_name(node))
        for label, value in graph.output_list():
            maker = graph.producer_id(value)[0]
            home = self.part[maker] if maker >= 0 else self._home_of_constant(value)
            if maker >= 0 and value in self.returned:
                home = self.order[-1]
            outputs[home].append((label, copies[home].value(value)))
        connections: list[tuple[str, str]] = []
        for value, label in names.items():
            home = self.part[graph.producer_id(value)[0]]
            outputs[home].append((label, copies[home].value(value)))
            connections.extend(
                (f"{home}.{label}", f"{part}.{label}")
                for part in self.order
                if part in self.crossing[value]
            )
        for name in self.order:
            targets[name].set_output_list(outputs[name])
            copies[name].facts()
        place = {name: at for at, name in enumerate(self.order)}
        connections.sort(key=lambda pair: place[pair[0].partition(".")[0]])
        return targets, connections

    def _home_of_constant(self, value: int) -> str:
        readers = {self.part[node] for node, _ in self.graph.use_list(value)}
        return ([name for name in self.order if name in readers] or self.order)[0]

    def _crossing_names(self) -> dict[int, str]:
        """The name under which each value crosses: its own, where nothing else has it."""
        graph = self.graph
        taken = {name for name, _ in graph.output_list()}
        taken |= {graph.node_name(node) for node in self.operators}
        inputs = set(graph.input_names())
        names: dict[int, str] = {}
        place = {node: at for at, node in enumerate(self.ids)}
        for value in sorted(
            self.crossing, key=lambda item: (place[graph.producer_id(item)[0]], item)
        ):
            base = graph.value_name(value)
            own_input = not graph.op(graph.producer_id(value)[0])
            label, count = base, 0
            while label in taken or label in inputs and not (own_input and label == base):
                count += 1
                label = f"{base}_{count}"
            taken.add(label)
            names[value] = label
        self.crossing = {value: self.crossing[value] for value in names}
        return names

    def _check_writes(self) -> None:
        """Refuses to part a write from what shares its bytes."""
        graph = self.graph
        if not graph._has_writes():
            return
        writers: dict[int, int] = {}
        root = graph.root_id
        for value in graph._writes:
            if graph.value_is_alive(value):
                writers[root(value)] = graph.producer_id(value)[0]
        for node in self.ids:
            touched = [*graph.results(node)]
            touched += [value for value in graph.ports(node) if value >= 0]
            for value in touched:
                writer = writers.get(root(value), -1)
                maker = graph.producer_id(value)[0]
                if writer < 0 or self.part[writer] == self.part[node]:
                    continue
                if maker >= 0 and self.part[maker] != self.part[node]:
                    continue  # it crosses as a value of its own, which the other check looks at
                raise InvalidArgumentError(
                    f"split: '{graph.node_name(writer)}' writes to bytes that "
                    f"'{graph.node_name(node)}' reads or makes; keep both in one part"
                )


def _enter(copy: _Copy, entering: Sequence[tuple[int, str]]) -> None:
    """Makes inputs of values. A dynamic size that the part's inputs give only within an expression
    becomes a size of its own there, so that the part can run alone."""
    source, target = copy.source, copy.target
    tracer = source._tracer
    dims = [(size, f"{name}_dim{d}") for value, name in entering
            for d, size in enumerate(source.meta(value)[3]) if size < 0]  # fmt: skip
    if dims:
        symbols = dict(zip(tracer.symbols(), tracer.symbol_bounds(), strict=True))
        encoded = {
            name: tracer.encoded(tracer.symbol(name, *bounds)) for name, bounds in symbols.items()
        }
        given = {name for name, size in encoded.items() if any(size == dim for dim, _ in dims)}
        for size, label in dims:
            needs = {name for name in encoded if tracer.taken(tracer, size, {name: 1}) != size}
            if needs <= given or size in copy.exact:
                continue
            low, high = tracer.size(size).bounds()
            while label in symbols:
                label += "_"
            symbols[label] = (max(low, 0), high)
            made = target._tracer.symbol(label, max(low, 0), high)
            copy.exact[size] = target._tracer.encoded(made)
    for value, name in entering:
        copy.input(value, name)


def extract(graph: ModelGraph, inputs: Sequence[Value], outputs: Sequence[Value]) -> ModelGraph:
    """The operators that compute ``outputs`` from ``inputs``, as a graph. It consumes the graph and
    frees what the result does not hold.

    A graph input keeps its name; any other input is named after its value. An output keeps its
    graph output name, else it is named after its value. Raises `InvalidArgumentError` where an
    output needs an input of the graph that is not among ``inputs``.

    >>> import clika_runtime as crt
    >>> model = lambda t: [crt.neg(crt.relu(t[0]))]
    >>> graph = crt.trace(model, [crt.TensorSpec("x", crt.float32, [2])], output_names=["y"]).graph
    >>> x, relu, neg = graph.nodes()
    >>> part = extract(graph, [relu.output(0)], [neg.output(0)])
    >>> part.input_names(), part.output_names()
    (['Relu_1_0'], ['y'])
    """
    from .model_graph import ModelGraph

    _check_source("extract", "the graph", graph)
    source: Any = graph
    given = [source._value(value, "extract") for value in inputs]
    wanted = [source._value(value, "extract") for value in outputs]
    if not wanted:
        raise InvalidArgumentError("extract: there is no output to compute")
    for what, values in (("input", given), ("output", wanted)):
        for value in values:
            if values.count(value) > 1:
                raise InvalidArgumentError(
                    f"extract: '{source.value_name(value)}' is given twice as an {what}"
                )
    for value in wanted:
        source._check_current("extract", value)
    needed: set[int] = set()
    work = list(wanted)
    while work:
        value = work.pop()
        node = source.producer_id(value)[0]
        if value in given or node < 0 or node in needed:
            continue
        if not source.op(node):
            raise InvalidArgumentError(
                f"extract: the outputs need the graph input '{source.node_name(node)}', which is "
                "not among the inputs"
            )
        needed.add(node)
        work.extend(item for item in source.ports(node) if item >= 0)
    if source._has_writes():
        root_of = source.root_id
        for node in needed:
            for value in source.results(node):
                root = root_of(value)
                maker = source.producer_id(root)[0]
                if not source.meta(value)[5] or maker < 0 or maker in needed:
                    continue
                if root in given and not source.op(maker):
                    continue  # an input of the graph, which its run writes to as well
                raise InvalidArgumentError(
                    f"extract: '{source.node_name(node)}' writes to the bytes of "
                    f"'{source.value_name(root)}', which is not computed in the extracted graph"
                )
    target: Any = ModelGraph(source.name)
    target._placed = source._placed
    target._from_file = source._from_file
    copy = _Copy(target, source)
    order = [node for node in source.node_ids() if node in needed]
    own = {value for node in source.input_ids() for value in source.results(node)}
    taken = {source.node_name(node) for node in order}
    taken |= {source.value_name(value) for value in given if value in own}
    entering = [
        (
            value,
            source.value_name(value) if value in own else _unused(source.value_name(value), taken),
        )
        for value in given
    ]
    _enter(copy, entering)
    for node in order:
        copy.node(node, source.node_name(node))
    known: dict[int, str] = {}
    for label, value in source.output_list():
        known.setdefault(value, label)
    taken = set(known.values())
    target.set_output_list(
        [
            (known.get(value) or _unused(source.value_name(value), taken), copy.value(value))
            for value in wanted
        ]
    )
    copy.facts()
    _consume(graph)
    made: ModelGraph = target
    return made


def _unused(base: str, taken: set[str]) -> str:
    """``base``, or the first free ``<base>_<n>``; it is taken then."""
    label, count = base, 0
    while label in taken:
        count += 1
        label = f"{base}_{count}"
    taken.add(label)
    return label
