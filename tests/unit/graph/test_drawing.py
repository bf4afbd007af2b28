"""Drawings of graphs: the table, DOT and SVG."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.graph import ModelGraph, TensorSpec
from clika_runtime.graph.control import cond, loop
from clika_runtime.graph.drawing import DRAWN_NODES, TABLE_ROWS

from .test_transforms import Block, _random_model
from .traced_graphs import draw, trace

SVG = "{http://www.w3.org/2000/svg}"


def picture(graph: ModelGraph, folder: Path) -> Any:
    """The parsed SVG."""
    graph.draw(folder / "a.svg")
    assert [file.name for file in folder.iterdir()] == ["a.svg"]
    return ET.parse(folder / "a.svg").getroot()


def texts(root: Any) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def boxes(root: Any) -> list[tuple[float, float, float, float]]:
    """(x, y, width, height) of the nodes outside of subgraphs."""
    found = []
    for group in root.findall(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        found.append(tuple(float(rect.get(key)) for key in ("x", "y", "width", "height")))
    return found


def chain(length: int) -> ModelGraph:
    """A path of so many nodes, made without a trace."""
    graph = crt.trace(lambda x: [x[0]], [TensorSpec("x", crt.float32, [2])]).graph
    (value,) = graph.results(graph.input_ids()[0])
    record = crt.ops.record("relu")
    for _ in range(length - 1):
        call = [crt.graph.model_graph.Port(0)]
        assert len(call) == len(record.args)
        (value,) = graph._add_operator("relu", call, [value], [(crt.float32.code, 0, 0, (2,))])
    graph.set_output_list([("y", value)])
    return graph


def test_table_is_cut() -> None:
    lines = repr(chain(TABLE_ROWS)).splitlines()
    assert len(lines) == TABLE_ROWS + 1
    lines = repr(chain(TABLE_ROWS + 7)).splitlines()
    assert len(lines) == TABLE_ROWS + 2
    assert lines[0].startswith(f"ModelGraph '<lambda>': {TABLE_ROWS + 7} nodes")
    assert lines[-1] == "  ... and 7 more nodes"


def test_svg_shows_nodes_edges_and_shapes(tmp_path: Path) -> None:
    weight = draw(1, 4, 3)
    graph = trace(
        lambda x: crt.softmax(crt.relu(x @ weight), -1),
        draw(2, 5, 4),
        output_names=["p"],
        dynamic_axes={"x": {0: "batch"}},
    )
    root = picture(graph, tmp_path)
    shown = texts(root)
    for name in ("x", "MatMul", "MatMul_1", "constant_1: float32[4, 3]", "Relu", "Softmax", "p"):
        assert shown.count(name) == 1, name
    assert shown.count("float32[batch, 3]") == 3 and shown.count("float32[batch, 4]") == 1
    fills = {r.get("fill") for r in root.iter(f"{SVG}rect")}
    assert len(fills - {"white"}) == 5  # input, product, elementwise, another, output
    tops = [box[1] for box in boxes(root)]
    assert tops == sorted(tops) and len(set(tops)) == 5  # one below the other


def test_boxes_do_not_overlap_and_lie_in_the_picture(tmp_path: Path) -> None:
    for seed in range(12):
        root = picture(trace(_random_model(seed), draw(seed, 4, 4)), tmp_path)
        width, height = float(root.get("width")), float(root.get("height"))
        found = boxes(root)
        for at, (x, y, w, h) in enumerate(found):
            assert x >= 0 and y >= 0 and x + w <= width + 1 and y + h <= height + 1
            for x2, y2, w2, h2 in found[:at]:
                apart = x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
                assert apart, seed


def test_edges_pass_beside_the_nodes_between(tmp_path: Path) -> None:
    """A residual's edge runs beside the chain that it skips."""

    def fn(x: Any) -> Any:
        y = x
        for _ in range(4):
            y = crt.tanh(y)
        return x + y

    root = picture(trace(fn, draw(1, 2)), tmp_path)
    paths = [path.get("d") for path in root.iter(f"{SVG}path")]
    (lane,) = [re.findall(r"L(\d+)", path)[0] for path in paths if "L" in path and "z" not in path]
    chain = boxes(root)[1:5]
    assert all(not x <= float(lane) <= x + w for x, _, w, _ in chain)
    assert 0 <= float(lane) <= float(root.get("width"))


def test_subgraphs_are_boxes_in_their_node(tmp_path: Path) -> None:
    def fn(x: Any) -> Any:
        (y,) = cond(x.sum() > 0, lambda a: a * 2.0, lambda a: -a, [x])
        return loop(2, None, lambda i, go, v: (go, *cond(go, crt.tanh, crt.exp, [v])), [y])

    graph = trace(fn, draw(1, 2))
    root = picture(graph, tmp_path)
    assert {"Mul", "Neg", "Tanh", "Exp", "If", "Loop"} <= set(texts(root))
    outer = next(
        g for g in root.findall(f"{SVG}g") if "Loop" in [t.text for t in g.findall(f"{SVG}text")]
    )
    rects = [
        [float(rect.get(key)) for key in ("x", "y", "width", "height")]
        for rect in outer.iter(f"{SVG}rect")
    ]
    (x, y, w, h), *inner = rects
    assert len(inner) > 6
    for x2, y2, w2, h2 in inner:
        assert x <= x2 and y <= y2 and x2 + w2 <= x + w and y2 + h2 <= y + h
    graph.draw(tmp_path / "a.dot")
    text = (tmp_path / "a.dot").read_text()
    assert text.count("subgraph cluster_") == 3 + 2 + 3  # two Ifs and a Loop, with their bodies
    assert text.count("{") == text.count("}")


HOSTILE = '</text><script>alert("1")</script> \\" \\n \n \x00 \x1b ]]> &amp; \ufffe é 漢'


def test_hostile_names(tmp_path: Path) -> None:
    graph = crt.trace(
        lambda x: [crt.relu(x[0])],
        [TensorSpec(HOSTILE, crt.float32, [-1], dim_names=["<b>"])],
        output_names=["</svg>"],
        graph_name='"; bad -> worse; "',
    ).graph
    root = picture(graph, tmp_path)
    assert not list(root.iter(f"{SVG}script"))
    assert "</svg>" in texts(root) and "float32[<b>]" in texts(root)
    graph.draw(tmp_path / "a.gv")
    text = (tmp_path / "a.gv").read_text()
    assert "\x00" not in text and "\x1b" not in text
    # Outside of quotes stand only the words of the language.
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert set(re.findall(r"\w+", bare)) <= {
        *"digraph node shape box style fontname label fillcolor n0 n1 n2".split()
    }


def test_dot_has_every_node_and_edge(tmp_path: Path) -> None:
    graph = trace(Block(), draw(5, 2, 3, 16))
    graph.draw(tmp_path / "a.dot")
    text = (tmp_path / "a.dot").read_text()
    assert len(re.findall(r"^  n\d+ \[", text, re.M)) == len(graph.nodes()) + 1
    assert len(re.findall(r"^  n\d+ -> n\d+ ", text, re.M)) == len(graph.edges()) + 1


def test_large_graphs(tmp_path: Path) -> None:
    before = time.process_time()
    root = picture(chain(DRAWN_NODES), tmp_path)
    assert time.process_time() - before < 10
    assert len(boxes(root)) == DRAWN_NODES + 1
    with pytest.raises(crt.InvalidArgumentError, match=r"2001 nodes.*extract"):
        chain(DRAWN_NODES + 1).draw(tmp_path / "b.svg")
    assert [file.name for file in tmp_path.iterdir()] == ["a.svg"]


def test_refusals(tmp_path: Path) -> None:
    graph = trace(lambda x: x + 1.0, draw(1, 2))
    with pytest.raises(crt.InvalidArgumentError, match=r"must end with \.svg"):
        graph.draw(tmp_path / "a.png")
    with pytest.raises(crt.NotFoundError):
        graph.draw(tmp_path / "absent" / "a.svg")


def test_the_table_shows_what_is_no_tensor() -> None:
    traced = crt.trace(lambda x: (crt.relu(x @ x) + 1.0).sum(0), example_inputs=(crt.ones(2, 2),))
    traced.graph.optimize()
    rows = [line.split("->")[0].split() for line in repr(traced.graph).splitlines()[2:]]
    assert rows == [
        ["MatMul_1", "MatMul", "x,", "x,", "activation=Relu"],
        ["Add_3", "Add", "MatMul_1_0,", "other=1.0"],
        ["Sum_4", "Sum", "Add_3_0,", "dim=0"],
    ]
