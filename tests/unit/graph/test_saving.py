"""`ModelGraph.save` and `load`: what comes back is the graph that was saved, and damaged files are
refused."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.graph import ModelGraph, TensorSpec, merge, split
from clika_runtime.graph.control import cond, loop, scan
from clika_runtime.graph.legal import check_legal
from clika_runtime.graph.saving import FORMAT
from clika_runtime.io import SCHEMES
from clika_runtime.testing import _numpy as kit
from clika_runtime.testing import cases
from clika_runtime.testing._kit import Operand
from tests.fuzz.mutate import TOKENS, damage_text

from .test_transforms import Block, _random_model
from .traced_graphs import bits, draw, form, results, trace


def plain(graph: ModelGraph) -> Any:
    """`form` with texts for what is numbered anew, and subgraphs."""
    nodes, _, *rest = form(graph)

    def shown(meta: Any) -> Any:
        sizes = [repr(graph._tracer.size(size)) for size in meta[3]]
        alias = graph.value_name(meta[4]) if meta[4] >= 0 else None
        return (*meta[:3], sizes, alias, meta[5])

    found = [
        (name, op, reads, [(value, shown(meta)) for value, meta in makes], call, extras)
        for name, op, reads, makes, call, extras in nodes
    ]
    bodies = [
        [plain(body) for body in graph._bodies[node]]
        for node in graph.node_ids()
        if node in graph._bodies
    ]
    symbols = list(zip(graph._tracer.symbols(), graph._tracer.symbol_bounds(), strict=True))
    return [found, rest, bodies, symbols, graph.name, graph._pinned, graph.inputs()]


def quantized(columns: int, rows: int) -> Any:
    """A Q8_0 weight of random codes."""
    blocks = kit.random_blocks(np.random.default_rng(7), "Q8_0", rows, columns)
    return crt.Tensor.from_buffer(blocks, (rows, columns), crt.float32, scheme=9, mapped=False)


def round_trip(graph: ModelGraph, folder: Path) -> ModelGraph:
    """The graph saved and loaded: equal, legal, and saved again to the same bytes."""
    graph.save(folder / "a.safetensors")
    loaded = ModelGraph.load(folder / "a.safetensors")
    check_legal(loaded)
    assert plain(loaded) == plain(graph)
    loaded.save(folder / "b.safetensors")
    assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes()
    assert len(list(folder.iterdir())) == 2  # no temporary file
    (folder / "b.safetensors").unlink()
    return loaded


def same_runs(graph: ModelGraph, loaded: ModelGraph, *inputs: Any) -> None:
    assert results(loaded, inputs) == results(graph, inputs)


# ---------------------------------------------------------------- what comes back
@pytest.mark.parametrize("start", range(0, 120, 40))
def test_random_graphs(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 40):
        x = draw(seed, 4, 4)
        graph = trace(_random_model(seed), x)
        if seed % 2:
            graph.optimize()
        same_runs(graph, round_trip(graph, tmp_path), x.clone())


def test_arguments_of_every_operator(tmp_path: Path) -> None:
    """Each operator as the kit of cases first calls it."""
    done: set[str] = set()
    for case in cases():
        if case.op in done:
            continue
        try:
            graph = _traced(case)
        except crt.ClikaRTError:
            continue  # results whose sizes depend on values
        done.add(case.op)
        loaded = round_trip(graph, tmp_path)
        assert repr([node.attributes for node in loaded.nodes()]) == repr(
            [node.attributes for node in graph.nodes()]
        )
    assert len(done) > 280, len(done)


def _traced(case: Any) -> ModelGraph:
    """The graph of a case's call; packed operands are constants."""
    record = ops.record(case.op)
    given: list[Any] = []

    def enter(operand: Any) -> Any:
        if not isinstance(operand, Operand):
            return lambda inputs: operand
        stored = operand.stored("cpu")
        if operand.scheme:
            return lambda inputs: stored
        given.append(stored)
        at = len(given) - 1
        return lambda inputs: operand.view(inputs[at])

    made: list[Any] = []
    for arg, value in zip(record.args, case.args, strict=True):
        many = arg.kind == "tensor" and arg.sequence and value is not None
        made.append((arg, [enter(item) for item in value] if many else enter(value)))

    def fn(*inputs: Any) -> Any:
        values: list[Any] = []
        options: dict[str, Any] = {}
        for arg, get in made:
            value = [item(inputs) for item in get] if isinstance(get, list) else get(inputs)
            if arg.keyword_only:
                options[arg.name] = value
            else:
                values.append(value)
        return getattr(ops, case.op)(*values, **options)

    return trace(fn, *given)


def test_numbers_that_json_has_no_form_for(tmp_path: Path) -> None:
    def fn(x: Any) -> Any:
        return [x * float("inf"), x + float("nan"), x * -0.0, x * 1e-320, ops.full((2,), 2**63 - 1)]

    x = draw(1, 2)
    graph = trace(fn, x)
    loaded = round_trip(graph, tmp_path)
    calls = [repr(loaded._calls[node]) for node in loaded.node_ids() if loaded.op(node)]
    assert "inf" in calls[0] and "nan" in calls[1] and "-0.0" in calls[2]
    same_runs(graph, loaded, x)


def test_symbolic_sizes(tmp_path: Path) -> None:
    def fn(x: Any) -> Any:
        n = x.shape[0]
        y = x.reshape(-1, 2)[1:]
        return [y, x[: n // 2 + n % 3], ops.full((n * n - 1, 2), 1.0), x.expand(3, n, 4)]

    graph = trace(fn, draw(1, 5, 4), dynamic_axes={"x": {0: 'b "//" (1 - s0) * \ud7ff'}})
    loaded = round_trip(graph, tmp_path)
    for size in (3, 4, 7):
        same_runs(graph, loaded, draw(size, size, 4))
    with pytest.raises(crt.InvalidArgumentError):
        loaded.run([draw(1, 3, 3)])


def test_states_are_rewritten_by_runs_and_not_in_the_file(tmp_path: Path) -> None:
    def counter(state: Any) -> Any:
        def fn(x: Any) -> Any:
            y = state + 1
            state.add_(x)
            state[0] = 7.0
            return {"y": y, "v": state[1:] * 2}

        return fn

    x = draw(1, 3)
    graph = trace(counter(crt.zeros(3)), x)
    loaded = round_trip(graph, tmp_path)
    again = ModelGraph.load(tmp_path / "a.safetensors")
    for _ in range(3):
        same_runs(graph, loaded, x)
    same_runs(trace(counter(crt.zeros(3)), x), again, x)  # the file still holds the first state
    graph.save(tmp_path / "a.safetensors")
    later = ModelGraph.load(tmp_path / "a.safetensors")
    later.finalize()
    loaded.save(tmp_path / "c.safetensors")
    other = ModelGraph.load(tmp_path / "c.safetensors")
    wanted = results(graph, [x])
    assert [bits(out) for out in later.run([x])] == wanted
    same_runs(other, loaded, x)


def test_constants_share_their_bytes(tmp_path: Path) -> None:
    base = draw(1, 64, 8)

    def fn(x: Any) -> Any:
        return [x @ base[1:3].t(), x * base[2], x + base[40, ::2].expand(2, 4).reshape(8), base]

    x = draw(2, 3, 8)
    graph = trace(fn, x)
    loaded = round_trip(graph, tmp_path)
    same_runs(graph, loaded, x)
    with safetensors.safe_open(tmp_path / "a.safetensors", "np") as file:
        (name,) = file.keys()
        assert file.get_tensor(name).nbytes == base.nbytes
    held = {loaded.value_name(v): t for v, t in loaded._constants.items()}
    assert len({t.data_ptr() - 4 * t.storage_offset() for t in held.values()}) == 1

    parts = [base[0], base[1], base[63]]  # what lies between them is not stored

    def rows(x: Any) -> Any:
        return [x * part for part in parts]

    graph = trace(rows, x)
    same_runs(graph, round_trip(graph, tmp_path), x)
    with safetensors.safe_open(tmp_path / "a.safetensors", "np") as file:
        assert sum(file.get_tensor(name).nbytes for name in file.keys()) <= 3 * 64


def test_writes_through_views_of_a_state(tmp_path: Path) -> None:
    pool = crt.zeros(4, 4)
    part = pool[1:3]

    def fn(x: Any) -> Any:
        part.add_(x)
        return [pool.sum(), part * 2]

    x = draw(1, 4)
    graph = trace(fn, x)
    loaded = round_trip(graph, tmp_path)
    for _ in range(2):
        same_runs(graph, loaded, x)


@pytest.mark.parametrize("name", ["GGUF_Q4_0", "GGUF_Q6_K", "MXFP4_E8M0", "INT8_G32"])
def test_packed_weights(name: str, tmp_path: Path) -> None:
    scheme = crt.io.SCHEMES_BY_NAME[name]
    rng = np.random.default_rng(0)
    payload = rng.integers(0, 60, (4, 256 // scheme.columns * scheme.nbytes), dtype=np.uint8)
    weight = crt.make_quantized(crt.tensor(payload), name, [256, 4]).tensor

    def fn(x: Any) -> Any:
        return [ops.linear(x, weight), ops.dequantize(weight)]

    x = draw(1, 2, 256)
    graph = trace(fn, x)
    loaded = round_trip(graph, tmp_path)
    (held,) = loaded._constants.values()
    assert held.scheme == scheme.number and held.bytes()[: payload.nbytes] == payload.tobytes()
    same_runs(graph, loaded, x)


@pytest.mark.parametrize("dtype", ["bool", "int64", "bfloat16", "float16", "float64", "uint8"])
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5)])
def test_dtypes_and_shapes(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    kind = getattr(crt, dtype)
    held = crt.tensor(np.ones(shape)).to(kind)
    graph = trace(lambda x: [x, ops.where(x > 0, held, held), held], crt.tensor(1.0))
    loaded = round_trip(graph, tmp_path)
    same_runs(graph, loaded, crt.tensor(1.0))


def test_subgraphs(tmp_path: Path) -> None:
    weight = crt.tensor([2.0, 3.0])

    def fn(x: Any, rows: Any) -> Any:
        def body(i: Any, go: Any, v: Any) -> Any:
            (w,) = cond(v.sum() > 3, lambda a: a - x, lambda a: a + x * weight, [v])
            (w,) = loop(2, None, lambda j, g, u: (g, u + i.to(crt.float32)), [w])
            return go, w, w * 2

        return [
            *loop(4, None, body, [x]),
            *scan(lambda s, a: (s + a, s - weight), [crt.zeros(2)], [rows]),
        ]

    x, rows = crt.tensor([1.0, 2.0]), draw(1, 5, 2)
    graph = trace(fn, x, rows, dynamic_axes={"rows": {0: "steps"}})
    loaded = round_trip(graph, tmp_path)
    same_runs(graph, loaded, x, rows)
    assert results(loaded, [x, rows[:2].contiguous()]) == results(graph, [x, rows[:2].contiguous()])


def test_a_model_that_was_optimized(tmp_path: Path) -> None:
    block, x = Block(), draw(5, 2, 3, 16)
    graph = trace(lambda x: block(x), x, dynamic_axes={"x": {0: "batch"}})
    graph.optimize()
    loaded = round_trip(graph, tmp_path)
    same_runs(graph, loaded, x)
    with pytest.raises(crt.InvalidArgumentError, match="finalized"):
        loaded.optimize()


def test_edited_merged_and_split_graphs(tmp_path: Path) -> None:
    spec = TensorSpec("x", crt.float32, [-1, 4])

    def part(fn: Any) -> ModelGraph:
        return crt.trace(fn, [spec], output_names=["y"]).graph

    one, two = part(lambda t: [crt.relu(t[0]) + 1.0]), part(lambda t: [crt.neg(t[0]) * 2.0])
    whole, _ = merge({"one": one, "two": two}, [("one.y", "two.x")])
    loaded = round_trip(whole, tmp_path)
    parts, links = split(loaded, lambda node: "a" if node.name.startswith("one") else "b")
    for piece in parts.values():
        round_trip(piece, tmp_path)
    again, _ = merge(parts, links)
    x = draw(1, 3, 4)
    same_runs(whole, again, x)


def test_edits_after_loading(tmp_path: Path) -> None:
    graph = trace(lambda x: [crt.relu(x) + crt.tensor([1.0, 2.0])], crt.ones(2))
    loaded = round_trip(graph, tmp_path)
    half = loaded.add_constant(crt.full((2,), 0.5))
    loaded.set_input(loaded.node("Add_2"), 1, half)
    loaded.optimize()
    check_legal(loaded)
    loaded.finalize()
    assert loaded.run([crt.ones(2)])[0].tolist() == [1.5, 1.5]


# ---------------------------------------------------------------- weights in a backend's own layout
@pytest.mark.parametrize("kind", [*SCHEMES])
def test_repacked_weights(kind: int, tmp_path: Path) -> None:
    """Of every scheme: the file holds the published bytes, and what it gives is packed again."""
    scheme = SCHEMES[kind]
    blocks = np.random.default_rng(kind).integers(0, 256, (21, 2 * scheme.nbytes), np.uint8)
    blocks &= 0x77  # finite scales
    published = crt.Tensor.from_buffer(
        blocks, (21, 2 * scheme.columns), crt.float32, scheme=kind, mapped=False
    )
    weight = crt.pack_weight(published, "fast")
    assert weight.layout
    x = draw(kind, 3, 2 * scheme.columns)
    graph = trace(lambda x: [ops.linear(x, weight), ops.dequantize(weight)], x)
    loaded = round_trip(graph, tmp_path)
    (again,) = (tensor for tensor in loaded._constants.values() if tensor.scheme)
    assert (again.layout, crt.pack_mode(again)) == (weight.layout, "fast")
    assert crt.unpack_weight(again).bytes() == blocks.tobytes()
    stored = safetensors.safe_open(tmp_path / "a.safetensors", "numpy")
    assert [stored.get_tensor(key).tobytes() for key in stored.keys()] == [blocks.tobytes()]
    same_runs(graph, loaded, x)


@pytest.mark.parametrize("dtype", [crt.float32, crt.bfloat16, crt.float16])
def test_repacked_dense_weights(dtype: Any, tmp_path: Path) -> None:
    """The file holds the elements row by row under their dtype, and what it gives is packed
    again."""
    values = np.random.default_rng(3).standard_normal((37, 21), np.float32)
    published = crt.tensor(values).to(dtype)
    weight = crt.pack_weight(published, "both")
    assert weight.layout
    ids = crt.tensor([36, 0])
    x = draw(5, 3, 21)
    graph = trace(lambda x: [ops.linear(x, weight), ops.embedding(weight, ids, crt.float32)], x)
    loaded = round_trip(graph, tmp_path)
    (again,) = (tensor for tensor in loaded._constants.values() if tensor.shape == (37, 21))
    assert (again.layout, crt.pack_mode(again)) == (weight.layout, "both")
    assert again.bytes() == published.bytes()
    header, _, _ = read(tmp_path / "a.safetensors")
    kinds = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
    assert (kinds[dtype.name], [37, 21]) in [
        (entry["dtype"], entry["shape"]) for key, entry in header.items() if key != "__metadata__"
    ]
    same_runs(graph, loaded, x)


def test_a_repacked_weight_is_stored_once(tmp_path: Path) -> None:
    """However many nodes and subgraphs read it; one as published beside it is another one."""
    published = quantized(64, 96)
    weight = crt.pack_weight(published, "both")

    def fn(x: Any) -> Any:
        (y,) = loop(2, None, lambda i, go, v: (go, ops.linear(v, weight)[:, :64]), [x])
        return [ops.linear(y, weight), ops.linear(x, weight), ops.linear(x, published)]

    x = draw(1, 3, 64)
    graph = trace(fn, x)
    loaded = round_trip(graph, tmp_path)
    header, _, _ = read(tmp_path / "a.safetensors")
    assert len(header) == 3  # the metadata, the packed weight, the one as published
    graphs = [loaded, *(body for bodies in loaded._bodies.values() for body in bodies)]
    places = [
        tensor.data_ptr()
        for graph in graphs
        for tensor in graph._constants.values()
        if tensor.layout
    ]
    assert len(places) == 2 and len(set(places)) == 1
    same_runs(graph, loaded, x)


def test_a_file_has_no_more_packed_than_it_holds(tmp_path: Path) -> None:
    """Entries that show the same bytes in many ways do not multiply them."""
    weight = crt.pack_weight(quantized(256, 512), "both")
    graph = trace(lambda x: [ops.linear(x, weight)], draw(1, 2, 256))
    path = tmp_path / "a.safetensors"
    graph.save(path)
    header, document, values = read(path)
    constant = next(v for v in document["graph"]["values"] if "data" in v)
    for at in range(3):
        more = json.loads(json.dumps(constant))
        more["name"] = f"more_{at}"
        more["data"]["pack"] = ("exact", "fast", "table")[at]
        document["graph"]["values"].append(more)
    rewrite(path, header, json.dumps(document), values)
    with pytest.raises(crt.InvalidArgumentError, match="more bytes are to be packed"):
        ModelGraph.load(path)


def test_a_weight_is_not_packed_where_its_backend_has_no_layout(tmp_path: Path) -> None:
    """A file of packed weights on a device whose backend keeps them as published, and back."""
    subprocess.run([sys.executable, "-c", LAYOUTS, tmp_path], check=True, timeout=120)


LAYOUTS = """
import ctypes, sys
import clika_runtime as crt
from clika_runtime._native._core import register_backend
from clika_runtime.graph import ModelGraph
from clika_runtime_cpu import _kernels

folder = sys.argv[1]
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
TAG, kept = b"clika_runtime.backend", []


def like_the_cpu(name, left_out, instead):
    # The CPU's table under another name, without its last members.
    pointer = get(_kernels.backend(None), TAG)
    size = ctypes.c_uint32.from_address(pointer).value
    table = ctypes.create_string_buffer(ctypes.string_at(pointer, size), size)
    ctypes.c_uint32.from_buffer(table).value = size - 8 * left_out
    for member in range(left_out):  # a reader that ignores the size meets what is no function
        ctypes.c_uint64.from_buffer(table, size - 8 * (member + 1)).value = instead
    kept.append(table)
    register_backend(name, new(ctypes.addressof(table), TAG, None))


BEHIND = 12  # members behind `unpack`
like_the_cpu("metal", BEHIND + 1, 1)  # packs, and has no way back
like_the_cpu("vulkan", BEHIND + 3, 0)  # does not pack
weight = crt.make_quantized(crt.ones((24, 34), dtype=crt.uint8), "GGUF_Q8_0", [32, 24]).tensor
packed = crt.pack_weight(weight, "fast")
x = crt.ones(2, 32)


def graph_of(weight):
    spec = crt.TensorSpec("x", crt.float32, [2, 32])
    return crt.trace(lambda x: [crt.linear(x[0], weight)], [spec], device=weight.device).graph


def constant(graph):
    (found,) = graph._constants.values()
    return found


elsewhere = packed.to("vulkan")
assert (packed.layout != 0, elsewhere.layout) == (True, 0)
assert elsewhere.bytes() == weight.bytes() and packed.cpu() is packed
graph_of(packed).save(folder + "/a.safetensors")
moved = ModelGraph.load(folder + "/a.safetensors").to("vulkan")
moved.finalize()
wanted = crt.linear(x, packed)
assert moved.run([x.to("vulkan")])[0].cpu().bytes() == wanted.bytes()

refused = crt.pack_weight(weight.to("metal"), "fast")
assert refused.layout == packed.layout
try:
    graph_of(refused).save(folder + "/b.safetensors")
except crt.UnsupportedError as error:
    assert error.code_name == "NOT_IMPLEMENTED_FOR_LAYOUT", error.code_name
    assert "'constant" in str(error) and "of backend 'metal', which has no way back" in str(error)
else:
    raise AssertionError("saved")
import os
assert os.listdir(folder) == ["a.safetensors"]
"""


# ---------------------------------------------------------------- refusals
def test_paths(tmp_path: Path) -> None:
    graph = trace(lambda x: x + 1.0, crt.ones(2))
    with pytest.raises(crt.NotFoundError) as failure:
        ModelGraph.load(tmp_path / "absent.safetensors")
    assert failure.value.code_name == "NO_SUCHFILE"
    with pytest.raises(crt.NotFoundError):
        graph.save(tmp_path / "absent" / "a.safetensors")
    crt.save({"a": crt.ones(2)}, tmp_path / "a.safetensors")
    with pytest.raises(crt.InvalidArgumentError, match="holds no graph"):
        ModelGraph.load(tmp_path / "a.safetensors")
    before = (tmp_path / "a.safetensors").read_bytes()
    graph._calls[graph.node_ids()[1]].append(object())
    with pytest.raises(crt.UnsupportedError, match="'Add_1' has an argument of type object"):
        graph.save(tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == before


def test_a_kernel_of_the_users_own_is_refused(tmp_path: Path) -> None:
    graph = trace(lambda x: x + 1.0, crt.ones(2))
    value = graph.add_value(crt.float32.code, 0, 0, (2,))
    graph._calls[graph.make_node("custom", "Mine", [], [value])] = []
    with pytest.raises(crt.UnsupportedError, match="'Mine' is a kernel of your own"):
        graph.save(tmp_path / "a.safetensors")


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    return header, json.loads(header["__metadata__"][FORMAT]), data[8 + size :]


def rewrite(path: Path, header: dict[str, Any], text: str, values: bytes) -> None:
    header = {**header, "__metadata__": {FORMAT: text}}
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + values)


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with all that the format has."""
    state, base = crt.zeros(2), draw(1, 4, 2)
    packed = crt.make_quantized(crt.zeros((2, 34), dtype=crt.uint8), "GGUF_Q8_0", [32, 2]).tensor
    again = crt.pack_weight(packed, "fast")

    def fn(x: Any, wide: Any) -> Any:
        state.add_(1.0)
        view = x[:3].reshape(-1, 2)[1:]
        (y,) = loop(3, None, lambda i, go, v: (go, v * 2 + base[1]), [base[0]])
        (z,) = cond(y.sum() > 0, lambda a: a + state, lambda a: a, [y])
        _, rows = scan(lambda s, a: (s + a, a), [crt.zeros(2)], [base])
        both = ops.linear(wide, packed) + ops.linear(wide, again)
        return [view * y, both, z, rows, ops.softmax(x, -1)]

    x, wide = draw(2, 3, 4), draw(3, 2, 32)
    graph = trace(fn, x, wide, dynamic_axes={"x": {0: "n"}})
    graph.optimize()
    path = tmp_path_factory.mktemp("seed") / "seed.safetensors"
    graph.save(path)
    return path.read_bytes()


@pytest.fixture
def saved(seed: bytes, tmp_path: Path) -> Path:
    (tmp_path / "seed.safetensors").write_bytes(seed)
    return tmp_path / "seed.safetensors"


def _set(path: str, value: Any) -> Any:
    def change(document: Any) -> None:
        *steps, last = [int(step) if step.lstrip("-").isdigit() else step for step in path.split()]
        for step in steps:
            document = document[step]
        document[last] = value

    return change


def _repack(mode: Any, packed: bool = True) -> Any:
    """Changes what the first constant that is a packed weight, or none, is packed for."""

    def change(document: Any) -> None:
        values = document["graph"]["values"]
        next(v for v in values if "data" in v and ("scheme" in v) == packed)["data"]["pack"] = mode

    return change


def _loop(graph: Any) -> Any:
    return next(node for node in graph["nodes"] if node["op"] == "loop")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("version", 0), "version is 0"),
        (_set("version", True), "version is True"),
        (_set("graph name", 3), "'name' must be of type str"),
        (_set("graph recording", 7), "expected an index below"),
        (_set("graph pinned", {"n": -1}), "pinned"),
        (_set("graph values 0 dtype", "float33"), "there is no dtype"),
        (_set("graph values 0 shape", [1] * 9), "up to 8 sizes"),
        (_set("graph values 0 shape 0", {"size": 99}), "expected an index below"),
        (_set("graph values 0 alias", 0), "no earlier value"),
        (_set("graph values 0 alias", 5), "no earlier value"),
        (_set("graph values 0 scheme", 4711), "no scheme number"),
        (_set("graph values 0 device", "tpu:x"), "tpu"),
        (_set("graph values 0 device", "meta"), "does not run on device"),
        (_set("graph placed", "meta"), "does not run on device"),
        (_set("graph nodes -1 inputs 0", 10**6), "expected an index below"),
        (_set("graph nodes -1 inputs 0", -2), "expected an index below"),
        (_set("graph nodes -1 name", "x"), "is taken"),
        (_set("graph nodes -1 name", ""), "must be a text that is not empty"),
        (_set("graph nodes -1 call", []), "the arguments name the ports"),
        (_set("graph nodes -1 call 1", {"port": 0}), "the arguments name the ports"),
        (_set("graph nodes -2 call 1", {"float": "0x1p0"}), "cannot be"),
        (_set("graph nodes -1 call 1", {"code": "os.system"}), "is no argument"),
        (_set("graph nodes -2 call 1", 99), "softmax"),
        (_set("graph nodes -1 outputs", [0]), "made twice"),
        (_set("graph nodes -1 extras", {"activation": "Relu"}), "does not carry"),
        (_set("graph inputs", [0]), "every input"),
        (_set("graph outputs 0 0", "output_1"), "one name"),
        (_set("graph states 0 0", 0), "no later one of a constant"),
        (_set("recordings 0 symbols 0", ["n", 5, 4]), "no sizes"),
        (_set("recordings 0 sizes 0", "s0 // 2"), "is no size"),
        (_set("recordings 0 sizes 0", "__import__"), "is no size"),
        (_set("recordings 0 sizes 0", "(" * 100 + "s0" + " % 2)" * 100), "is no size"),
        (_set("recordings 0 sizes 0", "(s0 // 0)"), "is no size"),
        (_set("recordings 0 sizes 0", "s9"), "is no size"),
        (_set("recordings 0 sizes 0", "7"), "is no size"),
        (_set("recordings 0 sizes 0", "min(s0)"), "is no size"),
        (_set("recordings 0 sizes 0", "min(s0, 2, 3)"), "is no size"),
        (_set("recordings 0 sizes 0", "min(s0 // 2)"), "is no size"),
        (_set("recordings 0 sizes 0", "min(7, 3)"), "is no size"),
        (_set("recordings 0 sizes 0", "min(" * 100 + "s0" + ", 2)" * 100), "is no size"),
        (_repack("quick"), "'quick' is not a PackMode"),
        (_repack(2), "'pack' must be of type str"),
        (_repack("quick", packed=False), "'quick' is not a PackMode"),
    ],
)
def test_what_is_wrong_is_named(saved: Path, change: Any, message: str) -> None:
    header, document, values = read(saved)
    change(document)
    rewrite(saved, header, json.dumps(document), values)
    with pytest.raises(crt.ClikaRTError, match=message) as failure:
        ModelGraph.load(saved)
    assert failure.value.code_name in ("MALFORMED_FILE", "INVALID_ARGUMENT", "NOT_FOUND")


def test_a_graph_on_device_meta_does_not_run() -> None:
    spec = TensorSpec("x", crt.float32, [2])
    graph = crt.trace(lambda x: [crt.relu(x[0])], [spec], device="meta").graph
    with pytest.raises(crt.InvalidArgumentError, match="does not run on device meta"):
        graph.finalize()
    graph.to("cpu")
    graph.finalize()
    assert graph.run([crt.ones(2)])[0].tolist() == [1.0, 1.0]


def test_newer_versions_and_unknown_operators(saved: Path) -> None:
    header, document, values = read(saved)
    rewrite(saved, header, json.dumps({**document, "version": 2}), values)
    with pytest.raises(crt.UnsupportedError, match="version 2"):
        ModelGraph.load(saved)
    for op in ("soft_max", "custom", "eval", "split", "__class__"):
        document["graph"]["nodes"][-1]["op"] = op
        rewrite(saved, header, json.dumps(document), values)
        with pytest.raises(crt.NotFoundError, match=f"no operator '{op}'") as failure:
            ModelGraph.load(saved)
        assert failure.value.code_name == "NOT_FOUND"


def test_cycles_and_subgraphs_that_do_not_fit(saved: Path) -> None:
    header, document, values = read(saved)

    def refused(change: Any, message: str) -> None:
        changed = json.loads(json.dumps(document))
        change(changed["graph"])
        rewrite(saved, header, json.dumps(changed), values)
        with pytest.raises(crt.InvalidArgumentError, match=message):
            ModelGraph.load(saved)

    def close(graph: Any) -> None:
        last = graph["nodes"][-1]
        last["inputs"][0] = last["outputs"][0]

    refused(close, "computed from it|not what")
    refused(lambda graph: _loop(graph)["bodies"].clear(), "number of subgraphs")
    refused(lambda graph: _loop(graph)["extras"].update(carried=9), "no arguments of 'loop'")
    refused(lambda graph: _loop(graph)["extras"].update(carried=0), "takes and gives|first dim")
    refused(lambda graph: _loop(graph)["extras"].update(carried=-1), "no arguments of 'loop'")
    refused(lambda graph: _loop(graph)["bodies"][0]["outputs"].pop(), "takes and gives|loop")

    def nest(graph: Any) -> None:
        body = _loop(graph)["bodies"][0]
        for _ in range(40):
            within = {"op": "loop", "name": "deep", "inputs": [], "outputs": [], "call": []}
            body = {**body, "nodes": [*body["nodes"][:-1], {**within, "bodies": [body]}]}
        _loop(graph)["bodies"] = [body]

    refused(nest, "nest deeper than 32")


def test_too_deep_to_save(tmp_path: Path) -> None:
    def fn(depth: int, x: Any) -> Any:
        return loop(1, None, lambda i, go, v: (go, *fn(depth - 1, v)), [x]) if depth else [x + 1.0]

    round_trip(trace(lambda x: fn(32, x), crt.ones(1)), tmp_path)
    with pytest.raises(crt.UnsupportedError, match="nest deeper than 32"):
        trace(lambda x: fn(33, x), crt.ones(1)).save(tmp_path / "a.safetensors")


def test_damaged_files(saved: Path) -> None:
    """Many small changes of the document: each file is read or refused with a typed error."""
    header, document, values = read(saved)
    text = json.dumps(document)
    rng = random.Random(4)
    outcomes = {"read": 0, "refused": 0}
    damaged = saved.parent / "damaged.safetensors"
    for number in range(1500):
        changed = _damaged(document, rng) if number % 2 else None
        if changed is None:
            raw = damage_text(text.encode(), rng).decode("utf-8", "replace")
        else:
            raw = json.dumps(changed)
        rewrite(damaged, header, raw, values)
        try:
            graph = ModelGraph.load(damaged)
            check_legal(graph, strides=False)
            outcomes["read"] += 1
        except crt.ClikaRTError as error:
            assert error.code_name and len(str(error)) < 3000
            outcomes["refused"] += 1
    assert outcomes["read"] > 15 and outcomes["refused"] > 1000, outcomes


def _damaged(document: Any, rng: random.Random) -> Any:
    """One leaf, list or object of the document exchanged for a like one, or for a token."""
    copy = json.loads(json.dumps(document))
    places: list[tuple[Any, Any]] = []
    work = [copy]
    while work:
        item = work.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item))
        for key in keys:
            places.append((item, key))
            if isinstance(item[key], (dict, list)):
                work.append(item[key])
    for _ in range(rng.choice((1, 1, 2))):
        holder, key = rng.choice(places)
        if rng.random() < 0.5:
            other, where = rng.choice(places)
            alike = [
                (o, k)
                for o, k in places
                if k in (o if isinstance(o, dict) else range(len(o)))
                and type(o[k]) is type(holder.get(key) if isinstance(holder, dict) else 0)
            ]
            other, where = rng.choice(alike) if alike else (other, where)
            value = other[where] if where in (other if isinstance(other, dict) else []) else 1
        else:
            try:
                value = json.loads(rng.choice(TOKENS))
            except ValueError:
                value = rng.choice([0, -1, 1, 2, 3])
        if isinstance(holder, dict) and rng.random() < 0.1:
            holder.pop(key, None)
        elif isinstance(holder, dict) or key < len(holder):
            holder[key] = json.loads(json.dumps(value))
    return copy
