"""What a legal graph is: the rules that every edit and every transform keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from .._native._core import Port
from ..errors import InternalError
from ..ops.record import View
from .activations import ACTIVATIONS, CARRIERS, IDENTITY
from .opcode import STRUCTURAL
from .strides import infer, meta_of

if TYPE_CHECKING:
    from .model_graph import ModelGraph


def check_legal(graph: ModelGraph, strides: bool = True) -> None:
    """Checks a graph against these rules, and raises `InternalError` at the first that it breaks:

    1. Nodes have names of their own, inputs and operators alike, and lead back to themselves by
       them. No node reads what is computed from it.
    2. An input of the graph reads nothing, makes one value and stands once among the inputs.
    3. Every value that a node reads is there, and the value's list of reads is that of the nodes
       that read it. Every value that a node makes says so.
    4. What has no producer is a constant: it holds a tensor of its dtype and shape. A constant may
       share the bytes of a constant.
    5. Outputs have names of their own and return values that are there.
    6. A value that shares bytes (a view, a write, a read after a write) shares those of a value
       that its node reads.
    7. The arguments of an operator name each of its input ports once, and no other, together with
       the bias that the node carries; an activation is carried by operators that can.
    8. Results have the shapes and dtypes that the operator's record infers from the node's
       arguments. With ``strides``, views have its strides: so after `trace` and `optimize`; an edit
       leaves them to `restride`.
    """
    if not graph.is_acyclic():
        _broken(graph, "has a cycle")
    nodes = graph.node_ids()
    _check_values(graph, nodes)
    for node in nodes:
        name = graph.node_name(node)
        if graph.node_id(name) != node:
            _broken(graph, f"has two nodes '{name}'")
        if not graph.op(node):
            if graph.ports(node) or len(graph.results(node)) != 1:
                _broken(graph, f"has an input '{name}' that is an operator")
            if graph.input_ids().count(node) != 1:
                _broken(graph, f"does not list its input '{name}' once")
        elif graph.op(node) not in STRUCTURAL:
            _check_arguments(graph, node)
            _check_results(graph, node, strides)
    if sorted(graph.input_ids()) != sorted(node for node in nodes if not graph.op(node)):
        _broken(graph, "lists inputs that it does not have")
    names = graph.output_names()
    if len(set(names)) != len(names):
        _broken(graph, f"has outputs of one name: {names}")


def _broken(graph: ModelGraph, problem: str) -> NoReturn:
    raise InternalError(f"graph '{graph.name}': {problem}")


def _check_values(graph: ModelGraph, nodes: list[int]) -> None:
    """Rules 3 to 6."""
    reads: dict[int, list[tuple[int, int]]] = {}
    for node in nodes:
        for port, value in enumerate(graph.ports(node)):
            if value < 0:
                continue
            if not graph.value_is_alive(value):
                _broken(graph, f"'{graph.node_name(node)}' reads a value that is gone at {port}")
            reads.setdefault(value, []).append((node, port))
        for port, value in enumerate(graph.results(node)):
            if not graph.value_is_alive(value) or graph.producer_id(value) != (node, port):
                _broken(graph, f"'{graph.node_name(node)}' does not make its result {port}")
            alias = graph.meta(value)[4]
            if alias >= 0 and alias not in graph.ports(node):
                _broken(graph, f"'{graph.node_name(node)}' shares bytes that it does not read")
    for value in graph.alive_values():
        if sorted(graph.use_list(value)) != sorted(reads.get(value, [])):
            _broken(graph, f"the reads of '{graph.value_name(value)}' are not its uses")
        maker = graph.producer_id(value)[0]
        if maker >= 0:
            if not graph.is_alive(maker):
                _broken(graph, f"value {value} outlives its node")
            continue
        held = graph._constants.get(value)
        dtype, _, _, shape, alias, _ = graph.meta(value)
        if held is None or tuple(held.shape) != shape or held.dtype.code != dtype:
            _broken(graph, f"the constant '{graph.value_name(value)}' does not hold its tensor")
        if alias >= 0 and graph.producer_id(alias)[0] >= 0:
            _broken(graph, f"the constant '{graph.value_name(value)}' shares bytes of a result")
    for name, value in graph.output_list():
        if not graph.value_is_alive(value):
            _broken(graph, f"the output '{name}' is gone")


def _check_arguments(graph: ModelGraph, node: int) -> None:
    """Rule 7."""
    name = graph.node_name(node)
    extras = graph._extras.get(node, {})
    named = [item for argument in graph._calls[node] for item in _ports(argument)]
    named += [item for item in extras.values() if isinstance(item, Port)]
    if sorted(named) != [port for port, value in enumerate(graph.ports(node)) if value >= 0]:
        _broken(graph, f"the arguments of '{name}' name the ports {named}")
    activation = extras.get("activation", IDENTITY)
    carries = activation == IDENTITY or graph.op(node) in CARRIERS and activation in ACTIVATIONS
    if not carries:
        _broken(graph, f"'{name}' carries the activation {activation!r}")


def _ports(argument: Any) -> list[int]:
    if isinstance(argument, Port):
        return [int(argument)]
    if isinstance(argument, (list, tuple)):
        return [port for item in argument for port in _ports(item)]
    return []


def _check_results(graph: ModelGraph, node: int, strides: bool) -> None:
    """Rule 8."""
    inferred = infer(graph, node)
    results = inferred if isinstance(inferred, (tuple, list)) else (inferred,)
    for value, result in zip(graph.results(node), results, strict=True):
        found = meta_of(graph, value)
        name = graph.value_name(value)
        if tuple(found.shape) != tuple(result.shape):
            _broken(graph, f"'{name}' is {found.shape}, and its operator gives {result.shape}")
        if not isinstance(result, View):
            if found.dtype is not result.dtype:
                _broken(graph, f"'{name}' is {found.dtype}, and its operator gives {result.dtype}")
        elif strides and tuple(found.strides or ()) != tuple(result.strides):
            _broken(graph, f"'{name}' has not the strides of its view")
