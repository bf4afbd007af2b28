"""Reading what `ModelGraph.save` wrote. The file is not trusted: everything that the document says
is checked before it is used, in the order of the checks below, and refused with the place where it
is wrong.

1. The file is a safetensors file with a document of this version, of bounded length.
2. Symbols have bounds; sizes are polynomials of bounded length over them.
3. Entries have the keys and types of the format, and indices lie in their lists. A value shares
   bytes with an earlier one, so no chain of them closes.
4. Constants lie in the stored tensors.
5. Nodes and values have names of their own; each result is made once; there is no cycle.
6. Operators are known. Their arguments have the types that the operator's record declares, and its
   shape rule gives the dtypes, shapes and shared bytes that the values have.
7. Subgraphs take and give what their node does, and nest to a bounded depth.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from .. import dtypes, ops
from .._native._core import (
    Port,
    SymInt,
    Tensor,
    device_number,
    device_of,
    from_blob,
    pack_weight,
)
from ..device import Device
from ..errors import ClikaRTError, NotFoundError
from ..ops._shapes import least
from ..ops.record import View
from .activations import ACTIVATIONS, CARRIERS, IDENTITY
from .opcode import AFTER, CUSTOM, IF, LOOP, MOVE, SCAN, op_code
from .saving import (
    DEPTH_LIMIT,
    DOCUMENT_LIMIT,
    FORMAT,
    NESTING_LIMIT,
    SIZE_LIMIT,
    SIZES_LIMIT,
    VERSION,
    nesting,
    payload_bytes,
)
from .strides import infer

if TYPE_CHECKING:
    import os

    from .model_graph import ModelGraph

_LARGEST = 2**63 - 1
_REQUIRED: Any = object()
_TOKEN = re.compile(r"min\(|s\d{1,6}|\d{1,19}| // | % | \+ | - |, |[-*()]")


def read(path: str | os.PathLike[str]) -> ModelGraph:
    """The graph in a file."""
    from ..io import SafetensorsFile
    from ..io._files import parse_json, unsupported

    file = SafetensorsFile(path)
    text = file.metadata.get(FORMAT)
    if text is None:
        _refuse(file.path, f"holds no graph: its metadata has no '{FORMAT}'")
    if len(text) > DOCUMENT_LIMIT:
        _refuse(file.path, f"the graph takes {len(text)} characters, more than {DOCUMENT_LIMIT}")
    raw = text.encode("utf-8", "replace")
    document = parse_json(raw, file.path, "the graph", unique_keys=True)
    version = document.get("version") if isinstance(document, dict) else None
    if type(version) is int and version > VERSION:
        raise unsupported(
            file.path, f"the graph has version {version}; this release reads up to {VERSION}"
        )
    if type(version) is not int or version != VERSION:
        _refuse(file.path, f"the graph's version is {_shown(version)}, expected {VERSION}")
    return _Reader(file, document).graph()


def _shown(value: object) -> str:
    from ..io._files import shown

    return shown(value)


def _refuse(path: str, problem: str) -> NoReturn:
    from ..io._files import invalid

    raise invalid(path, problem)


class _Reader:
    """One file: its sizes, stored tensors and graphs."""

    def __init__(self, file: Any, document: Any) -> None:
        self.file = file
        self.buffers: dict[tuple[str, bool], Any] = {}
        self.bases: dict[tuple[str, bool, int], Any] = {}
        self.packed: dict[tuple[Any, ...], Any] = {}
        self.packed_bytes = 0
        fields = self.fields("the document", document, version=int, recordings=list, graph=dict)
        _, recordings, self.root = fields
        self.tracers: list[Any] = []
        self.sizes: list[list[int]] = []
        for at, entry in enumerate(recordings):
            self.recording(f"recordings[{at}]", entry)

    def graph(self) -> ModelGraph:
        return _Graph(self, self.root, "graph", 0).made()

    def refuse(self, where: str, problem: str) -> NoReturn:
        _refuse(self.file.path, f"{where}: {problem}")

    # ---------------------------------------------------------- shapes of entries
    def fields(self, where: str, entry: Any, **kinds: Any) -> list[Any]:
        """The values of an object's keys; ``kinds`` maps each key to its type, or to its type and
        a default."""
        if not isinstance(entry, dict):
            self.refuse(where, f"expected an object, found {_shown(entry)}")
        if not entry.keys() <= kinds.keys():
            self.refuse(where, f"unknown keys {_shown(sorted(entry.keys() - kinds.keys()))}")
        found = []
        for name, kind in kinds.items():
            kind, default = kind if isinstance(kind, tuple) else (kind, _REQUIRED)
            value = entry.get(name, default)
            if value is _REQUIRED:
                self.refuse(where, f"'{name}' is missing")
            if value is not default and type(value) is not kind:
                self.refuse(where, f"'{name}' must be of type {kind.__name__}: {_shown(value)}")
            found.append(value)
        return found

    def index(self, where: str, value: Any, count: int) -> int:
        if type(value) is not int or not 0 <= value < count:
            self.refuse(where, f"expected an index below {count}, found {_shown(value)}")
        return value

    def name(self, where: str, value: Any) -> str:
        if type(value) is not str or not value:
            self.refuse(where, f"a name must be a text that is not empty, found {_shown(value)}")
        return value

    def dtype(self, where: str, name: Any) -> Any:
        found = getattr(dtypes, name, None) if type(name) is str else None
        if not isinstance(found, dtypes.dtype):
            self.refuse(where, f"there is no dtype {_shown(name)}")
        return found

    def device(self, where: str, name: Any) -> Device:
        if type(name) is not str or len(name) > 64:
            self.refuse(where, f"expected the name of a device, found {_shown(name)}")
        try:
            device = Device(name)
            if device_number(device) >= 0:
                return device
            self.refuse(where, f"a graph does not run on device {_shown(name)}")
        except ClikaRTError:
            raise
        except (TypeError, ValueError) as error:
            self.refuse(where, f"there is no device {_shown(name)}: {error}")

    # ---------------------------------------------------------- sizes
    def recording(self, where: str, entry: Any) -> None:
        from .model_graph import ModelGraph

        symbols, texts = self.fields(where, entry, symbols=list, sizes=list)
        if any(type(text) is not str or len(text) > SIZE_LIMIT for text in texts) or (
            sum(map(len, texts)) > SIZES_LIMIT or len(symbols) > SIZES_LIMIT // 8
        ):
            self.refuse(where, "the sizes must be texts of bounded length")
        tracer = ModelGraph("sizes")._tracer
        made: list[Any] = []
        names: set[str] = set()
        for at, symbol in enumerate(symbols):
            place = f"{where}.symbols[{at}]"
            if type(symbol) is not list or len(symbol) != 3:
                self.refuse(place, f"expected [name, low, high], found {_shown(symbol)}")
            name, low, high = symbol
            self.name(place, name)
            if name in names or type(low) is not int or type(high) is not int:
                self.refuse(place, f"expected a name of its own and bounds: {_shown(symbol)}")
            names.add(name)
            if not 0 <= low <= high <= _LARGEST:
                self.refuse(place, f"the bounds {_shown([low, high])} are no sizes")
            try:
                made.append(tracer.symbol(name, low, high))
            except (ClikaRTError, ValueError) as error:
                self.refuse(place, str(error))
        sizes = []
        for at, text in enumerate(texts):
            size = _Size(text, made).value()
            if size is None:
                self.refuse(f"{where}.sizes[{at}]", f"{_shown(text)} is no size")
            sizes.append(tracer.encoded(size))
        self.tracers.append(tracer)
        self.sizes.append(sizes)

    def size(self, where: str, recording: int, value: Any) -> int:
        """A size of the document as the recording's number."""
        if type(value) is int and 0 <= value <= _LARGEST:
            return value
        if isinstance(value, dict):
            (at,) = self.fields(where, value, size=int)
            return self.sizes[recording][self.index(where, at, len(self.sizes[recording]))]
        self.refuse(where, f"expected a size, found {_shown(value)}")

    def shape(self, where: str, recording: int, value: Any) -> tuple[int, ...]:
        if type(value) is not list or len(value) > 8:
            self.refuse(where, f"expected a list of up to 8 sizes, found {_shown(value)}")
        return tuple(self.size(where, recording, size) for size in value)

    # ---------------------------------------------------------- constants
    def tensor(
        self, where: str, data: Any, dtype: Any, scheme: int, shape: tuple[int, ...], written: bool
    ) -> Any:
        """A constant over the stored bytes; over a copy of them where runs rewrite it."""
        key, offset, strides, _ = self.fields(
            where, data, tensor=str, offset=(int, 0), strides=(list, None), pack=(str, None)
        )
        if key not in self.file.tensors:
            self.refuse(where, f"there is no stored tensor {_shown(key)}")
        if any(size < 0 for size in shape) or not 0 <= offset <= _LARGEST:
            self.refuse(where, "a constant has sizes that are numbers, at an offset of 0 or more")
        if strides is not None and (
            scheme
            or len(strides) != len(shape)
            or any(type(step) is not int or not 0 <= step <= _LARGEST for step in strides)
        ):
            self.refuse(where, f"{_shown(strides)} are no strides of this tensor")
        buffer = self.buffers.get((key, written))
        if buffer is None:
            view, info = self.file.view(key), self.file.tensors[key]
            aligned = info.offset % 8 == 0 or info.dtype == dtype.name
            aligned = aligned and info.offset % max(1, dtype.itemsize) == 0
            buffer = view if aligned and not written else bytearray(view)
            self.buffers[key, written] = buffer
        nbytes = memoryview(buffer).nbytes
        mapped = not isinstance(buffer, bytearray)  # else no page is dropped: the file has it not
        if offset > nbytes or not scheme and offset % max(1, dtype.itemsize):
            self.refuse(where, f"the offset {offset} is no place of an element in {nbytes} bytes")
        try:
            if scheme or dtype.bits % 8 or strides is not None and offset:
                if strides is not None:
                    return from_blob(memoryview(buffer)[offset:], shape, dtype, strides)
                return Tensor.from_buffer(
                    buffer,
                    shape,
                    dtype,
                    scheme=scheme,
                    offset=offset,
                    owner=self.file,
                    mapped=mapped,
                )
            base = self.bases.get((key, written, dtype.code))
            if base is None:
                count = nbytes // dtype.itemsize
                base = Tensor.from_buffer(buffer, (count,), dtype, owner=self.file, mapped=mapped)
                self.bases[key, written, dtype.code] = base
            steps = _compact(shape) if strides is None else tuple(strides)
            return base.as_strided(shape, steps, offset // dtype.itemsize)
        except (ClikaRTError, ValueError, TypeError, OverflowError) as error:
            self.refuse(where, f"the constant does not fit its bytes: {error}")

    def repacked(self, where: str, data: Any, weight: Any) -> Any:
        """A constant as its backend packs it, once for all entries that show it."""
        stored = (data["tensor"], data.get("offset", 0), data["pack"])
        place = (*stored, weight.device, weight.dtype, weight.scheme, tuple(weight.shape))
        if place not in self.packed:
            self.packed_bytes += payload_bytes(weight)
            if self.packed_bytes > sum(info.nbytes for info in self.file.tensors.values()):
                self.refuse(where, "more bytes are to be packed than the file has")
            try:
                self.packed[place] = pack_weight(weight, data["pack"])
            except (ClikaRTError, ValueError) as error:
                self.refuse(where, str(error)[:500])
        return self.packed[place]


def _is_known(op: str) -> bool:
    try:
        return op_code(op).value != CUSTOM
    except ValueError:
        return False


def _compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, min(steps[0] * max(size, 1), _LARGEST))
    return tuple(steps[: len(shape)])


class _Size:
    """A size's text, read: sums of products of numbers, symbols ``s<n>``, bracketed quotients and
    remainders, and minima, as `SymInt` prints them."""

    def __init__(self, text: str, symbols: list[Any]) -> None:
        self.symbols = symbols
        self.tokens = _TOKEN.findall(text)
        self.whole = "".join(self.tokens) == text and nesting(text) <= NESTING_LIMIT
        self.at = 0

    def value(self) -> Any:
        """The symbolic size, or None for a text that is none."""
        if not self.whole:
            return None
        try:
            found = self.sum()
        except (LookupError, ValueError, TypeError, ArithmeticError, ClikaRTError):
            return None
        return found if self.at == len(self.tokens) and isinstance(found, SymInt) else None

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return str(self.tokens[self.at - 1])

    def sum(self) -> Any:
        plus: list[Any] = []
        minus: list[Any] = []
        negative = self.peek() == "-" and bool(self.take())
        while True:
            (minus if negative else plus).append(self.product())
            if self.peek() not in (" + ", " - "):
                break
            negative = self.take() == " - "
        total: Any = 0
        for item in plus:
            total = total + item
        for item in minus:
            total = total - item
        return total

    def product(self) -> Any:
        found = self.factor()
        while self.peek() == "*":
            self.take()
            found = found * self.factor()
        return found

    def factor(self) -> Any:
        token = self.take()
        if token == "(":
            left = self.sum()
            sign = self.take()
            right = self.sum()
            if sign not in (" // ", " % ") or self.take() != ")":
                raise ValueError
            return left // right if sign == " // " else left % right
        if token == "min(":
            left = self.sum()
            comma = self.take()
            right = self.sum()
            if comma != ", " or self.take() != ")":
                raise ValueError
            return least(left, right)
        if token.startswith("s"):
            return self.symbols[int(token[1:])]
        if int(token) > _LARGEST:
            raise ValueError
        return int(token)


class _Graph:
    """One graph of the document, the whole one or a body."""

    def __init__(self, reader: _Reader, entry: Any, where: str, depth: int) -> None:
        from .model_graph import ModelGraph

        self.reader, self.where, self.depth = reader, where, depth
        if depth > DEPTH_LIMIT:
            reader.refuse(where, f"subgraphs nest deeper than {DEPTH_LIMIT}")
        (
            name,
            recording,
            self.operators,
            placed,
            from_file,
            pinned,
            self.values,
            self.nodes,
            self.inputs,
            self.outputs,
            self.states,
        ) = reader.fields(
            where,
            entry,
            name=str,
            recording=int,
            operators=int,
            placed=(str, None),
            from_file=bool,
            pinned=dict,
            values=list,
            nodes=list,
            inputs=list,
            outputs=list,
            states=list,
        )
        self.recording = reader.index(f"{where}.recording", recording, len(reader.tracers))
        self.graph: Any = ModelGraph(name)
        self.graph._tracer.share_sizes(reader.tracers[self.recording])
        self.graph._from_file = from_file
        if placed is not None:
            self.graph._placed = reader.device(f"{where}.placed", placed)
        for symbol, size in pinned.items():
            if type(size) is not int or not 0 <= size <= _LARGEST:
                self.refuse("pinned", f"{_shown(symbol)} is pinned to {_shown(size)}")
        self.graph._pinned = dict(pinned)
        if not 0 <= self.operators <= _LARGEST:
            self.refuse("operators", f"{_shown(self.operators)} is no count")
        self.ids: list[int] = []  # of the values
        self.metas: list[tuple[Any, ...]] = []
        self.datas: list[Any] = []
        self.labels: list[str] = []
        self.made_by: dict[int, int] = {}  # value -> node
        self.numbers: list[int] = []  # of the nodes

    def refuse(self, where: str, problem: str) -> NoReturn:
        self.reader.refuse(f"{self.where}.{where}", problem)

    def made(self) -> ModelGraph:
        self.read_values()
        parts = [self.read_node(at, entry) for at, entry in enumerate(self.nodes)]
        self.add_values()
        self.add_nodes(parts)
        self.add_ends()
        graph: Any = self.graph
        if not graph.is_acyclic():
            self.refuse("nodes", "a node reads what is computed from it")
        places = {node: at for at, node in enumerate(self.numbers)}
        for node in graph.node_ids():
            if graph.op(node):
                self.check_node(f"nodes[{places[node]}] ('{graph.node_name(node)}')", node)
        graph._operators = self.operators
        graph._tracer.forget_writes()
        graph.take_dirty()
        made: ModelGraph = graph
        return made

    # ---------------------------------------------------------- values
    def read_values(self) -> None:
        reader = self.reader
        names: set[str] = set()
        for at, entry in enumerate(self.values):
            where = f"{self.where}.values[{at}]"
            dtype, device, shape, scheme, name, alias, write, data = reader.fields(
                where,
                entry,
                dtype=str,
                device=str,
                shape=list,
                scheme=(int, 0),
                name=(str, ""),
                alias=(int, -1),
                write=(bool, False),
                data=(dict, None),
            )
            sizes = reader.shape(where, self.recording, shape)
            kind = reader.dtype(where, dtype)
            number = device_number(reader.device(where, device))
            self.check_scheme(where, scheme)
            if not -1 <= alias < at or write and alias < 0:
                reader.refuse(where, f"shares the bytes of {_shown(alias)}, no earlier value")
            if data is not None and (not name or alias >= 0):
                reader.refuse(where, "a constant has a name, and its bytes only where they lie")
            if name and name in names:
                reader.refuse(where, f"the name {_shown(name)} is taken")
            names.add(name)
            self.metas.append((kind, scheme, number, sizes, alias, write))
            self.datas.append(data)
            self.labels.append(name)

    def check_scheme(self, where: str, scheme: int) -> None:
        from ..io import SCHEMES

        if scheme and scheme not in SCHEMES:
            self.reader.refuse(where, f"there is no scheme number {_shown(scheme)}")

    def add_values(self) -> None:
        graph, reader = self.graph, self.reader
        roots: list[int] = []
        for at, meta in enumerate(self.metas):
            roots.append(at if meta[4] < 0 else roots[meta[4]])
        written = {
            self.datas[roots[at]]["tensor"]
            for at, meta in enumerate(self.metas)
            if meta[5] and self.datas[roots[at]] is not None
            and type(self.datas[roots[at]].get("tensor")) is str
        }  # fmt: skip
        for at, (dtype, scheme, device, shape, alias, write) in enumerate(self.metas):
            data = self.datas[at]
            if data is None:
                shared = self.ids[alias] if alias >= 0 else -1
                self.ids.append(graph.add_value(dtype.code, scheme, device, shape, shared, write))
                continue
            where = f"{self.where}.values[{at}]"
            key = data.get("tensor")
            copied = type(key) is str and key in written
            tensor = reader.tensor(where, data, dtype, scheme, shape, copied)
            if device != device_number(None):
                tensor = tensor.to(device_of(device))
            if data.get("pack") is not None:
                tensor = reader.repacked(where, data, tensor)
            count = graph.counts_of()[0]
            value = graph._tracer.captured(tensor)
            if value < count:  # one of another name shows the same
                value = graph._add_constant(tensor, value)
            self.ids.append(value)
        # The names that the graph gave its constants make room first.
        named = [
            (value, label) for value, label in zip(self.ids, self.labels, strict=True) if label
        ]
        for value, _ in named:
            graph.name_value(value, "")
        for value, label in named:
            graph.name_value(value, label)

    # ---------------------------------------------------------- nodes
    def read_node(self, at: int, entry: Any) -> tuple[Any, ...]:
        reader, where = self.reader, f"{self.where}.nodes[{at}]"
        op, name, inputs, outputs, call, extras, bodies = reader.fields(
            where,
            entry,
            op=str,
            name=str,
            inputs=list,
            outputs=list,
            call=(list, None),
            extras=(dict, None),
            bodies=(list, None),
        )
        reader.name(where, name)
        if op and not _is_known(op):
            raise NotFoundError(
                f"{reader.file.path}: {where} ({_shown(name)}): there is no operator {_shown(op)}",
                "NOT_FOUND",
            )
        for port in inputs:
            if port != -1 or type(port) is not int:
                reader.index(f"{where}.inputs", port, len(self.values))
        for value in outputs:
            reader.index(f"{where}.outputs", value, len(self.values))
            if value in self.made_by or self.datas[value] is not None:
                reader.refuse(where, f"the value {value} is made twice")
            self.made_by[value] = at
        if not op and (inputs or len(outputs) != 1 or call or extras or bodies):
            reader.refuse(where, "an input reads nothing and makes one value")
        if op and call is None:
            reader.refuse(where, "the operator has no arguments")
        if (len(bodies) if bodies else 0) != {IF: 2, LOOP: 1, SCAN: 1}.get(op, 0):
            reader.refuse(where, "the operator has another number of subgraphs")
        if op:
            call = [self.argument(where, value, 0) for value in call]
            if extras is not None:
                extras = {key: self.argument(where, value, 0) for key, value in extras.items()}
        return op, name, inputs, outputs, call, extras, bodies

    def argument(self, where: str, value: Any, depth: int) -> Any:
        reader = self.reader
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            if not -(2**63) <= value < 2**64:
                reader.refuse(where, f"the number {_shown(value)} does not fit 64 bits")
            return value
        if depth > 8:
            reader.refuse(where, "an argument is nested too deeply")
        if type(value) is list:
            return [self.argument(where, item, depth + 1) for item in value]
        if isinstance(value, dict) and len(value) == 1:
            ((kind, content),) = value.items()
            if kind == "tuple" and type(content) is list:
                return tuple(self.argument(where, item, depth + 1) for item in content)
            if kind == "port" and type(content) is int and 0 <= content < 2**31:
                return Port(content)
            if kind == "size":
                encoded = reader.size(where, self.recording, value)
                return self.graph._tracer.size(encoded)
            if kind == "dtype":
                return reader.dtype(where, content)
            if kind == "device":
                return reader.device(where, content)
            if kind == "float" and type(content) is str and len(content) < 40:
                try:
                    return float.fromhex(content)
                except (ValueError, OverflowError):
                    pass
        reader.refuse(where, f"{_shown(value)} is no argument")

    def add_nodes(self, parts: list[tuple[Any, ...]]) -> None:
        graph, names = self.graph, set()
        for at, (op, name, inputs, outputs, call, extras, bodies) in enumerate(parts):
            where = f"nodes[{at}]"
            if name in names:
                self.refuse(where, f"the name {_shown(name)} is taken")
            names.add(name)
            node = graph.make_node(
                op,
                name,
                [self.ids[value] if value >= 0 else -1 for value in inputs],
                [self.ids[value] for value in outputs],
            )
            self.numbers.append(node)
            if op:
                graph._calls[node] = call
            if extras is not None or bodies:
                graph._extras[node] = extras or {}
            if bodies:
                graph._bodies[node] = tuple(
                    _Graph(
                        self.reader, body, f"{self.where}.{where}.bodies[{k}]", self.depth + 1
                    ).made()
                    for k, body in enumerate(bodies)
                )
        for at, data in enumerate(self.datas):
            if data is None and at not in self.made_by:
                self.refuse(f"values[{at}]", "nothing makes the value, and it is no constant")

    def add_ends(self) -> None:
        graph, reader = self.graph, self.reader
        for node in self.inputs:
            reader.index(f"{self.where}.inputs", node, len(self.nodes))
        given = [self.numbers[node] for node in self.inputs]
        if sorted(given) != [node for node in self.numbers if not graph.op(node)]:
            self.refuse("inputs", "expected every input of the graph once")
        graph.order_inputs(given)
        for what, pairs in (("outputs", self.outputs), ("states", self.states)):
            for pair in pairs:
                if type(pair) is not list or len(pair) != 2:
                    self.refuse(what, f"expected pairs, found {_shown(pair)}")
                reader.index(f"{self.where}.{what}", pair[1], len(self.values))
        names = [reader.name(f"{self.where}.outputs", name) for name, _ in self.outputs]
        if len(set(names)) != len(names):
            self.refuse("outputs", "two outputs have one name")
        graph.set_output_list([(name, self.ids[value]) for name, value in self.outputs])
        for value, root in self.states:
            reader.index(f"{self.where}.states", value, len(self.values))
            at = value
            while self.metas[at][4] >= 0:
                at = self.metas[at][4]
            if self.datas[root] is None or at == value or self.datas[at] is None:
                self.refuse("states", f"the value {value} is no later one of a constant")
            graph._states[self.ids[value]] = self.ids[root]

    # ---------------------------------------------------------- what operators say
    def check_node(self, where: str, node: int) -> None:
        graph = self.graph
        op, extras = graph.op(node), graph._extras.get(node, {})
        named = [port for value in graph._calls[node] for port in _ports(value)]
        named += [port for value in extras.values() for port in _ports(value)]
        if sorted(named) != [port for port, value in enumerate(graph.ports(node)) if value >= 0]:
            self.refuse(where, f"the arguments name the ports {_shown(named)}")
        if op in (IF, LOOP, SCAN):
            self.check_control(where, node, op, extras)
        elif op in (AFTER, MOVE):
            self.check_place(where, node, op, extras)
        else:
            self.check_extras(where, op, extras)
            self.check_operator(where, node, op)

    def check_extras(self, where: str, op: str, extras: dict[str, Any]) -> None:
        activation = extras.get("activation", IDENTITY)
        plain = type(activation) is str and (
            activation == IDENTITY or op in CARRIERS and activation in ACTIVATIONS
        )
        if (
            not plain
            or not extras.keys() <= {"activation", "bias"}
            or ("bias" in extras and type(extras["bias"]) is not Port)
        ):
            self.refuse(where, f"the operator does not carry {_shown(extras)}")

    def check_place(self, where: str, node: int, op: str, extras: dict[str, Any]) -> None:
        """``after``: its first input, read after a write. ``move``: its input, elsewhere."""
        graph = self.graph
        ports, results = graph.ports(node), graph.results(node)
        count = 2 if op == AFTER else 1
        alike = len(ports) == count and len(results) == 1 and min(ports) >= 0
        if alike:
            from_, to = graph.meta(ports[0]), graph.meta(results[0])
            alias = ports[0] if op == AFTER else -1
            alike = from_[:2] == to[:2] and from_[3] == to[3] and to[4:] == (alias, False)
        listed = graph._calls[node] == [Port(k) for k in range(count)]
        if not alike or not listed or not extras.keys() <= ({"device"} if op == MOVE else set()):
            self.refuse(where, f"this is no node '{op}'")
        if op == AFTER:
            graph._tracer.adopt(results[0], -1, graph._tracer.steps(ports[0]))

    def check_operator(self, where: str, node: int, op: str) -> None:
        graph, record = self.graph, ops.record(op)
        call = graph._calls[node]
        if len(call) != len(record.args):
            self.refuse(where, f"'{op}' takes {len(record.args)} arguments, found {len(call)}")
        for arg, value in zip(record.args, call, strict=True):
            if not _fits(arg, value):
                self.refuse(where, f"{arg.name} of '{op}' cannot be {_shown(value)}")
        try:
            found = infer(graph, node)
        except ClikaRTError as error:
            self.refuse(where, str(error)[:500])
        except Exception as error:  # a rule that meets what no call gives it
            self.refuse(where, f"'{op}' does not take these: {type(error).__name__}: {error}"[:500])
        results = found if isinstance(found, (tuple, list)) else (found,)
        values = graph.results(node)
        if len(results) != len(values):
            self.refuse(where, f"'{op}' gives {len(results)} results, found {len(values)}")
        tensors = [
            _ports(value)
            for arg, value in zip(record.args, call, strict=True)
            if arg.kind == "tensor" and value is not None
        ]
        views = bool(results) and all(isinstance(result, View) for result in results)
        for index, (value, result) in enumerate(zip(values, results, strict=True)):
            self.check_result(where, node, index, value, result, tensors if views else None)

    def check_result(
        self,
        where: str,
        node: int,
        index: int,
        value: int,
        result: Any,
        sources: list[list[int]] | None,
    ) -> None:
        graph, tracer = self.graph, self.graph._tracer
        dtype, scheme, _, shape, alias, write = graph.meta(value)
        ports = graph.ports(node)
        target = ops.record(graph.op(node)).target(index)
        wanted_alias, steps = -1, None
        if sources is not None:
            ((port,), *_) = sources[result.source : result.source + 1] or [[-1]]
            if port < 0:
                self.refuse(where, "a view reads no tensor")
            wanted_alias = ports[port]
            wanted = graph.meta(wanted_alias)[:2]
            steps = [tracer.encoded(step) for step in result.strides]
        else:
            if isinstance(result, View):
                self.refuse(where, "only some of the results would share bytes")
            wanted = (result.dtype.code, 0)
            if target is not None:
                wanted_alias = ports[target]
                steps = tracer.steps(wanted_alias)
        try:
            sizes = tuple(tracer.encoded(size) for size in result.shape)
        except (ClikaRTError, TypeError) as error:
            self.refuse(where, f"a result has no size: {error}")
        writes = sources is None and target is not None
        if (
            (dtype, scheme) != wanted
            or sizes != shape
            or (alias, write) != (wanted_alias, writes)
            or writes
            and wanted_alias < 0
        ):
            self.refuse(where, f"result {index} is not what the operator gives")
        if steps is not None:
            tracer.adopt(value, -1, steps)

    def check_control(self, where: str, node: int, op: str, extras: dict[str, Any]) -> None:
        graph = self.graph
        call, ports, results = graph._calls[node], graph.ports(node), graph.results(node)
        carried, scanned = extras.get("carried", 0), extras.get("scanned", 0)
        first = {IF: 1, LOOP: 2, SCAN: 0}[op]
        optional = {0, 1} if op == LOOP else set()
        if (
            any(type(count) is not int or count < 0 for count in (carried, scanned))
            or extras.keys() != (set() if op == IF else {"carried", "scanned"})
            or (scanned > 0) != (op == SCAN)
            or len(call) < first + carried + scanned
            or any(
                type(value) is not Port and not (value is None and k in optional)
                for k, value in enumerate(call)
            )
            or len(ports) != sum(value is not None for value in call)
            or op != IF
            and len(results) < carried
            or not results
        ):
            self.refuse(where, f"these are no arguments of '{op}'")
        metas = [None if port is None else graph.meta(ports[port]) for port in call]
        given = [None if meta is None else self.kind(graph, meta) for meta in metas]
        made = [self.kind(graph, graph.meta(value)) for value in results]
        if any(graph.meta(value)[4:] != (-1, False) or graph.meta(value)[1] for value in results):
            self.refuse(where, "a subgraph's results are dense and their own")
        flag, count = (dtypes.bool.code, ()), (dtypes.int64.code, ())
        if op == IF:
            if given[0] != flag:
                self.refuse(where, "the condition must be one bool")
            takes, gives = given[1:], made
        else:
            takes = given
            stacked = made[carried:]
            if op == LOOP:
                if given[0] not in (None, count) or given[1] not in (None, flag):
                    self.refuse(where, "a loop takes an int64 and a bool")
                takes = [count, flag, *given[2:]]
            else:
                slices = given[carried : carried + scanned]
                takes = [
                    *given[:carried],
                    *((kind[0], kind[1][1:]) for kind in slices if kind is not None),
                    *given[carried + scanned :],
                ]
                stacked = [*stacked, *(kind for kind in slices if kind is not None)]
            if made[:carried] != given[first : first + carried]:
                self.refuse(where, "carried values keep dtype and shape")
            firsts = {repr(kind[1][:1]) for kind in stacked}
            if any(not kind[1] for kind in stacked) or len(firsts) > 1:
                self.refuse(where, "stacked and scanned tensors have one first dim")
            gives = [*made[:carried], *((kind[0], kind[1][1:]) for kind in made[carried:])]
            gives = [flag, *gives] if op == LOOP else gives
        for body in graph._bodies[node]:
            inner: Any = body
            inputs = [self.kind(inner, inner.meta(*inner.results(n))) for n in inner.input_ids()]
            outputs = [self.kind(inner, inner.meta(value)) for _, value in inner.output_list()]
            if not _alike(inputs, takes) or not _alike(outputs, gives):
                self.refuse(where, "a subgraph takes and gives what its node does not")
            if inner._states or any(inner.meta(value)[1] for _, value in inner.output_list()):
                self.refuse(where, "a subgraph keeps no state and gives dense tensors")

    @staticmethod
    def kind(graph: Any, meta: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        """Dtype and shape of a value; sizes of different recordings compare by their text."""
        return meta[0], tuple(graph._tracer.size(size) for size in meta[3])


def _alike(one: list[Any], other: list[Any]) -> bool:
    """Whether dtypes and shapes agree; symbolic sizes of another recording are the run's to
    compare."""
    if len(one) != len(other):
        return False
    for (kind, shape), (wanted, sizes) in zip(one, other, strict=True):
        if kind != wanted or len(shape) != len(sizes):
            return False
        for size, known in zip(shape, sizes, strict=True):
            if type(size) is int and type(known) is int and size != known:
                return False
    return True


def _ports(value: Any) -> list[int]:
    if isinstance(value, Port):
        return [int(value)]
    if isinstance(value, (list, tuple)):
        return [port for item in value for port in _ports(item)]
    return []


def _fits(arg: Any, value: Any) -> bool:
    """Whether a value is one that the argument's declaration allows."""
    number = type(value) in (bool, int, float)
    if arg.kind == "tensor":
        if arg.sequence and (value is not None or not arg.optional):
            return type(value) is list and all(type(item) is Port for item in value)
        return (
            type(value) is Port or value is None and arg.optional or number and bool(arg.number)
        )  # fmt: skip
    if value is None:
        return True
    if arg.kind == "scalar":
        return number and (arg.type != "int" or type(value) is not float)
    whole = type(value) in (bool, int) or isinstance(value, SymInt)
    items = value if type(value) in (list, tuple) else None
    if arg.type == "int":
        return whole or items is not None and len(items) == 1 and _whole(items[0])
    if arg.type == "ints":
        return whole or items is not None and all(_whole(item) for item in items)
    if arg.type in ("float", "number"):
        return number or isinstance(value, SymInt)
    if arg.type == "floats":
        return number or items is not None and all(
            type(item) in (bool, int, float) for item in items
        )  # fmt: skip
    if arg.type == "bool":
        return type(value) in (bool, int)
    if arg.type == "dtype":
        return isinstance(value, dtypes.dtype)
    if arg.type == "device":
        return type(value) in (str, Device)
    return type(value) is str


def _whole(value: Any) -> bool:
    return type(value) in (bool, int) or isinstance(value, SymInt)
