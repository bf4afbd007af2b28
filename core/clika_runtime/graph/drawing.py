"""A graph for people: the table that `repr` gives, and drawings as SVG and as DOT.

The drawing is laid out in layers from top to bottom: a node lies below what it reads (longest path,
inputs next to their first reader), and within a layer near the middle of its neighbours (Sugiyama,
Tagawa and Toda, 1981: the barycentre method, here with one straight lane for an edge that
passes layers).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from .. import ops
from ..errors import InvalidArgumentError
from ..ops.record import ELEMENTWISE, REDUCTION, VIEW
from .activations import IDENTITY
from .opcode import AFTER, STRUCTURAL

if TYPE_CHECKING:
    from .._native._graph import GraphStore as _Base
else:
    _Base = object

TABLE_ROWS = 200
DRAWN_NODES = 2000
COLOURS = {
    "input": "#d5e8d4",
    "output": "#e1d5e7",
    "product": "#dae8fc",
    "elementwise": "#fff2cc",
    "reduction": "#ffe6cc",
    "view": "#f5f5f5",
    "write": "#f8cecc",
    "subgraphs": "#ffffff",
    "other": "#e8eef7",
}
_PRODUCTS = re.compile(
    r"matmul|linear|conv\w*|einsum|bilinear|(scaled_dot_product|paged)_attention"
)
# What XML 1.0 has no character for, and line breaks.
_UNFIT = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LETTER, _LINE, _MARGIN, _GAP, _LAYER = 7.0, 15.0, 8.0, 24.0, 44.0  # pixels
_LONGEST = 48  # characters of a line in a drawing
_TOLD = 24  # characters of an argument in the table


def table(graph: Any) -> str:
    """One row per node: name, operator, what it reads and the arguments that are not the default,
    what it gives; the first `TABLE_ROWS`."""
    rows = []
    ids = graph.node_ids()
    for number in ids[:TABLE_ROWS]:
        node = graph.node_view(number)
        kind = node.op_code.name if node.op_code is not None else "Input"
        reads = ", ".join([*(value.name for value in node.inputs), *_told(graph, number)])
        gives = ", ".join(
            f"{value.name}: {value.spec().dtype}{list(value.shape)}" for value in node.outputs
        )
        rows.append((node.name, kind, reads, gives))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [f"ModelGraph '{graph.name}': {len(ids)} nodes, outputs {graph.output_names()}"]
    lines += [
        "  "
        + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False))
        + f"  -> {row[3]}"
        for row in rows
    ]
    if len(ids) > len(rows):
        lines.append(f"  ... and {len(ids) - len(rows)} more nodes")
    return "\n".join(lines)


def _told(graph: Any, node: int) -> list[str]:
    """The arguments of a node that are no tensors and not what their operator's record says."""
    found = graph._attributes(node)
    if found.get("activation") == IDENTITY:
        del found["activation"]
    op = graph.op(node)
    usual = {arg.name: arg.default for arg in ops.record(op).args} if op in ops.RECORDS else {}
    told = []
    for name, value in found.items():
        if type(value) is not type(usual.get(name)) or value != usual[name]:
            text = value if isinstance(value, str) and value.isprintable() else repr(value)
            told.append(f"{name}={text if len(text) <= _TOLD else text[: _TOLD - 1] + '…'}")
    return told


class Drawing(_Base):
    """`draw` of a `ModelGraph`."""

    def draw(self: Any, path: str | os.PathLike[str]) -> None:
        """Draws the graph to a file: SVG where the path ends with ``.svg``, Graphviz' DOT where it
        ends with ``.dot`` or ``.gv``. Nodes are coloured by what they do, edges say what they
        carry, and subgraphs are boxes within their node. The file appears only when it is complete.

        Raises `InvalidArgumentError` for another ending, and for more than 2,000 nodes with those
        of subgraphs: draw a part, made with `extract` or `split`.

        >>> import pathlib, tempfile, clika_runtime as crt
        >>> spec = crt.TensorSpec("x", crt.float32, [2])
        >>> graph = crt.trace(lambda x: [crt.relu(x[0])], [spec]).graph
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "model.dot")
        ...     graph.draw(path)
        ...     lines = path.read_text().splitlines()
        >>> print(lines[5])
          n0 -> n1 [label="float32[2]"];
        """
        from ..io._files import write_atomic

        self._check_whole("draw")
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        forms = {".svg": svg, ".dot": dot, ".gv": dot}
        if suffix not in forms:
            raise InvalidArgumentError(
                f"draw: the path must end with .svg, .dot or .gv, got {os.fspath(path)!r}"
            )
        count = _count(self)
        if count > DRAWN_NODES:
            raise InvalidArgumentError(
                f"draw: the graph has {count} nodes, more than the {DRAWN_NODES} that a drawing "
                "shows; draw a part of it: extract(graph, inputs, outputs) or split()"
            )
        write_atomic(os.fspath(path), [forms[suffix](self).encode("utf-8", "replace")])


def _count(graph: Any) -> int:
    bodies = (body for bodies in graph._bodies.values() for body in bodies)
    return len(graph.node_ids()) + sum(_count(body) for body in bodies)


# ---------------------------------------------------------------- what is drawn
@dataclass
class _Item:
    """A node of the graph or one of its outputs."""

    kind: str
    lines: list[str]
    title: str
    bodies: list[_Sheet] = field(default_factory=list)
    layer: int = 0
    x: float = 0.0  # of its upper left corner
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


@dataclass
class _Sheet:
    """One graph: items, and edges (from, to, label)."""

    name: str
    items: list[_Item] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    lanes: dict[int, float] = field(default_factory=dict)  # edges past layers: where they go down
    width: float = 0.0
    height: float = 0.0


def _sheet(graph: Any) -> _Sheet:
    """The items and edges of a graph, in topological order."""
    sheet = _Sheet(graph.name)
    makers: dict[int, int] = {}
    for at, node in enumerate(graph.node_ids()):
        name, op = graph.node_name(node), graph.op(node)
        for value in graph.results(node):
            makers[value] = at
        held = [
            f"{graph.value_name(value)}: {_carried(graph, value)}"
            for value in graph.ports(node)
            if value >= 0 and value in graph._constants
        ]
        code = graph.node_view(node).op_code
        lines = [name if code is None else code.name, *([name] if op else []), *held[:3]]
        if len(held) > 3:
            lines.append(f"and {len(held) - 3} more constants")
        attributes = graph._attributes(node)
        title = ", ".join(f"{key}={value!r}" for key, value in attributes.items())
        bodies = [_sheet(body) for body in graph._bodies.get(node, ())]
        sheet.items.append(_Item(_kind(graph, node), lines, f"{name}: {title[:500]}", bodies))
        for value in graph.ports(node):
            if value in makers:
                sheet.edges.append((makers[value], at, _carried(graph, value)))
    for name, value in graph.output_list():
        if value in makers:
            sheet.edges.append((makers[value], len(sheet.items), _carried(graph, value)))
        sheet.items.append(_Item("output", [name], f"output {name}"))
    return sheet


def _carried(graph: Any, value: int) -> str:
    spec = graph._spec(value)
    return f"{spec.dtype.name}[{', '.join(str(size) for size in graph._shape(value))}]"


def _kind(graph: Any, node: int) -> str:
    op = graph.op(node)
    if not op:
        return "input"
    if node in graph._bodies:
        return "subgraphs"
    if op in STRUCTURAL:
        return "view" if op == AFTER else "other"
    record = ops.record(op)
    if record.mutates:
        return "write"
    if _PRODUCTS.fullmatch(op):
        return "product"
    for trait, kind in ((VIEW, "view"), (ELEMENTWISE, "elementwise"), (REDUCTION, "reduction")):
        if trait in record.traits:
            return kind
    return "other"


def _cut(text: str) -> str:
    text = _UNFIT.sub("\ufffd", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# ---------------------------------------------------------------- DOT
def dot(graph: Any) -> str:
    """The graph in Graphviz' language."""
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        '  node [shape=box, style="filled,rounded", fontname="sans-serif"];',
    ]
    _dot_sheet(_sheet(graph), "n", "  ", lines)
    return "\n".join([*lines, "}", ""])


def _dot_sheet(sheet: _Sheet, prefix: str, indent: str, lines: list[str]) -> None:
    for at, item in enumerate(sheet.items):
        label = "\\n".join(_quoted(_cut(line))[1:-1] for line in item.lines)
        shown = f'{prefix}{at} [label="{label}", fillcolor="{COLOURS[item.kind]}"];'
        if not item.bodies:
            lines.append(indent + shown)
            continue
        lines.append(f"{indent}subgraph cluster_{prefix}{at} {{")
        lines.append(f"{indent}  {shown}")
        for k, body in enumerate(item.bodies):
            lines.append(f"{indent}  subgraph cluster_{prefix}{at}_{k}_ {{")
            lines.append(f"{indent}    label={_quoted(_cut(body.name))};")
            _dot_sheet(body, f"{prefix}{at}_{k}_", indent + "    ", lines)
            lines.append(f"{indent}  }}")
        lines.append(f"{indent}}}")
    for source, target, label in sheet.edges:
        lines.append(f"{indent}{prefix}{source} -> {prefix}{target} [label={_quoted(label)}];")


def _quoted(text: str) -> str:
    text = _UNFIT.sub("\ufffd", text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


# ---------------------------------------------------------------- SVG
def svg(graph: Any) -> str:
    """The graph as a picture."""
    sheet = _sheet(graph)
    _arrange(sheet)
    parts: list[str] = []
    _svg_sheet(sheet, 0.0, 0.0, parts)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{sheet.width:.0f}" '
            f'height="{sheet.height:.0f}" viewBox="0 0 {sheet.width:.0f} {sheet.height:.0f}" '
            'font-family="sans-serif" font-size="12">',
            f"<title>{_plain(graph.name)}</title>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
            f'<rect width="{sheet.width:.0f}" height="{sheet.height:.0f}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _plain(text: str) -> str:
    return escape(_UNFIT.sub("\ufffd", text))


def _arrange(sheet: _Sheet) -> None:
    """Sizes and places of all items, and the size of the sheet."""
    items = sheet.items
    for item in items:
        for body in item.bodies:
            _arrange(body)
        widest = max(len(_cut(line)) for line in item.lines)
        inner = sum(body.width + _MARGIN for body in item.bodies) + _MARGIN
        item.width = max(widest * _LETTER + 2 * _MARGIN, inner if item.bodies else 0.0)
        item.height = len(item.lines) * _LINE + _MARGIN
        if item.bodies:
            item.height += max(body.height for body in item.bodies) + _LINE + _MARGIN
    for source, target, _ in sheet.edges:
        items[target].above.append(source)
        items[source].below.append(target)
    for item in items:  # each comes after what it reads
        item.layer = max((items[at].layer + 1 for at in item.above), default=0)
    for item in items:
        if not item.above and item.below:
            item.layer = min(items[at].layer for at in item.below) - 1
    layers: list[list[int]] = [[] for _ in range(max((i.layer for i in items), default=0) + 1)]
    for at, item in enumerate(items):
        layers[item.layer].append(at)
    _order(items, layers)
    _place(items, layers)
    for at, (source, target, _) in enumerate(sheet.edges):
        if items[target].layer - items[source].layer > 1:
            sheet.lanes[at] = _lane(items, layers, items[source], items[target])
    left = min((*(item.x for item in items), *sheet.lanes.values()), default=0.0)
    sheet.lanes = {at: x + 2 * _MARGIN - left for at, x in sheet.lanes.items()}
    top = _LINE + 2 * _MARGIN
    for layer in layers:
        for at in layer:
            items[at].x += 2 * _MARGIN - left
            items[at].y = top
        top += max((items[at].height for at in layer), default=0.0) + _LAYER
    right = max((*(item.x + item.width for item in items), *sheet.lanes.values()), default=0.0)
    sheet.width = right + 2 * _MARGIN
    sheet.width = max(sheet.width, len(_cut(sheet.name)) * _LETTER + 2 * _MARGIN)
    sheet.height = top - _LAYER + 2 * _MARGIN


def _order(items: list[_Item], layers: list[list[int]]) -> None:
    """The order within each layer: by the mean place of the neighbours, down and up, twice."""
    place = {at: float(k) for layer in layers for k, at in enumerate(layer)}
    for down in (True, False, True, False, True):
        for layer in layers if down else reversed(layers):
            means = {}
            for at in layer:
                near = items[at].above if down else items[at].below
                means[at] = sum(place[k] for k in near) / len(near) if near else place[at]
            layer.sort(key=means.__getitem__)
            place.update((at, float(k)) for k, at in enumerate(layer))


def _place(items: list[_Item], layers: list[list[int]]) -> None:
    """Each item below the middle of what it reads, as far as its neighbours leave room."""
    for layer in layers:
        right, shifts = None, []
        for at in layer:
            item = items[at]
            middles = [items[k].x + items[k].width / 2 for k in item.above]
            wanted = sum(middles) / len(middles) - item.width / 2 if middles else 0.0
            item.x = wanted if right is None else max(wanted, right)
            shifts.append(item.x - wanted)
            right = item.x + item.width + _GAP
        shift = sum(shifts) / len(shifts) if shifts else 0.0
        for at in layer:
            items[at].x -= shift


def _lane(items: list[_Item], layers: list[list[int]], source: _Item, target: _Item) -> float:
    """Where an edge passes the layers between its ends: beside the nodes that are in its way."""
    low = high = (source.x + source.width / 2 + target.x + target.width / 2) / 2
    between = [items[at] for layer in layers[source.layer + 1 : target.layer] for at in layer]
    for _ in range(3):  # what is in the way grows with what it meets
        met = (low, high)
        for item in between:
            if item.x < high + _GAP / 2 and item.x + item.width > low - _GAP / 2:
                low, high = min(low, item.x), max(high, item.x + item.width)
        if met == (low, high):
            break
    middle = target.x + target.width / 2
    return low - _GAP / 2 if middle - low < high - middle else high + _GAP / 2


def _svg_sheet(sheet: _Sheet, left: float, top: float, parts: list[str]) -> None:
    items = sheet.items
    parts.append(
        f'<text x="{left + _MARGIN:.0f}" y="{top + _LINE:.0f}" font-weight="bold">'
        f"{_plain(_cut(sheet.name))}</text>"
    )
    labels = []
    for at, (source, target, label) in enumerate(sheet.edges):
        one, two = items[source], items[target]
        x1, y1 = left + one.x + one.width / 2, top + one.y + one.height
        reads = two.above
        share = (reads.index(source) + 1) / (len(reads) + 1)
        x2, y2 = left + two.x + two.width * share, top + two.y
        bend = min(y2 - y1, _LAYER) / 2
        path = f"M{x1:.0f} {y1:.0f}"
        middle = (x1 + x2) / 2
        if at in sheet.lanes:
            middle = left + sheet.lanes[at]
            down, up = y1 + 2 * bend, y2 - 2 * bend
            path += (
                f"C{x1:.0f} {y1 + bend:.0f} {middle:.0f} {y1 + bend:.0f} {middle:.0f} {down:.0f}"
            )
            path += f"L{middle:.0f} {up:.0f}C{middle:.0f} {up + bend:.0f} {x2:.0f} {up + bend:.0f}"
        else:
            path += f"C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f}"
        parts.append(
            f'<path d="{path} {x2:.0f} {y2:.0f}" fill="none" stroke="#666" '
            'marker-end="url(#arrow)"/>'
        )
        labels.append(
            f'<text x="{middle:.0f}" y="{(y1 + y2) / 2:.0f}" font-size="10" fill="#444" '
            f'text-anchor="middle">{_plain(_cut(label))}</text>'
        )
    for item in items:
        x, y = left + item.x, top + item.y
        parts.append(
            f'<g><title>{_plain(item.title)}</title><rect x="{x:.0f}" y="{y:.0f}" '
            f'width="{item.width:.0f}" height="{item.height:.0f}" rx="5" '
            f'fill="{COLOURS[item.kind]}" stroke="#555"/>'
        )
        for k, line in enumerate(item.lines):
            weight = ' font-weight="bold"' if k == 0 else ""
            parts.append(
                f'<text x="{x + item.width / 2:.0f}" y="{y + _LINE * (k + 1):.0f}" '
                f'text-anchor="middle"{weight}>{_plain(_cut(line))}</text>'
            )
        inner = x + _MARGIN
        for body in item.bodies:
            below = y + len(item.lines) * _LINE + _MARGIN
            parts.append(
                f'<rect x="{inner:.0f}" y="{below:.0f}" width="{body.width:.0f}" '
                f'height="{body.height:.0f}" fill="none" stroke="#999" stroke-dasharray="4"/>'
            )
            _svg_sheet(body, inner, below, parts)
            inner += body.width + _MARGIN
        parts.append("</g>")
    parts.extend(labels)
