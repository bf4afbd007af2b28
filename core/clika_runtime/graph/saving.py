"""`save` and `load` of a `ModelGraph`: one safetensors file. Its tensors are the graph's constants,
each stretch of bytes once however many constants show it; its metadata holds the graph as a JSON
document under the name `FORMAT`, with a version. A weight in a backend's own layout is stored as it
was published, with the mode that it was packed for; `load` packs it for the backend at hand.

The document refers to everything by its place in a list, and holds data only: an operator is a name
that has to be known, and nothing that a file says is called or imported. A symbolic size is the
text of a polynomial over symbols ``s0``, ``s1``, ..., which are listed with their names and bounds.
"""

from __future__ import annotations

import ctypes
import json
import numbers
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import dtypes
from .._native._core import Port, SymInt, device_of, pack_mode, tracing_scope, unpack_weight
from ..device import Device
from ..errors import InternalError, UnsupportedError
from .opcode import CUSTOM

if TYPE_CHECKING:
    from .._native._graph import GraphStore as _Base
    from .model_graph import ModelGraph
else:
    _Base = object

FORMAT = "clika_runtime.graph"
VERSION = 1
DOCUMENT_LIMIT = 32 << 20  # characters
DEPTH_LIMIT = 32  # of bodies in bodies
SIZE_LIMIT = 4096  # characters of a symbolic size
SIZES_LIMIT = 256 << 10  # characters of all of them
NESTING_LIMIT = 64  # quotients within a size
ALIGNMENT = 64  # of a piece of memory within a stored tensor


class Saving(_Base):
    """`save` and `load` of a `ModelGraph`."""

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Writes the graph and its constants to one safetensors file, as it stands now: the tensors
        that runs rewrite with what they hold. The file appears only when it is complete.

        What `finalize` made is not part of it. Raises `UnsupportedError` for a node with a kernel
        of the user's own, and for a weight in the layout of a backend that has no way back to the
        published form (``NOT_IMPLEMENTED_FOR_LAYOUT``).

        >>> import os, tempfile, clika_runtime as crt
        >>> spec = crt.TensorSpec("x", crt.float32, [2])
        >>> graph = crt.trace(lambda x: [x[0] + crt.tensor([1.0, 2.0])], [spec]).graph
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graph.save(os.path.join(folder, "model.safetensors"))
        ...     loaded = crt.graph.ModelGraph.load(os.path.join(folder, "model.safetensors"))
        >>> loaded.finalize()
        >>> loaded.run([crt.tensor([1.0, 1.0])])[0].tolist()
        [2.0, 3.0]
        """
        self._check_whole("save")
        with tracing_scope(None):
            _Writer(self).write(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ModelGraph:
        """Reads a graph that `save` wrote. Its constants stay in the file's mapping, apart from
        those that runs rewrite and weights that are packed again.

        Raises `NotFoundError` where there is no such file (``NO_SUCHFILE``) or no such operator
        (``NOT_FOUND``), `UnsupportedError` for a file of a newer version, and
        `InvalidArgumentError` (``MALFORMED_FILE``) for everything that is wrong inside the file.
        """
        from .loading import read

        with tracing_scope(None):
            return read(path)


@dataclass
class _Shown:
    """A constant: the memory it shows, and its entry in the document."""

    owner: tuple[int, int]  # the graph and the constant whose bytes it shares
    name: str
    tensor: Any
    entry: dict[str, Any]
    begin: int
    end: int


@dataclass
class _Group:
    """Constants that share bytes: pieces of memory, [begin, end) each, in ascending order."""

    shown: list[_Shown] = field(default_factory=list)
    pieces: list[list[int]] = field(default_factory=list)


@dataclass
class _Packed:
    """A weight in its backend's own layout, which no other constant shares bytes of: what is shown
    of it in the document."""

    name: str
    tensor: Any
    entries: list[dict[str, Any]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return payload_bytes(self.tensor)

    def payload(self) -> memoryview:
        try:
            published = unpack_weight(self.tensor).cpu()
        except UnsupportedError as error:
            raise UnsupportedError(
                f"save: the constant '{self.name}' cannot be written: {error}", error.code_name
            ) from None
        return memoryview(published.bytes())


class _Writer:
    def __init__(self, graph: ModelGraph) -> None:
        self.graph = graph
        self.recordings: list[Any] = []  # tracers, one for each set of symbolic sizes
        self.sizes: list[list[dict[str, int]]] = []  # per recording: what holds one of its sizes
        self.constants: list[_Shown] = []
        self.packed: dict[tuple[Any, ...], _Packed] = {}  # by the memory that they lie in

    def write(self, path: str | os.PathLike[str]) -> None:
        from ..io import write_safetensors

        entry = self.graph_entry(self.graph, 0)
        tensors = self.tensors()
        document = {
            "version": VERSION,
            "recordings": [self.recording(index) for index in range(len(self.recordings))],
            "graph": entry,
        }
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        if len(text) > DOCUMENT_LIMIT:
            raise UnsupportedError(
                f"save: the graph takes {len(text)} characters, more than {DOCUMENT_LIMIT}"
            )
        write_safetensors(path, tensors, {FORMAT: text})

    # ---------------------------------------------------------- the graph
    def graph_entry(self, graph: Any, depth: int) -> dict[str, Any]:
        if depth > DEPTH_LIMIT:
            raise UnsupportedError(f"save: subgraphs nest deeper than {DEPTH_LIMIT}")
        recording = self.recording_of(graph._tracer)
        values = _sources_first(graph)
        nodes = sorted(graph.node_ids())
        place = {value: at for at, value in enumerate(values)}
        places = {node: at for at, node in enumerate(nodes)}
        return {
            "name": graph.name,
            "recording": recording,
            "operators": graph._operators,
            "placed": None if graph._placed is None else str(graph._placed),
            "from_file": graph._from_file,
            "pinned": dict(graph._pinned),
            "values": [self.value(graph, recording, value, place) for value in values],
            "nodes": [self.node(graph, recording, node, place, depth) for node in nodes],
            "inputs": [places[node] for node in graph.input_ids()],
            "outputs": [[name, place[value]] for name, value in graph.output_list()],
            "states": [
                [place[value], place[root]]
                for value, root in graph._states.items()
                if value in place and root in place
            ],
        }

    def value(self, graph: Any, recording: int, value: int, place: dict[int, int]) -> Any:

        dtype, scheme, device, shape, alias, write = graph.meta(value)
        node, port = graph.producer_id(value)
        entry: dict[str, Any] = {
            "dtype": dtypes.by_code(dtype).name,
            "device": str(device_of(device)),
            "shape": [self.size(recording, size) for size in shape],
        }
        if scheme:
            entry["scheme"] = scheme
        if node < 0:
            entry["name"] = graph.value_name(value)
            self.constant(graph, value, entry)
            return entry
        label = graph.value_name(value)
        if graph.op(node) and label != f"{graph.node_name(node)}_{port}":
            entry["name"] = label
        if alias >= 0:
            if alias not in place:
                raise InternalError(f"save: '{label}' shares the bytes of a value that is gone")
            entry["alias"] = place[alias]
            entry["write"] = write
        return entry

    def constant(self, graph: Any, value: int, entry: dict[str, Any]) -> None:
        tensor = graph._constants[value]
        name = entry["name"]
        if tensor.layout:
            kind = (tensor.dtype, tensor.scheme, tuple(tensor.shape))
            place = (tensor.device, tensor.data_ptr(), *kind)
            self.packed.setdefault(place, _Packed(name, tensor)).entries.append(entry)
            return
        tensor = tensor.cpu()
        if tensor.scheme:
            nbytes = payload_bytes(tensor)
        else:
            nbytes = (reach(tensor.shape, tensor.stride()) * tensor.dtype.bits + 7) // 8
        begin = tensor.data_ptr() if nbytes else 0
        root, alias = value, graph.meta(value)[4]
        while alias >= 0:
            root, alias = alias, graph.meta(alias)[4]
        shown = _Shown((id(graph), root), name, tensor, entry, begin, begin + nbytes)
        self.constants.append(shown)

    def node(
        self, graph: Any, recording: int, node: int, place: dict[int, int], depth: int
    ) -> dict[str, Any]:
        op, name = graph.op(node), graph.node_name(node)
        if op == CUSTOM:
            raise UnsupportedError(
                f"save: the node '{name}' is a kernel of your own, which a file cannot hold"
            )
        entry: dict[str, Any] = {
            "op": op,
            "name": name,
            "inputs": [place[value] if value >= 0 else -1 for value in graph.ports(node)],
            "outputs": [place[value] for value in graph.results(node)],
        }
        if op:
            entry["call"] = [self.argument(name, recording, arg) for arg in graph._calls[node]]
        if node in graph._extras:
            entry["extras"] = {
                key: self.argument(name, recording, value)
                for key, value in graph._extras[node].items()
            }
        if node in graph._bodies:
            entry["bodies"] = [self.graph_entry(body, depth + 1) for body in graph._bodies[node]]
        return entry

    def argument(self, name: str, recording: int, value: Any) -> Any:
        """An argument in JSON; what JSON has no form for is an object with one key."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, Port):
            return {"port": int(value)}
        if isinstance(value, SymInt):
            tracer = self.recordings[recording]
            return self.size(recording, tracer.encoded(value))
        if isinstance(value, dtypes.dtype):
            return {"dtype": value.name}
        if isinstance(value, Device):
            return {"device": str(value)}
        if isinstance(value, tuple):
            return {"tuple": [self.argument(name, recording, item) for item in value]}
        if isinstance(value, list):
            return [self.argument(name, recording, item) for item in value]
        if hasattr(value, "__index__"):
            return int(value.__index__())
        if isinstance(value, numbers.Real):
            return {"float": float(value).hex()}
        raise UnsupportedError(
            f"save: the node '{name}' has an argument of type {type(value).__name__}, which a file "
            "cannot hold"
        )

    # ---------------------------------------------------------- sizes
    def recording_of(self, tracer: Any) -> int:
        """The set of sizes that a tracer works with: bodies share that of the graph around them."""
        for index, known in enumerate(self.recordings):
            if known is tracer or (
                known.symbols() and tracer.symbols() and known.size(-1) == tracer.size(-1)
            ):
                return index
        self.recordings.append(tracer)
        self.sizes.append([])
        return len(self.recordings) - 1

    def size(self, recording: int, size: int) -> Any:
        if size >= 0:
            return size
        entry = {"size": size}  # exchanged for its place in the list, once all are known
        self.sizes[recording].append(entry)
        return entry

    def recording(self, index: int) -> dict[str, Any]:
        """Symbols with their bounds, and the sizes in the order they were made."""
        from .model_graph import ModelGraph

        tracer, entries = self.recordings[index], self.sizes[index]
        holder: Any = ModelGraph("sizes")
        symbols = list(zip(tracer.symbols(), tracer.symbol_bounds(), strict=True))
        given = {
            name: holder._tracer.encoded(holder._tracer.symbol(f"s{at}", *bounds))
            for at, (name, bounds) in enumerate(symbols)
        }
        used = sorted({entry["size"] for entry in entries}, reverse=True)
        texts = [
            repr(holder._tracer.size(holder._tracer.taken(tracer, size, given))) for size in used
        ]
        if sum(map(len, texts)) > SIZES_LIMIT or any(
            len(text) > SIZE_LIMIT or nesting(text) > NESTING_LIMIT for text in texts
        ):
            raise UnsupportedError("save: the symbolic sizes of the graph are too long for a file")
        place = {size: at for at, size in enumerate(used)}
        for entry in entries:
            entry["size"] = place[entry["size"]]
        return {
            "symbols": [[name, low, high] for name, (low, high) in symbols],
            "sizes": texts,
        }

    # ---------------------------------------------------------- constants
    def tensors(self) -> dict[str, tuple[str, tuple[int, ...], Any]]:
        """The stored tensors; tells the constants' entries where they are. Bytes that constants of
        different types or places share, and packed ones, are stored as a row of uint8."""
        from ..io.safetensors import _FILE_NAMES

        found: dict[str, tuple[str, tuple[int, ...], Any]] = {}
        for group in _groups(self.constants):
            first = group.shown[0]
            key = _unused(first.name, found)
            tensor = first.tensor
            alike = all(
                (item.begin, item.end) == (first.begin, first.end)
                and item.tensor.dtype is tensor.dtype
                and not item.tensor.scheme
                and tuple(item.tensor.shape) == tuple(tensor.shape)
                and item.tensor.is_contiguous()
                for item in group.shown
            )
            if alike and tensor.dtype.name in _FILE_NAMES and tensor.dtype.bits % 8 == 0:
                for item in group.shown:
                    item.entry["data"] = {"tensor": key}
                found[key] = (tensor.dtype.name, tuple(tensor.shape), _memory(*group.pieces[0]))
                continue
            starts, position = [], 0
            for begin, end in group.pieces:
                starts.append(position)
                position += end - begin + (begin - end) % ALIGNMENT
            for item in group.shown:
                at = max(i for i, (begin, _) in enumerate(group.pieces) if begin <= item.begin)
                data: dict[str, Any] = {
                    "tensor": key,
                    "offset": starts[at] + item.begin - group.pieces[at][0],
                }
                if not item.tensor.scheme and not item.tensor.is_contiguous():
                    data["strides"] = list(item.tensor.stride())
                item.entry["data"] = data
            found[key] = ("uint8", (position,), partial(_row, position, starts, group.pieces))
        for weight in self.packed.values():
            key = _unused(weight.name, found)
            for entry in weight.entries:
                entry["data"] = {"tensor": key, "pack": pack_mode(weight.tensor)}
            shown = weight.tensor
            if shown.scheme:
                found[key] = ("uint8", (weight.nbytes,), weight.payload)
            else:
                found[key] = (shown.dtype.name, tuple(shown.shape), weight.payload)
        return found


def _sources_first(graph: Any) -> list[int]:
    """The values in their order, each after the one whose bytes it shares."""
    found: dict[int, None] = {}
    for value in graph.alive_values():
        path = [value]
        while (alias := graph.meta(path[-1])[4]) >= 0 and graph.value_is_alive(alias):
            if alias in found or alias in path:
                break
            path.append(alias)
        found.update(dict.fromkeys(reversed(path)))
    return list(found)


def reach(shape: Any, strides: Any) -> int:
    """How many elements lie from a tensor's first to its last, both included.

    >>> reach((2, 3), (4, 1))
    7
    """
    if 0 in tuple(shape):
        return 0
    last: int = sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    return last + 1


def nesting(text: str) -> int:
    """How deep the brackets of a text nest.

    >>> nesting("((a // 2) % 3)")
    2
    """
    depth = most = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        most = max(most, depth)
    return most


def _groups(constants: list[_Shown]) -> list[_Group]:
    """Constants by the memory that they share, in their order."""
    leader: dict[Any, Any] = {}

    def find(key: Any) -> Any:
        while leader.setdefault(key, key) != key:
            key = leader[key]
        return key

    pieces: list[tuple[list[int], Any]] = []
    for item in sorted(constants, key=lambda item: (item.begin, item.end)):
        if pieces and item.begin < pieces[-1][0][1]:
            piece, owner = pieces[-1]
            piece[1] = max(piece[1], item.end)
            leader[find(item.owner)] = find(owner)
        else:
            pieces.append(([item.begin, item.end], item.owner))
    groups: dict[Any, _Group] = {}
    for item in constants:
        groups.setdefault(find(item.owner), _Group()).shown.append(item)
    for piece, owner in pieces:
        groups[find(owner)].pieces.append(piece)
    return list(groups.values())


def payload_bytes(weight: Any) -> int:
    """The bytes of a weight as it was published."""
    from ..io import SCHEMES

    if not weight.scheme:
        return int(weight.dtype.nbytes(weight.numel()))
    block = SCHEMES[weight.scheme]
    count: int = weight.numel() // block.columns * block.nbytes
    return count


def _row(size: int, starts: list[int], pieces: list[list[int]]) -> bytearray:
    """Pieces of memory, each at its start."""
    row = bytearray(size)
    for start, (begin, end) in zip(starts, pieces, strict=True):
        row[start : start + end - begin] = _memory(begin, end)
    return row


def _memory(begin: int, end: int) -> memoryview:
    """The bytes at an address, which a tensor keeps there."""
    if end == begin:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * (end - begin)).from_address(begin)).cast("B")


def _unused(name: str, taken: dict[str, Any]) -> str:
    """A name for a stored tensor, after the constant's."""
    base = name.encode("utf-8", "replace").decode() or "constant"
    base = base if not base.startswith("__") else f"_{base.strip('_')}"
    label, count = base, 0
    while label in taken:
        count += 1
        label = f"{base}.{count}"
    return label
