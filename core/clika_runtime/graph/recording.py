"""`trace`: a function or module run once over stand-ins, as a `ModelGraph`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import pytree
from .._native._core import Tensor, tracing_scope
from ..errors import InvalidArgumentError, UnsupportedError
from .model_graph import ModelGraph
from .spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class TracedGraph:
    """What `trace` gives: the graph, and how its inputs and outputs stand in the function's own
    arguments and results. ``graph`` is the `ModelGraph`; what a graph has can be asked here too."""

    TENSOR: Any = type("Tensor", (), {"__repr__": lambda self: "TENSOR"})()

    def __init__(self, graph: ModelGraph, inputs: Any, outputs: Any, leaves: list[Any]) -> None:
        self.graph = graph
        self.input_structure = inputs  # of the arguments, as a TreeSpec
        self.output_structure = outputs  # of what the function returned
        self.static_outputs = leaves  # its leaves, with TENSOR for one that the graph makes

    def optimize(self, *args: Any, **options: Any) -> Any:
        """`ModelGraph.optimize`."""
        return self.graph.optimize(*args, **options)

    def finalize(self) -> None:
        """`ModelGraph.finalize`."""
        self.graph.finalize()

    def run(self, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """`ModelGraph.run`."""
        return self.graph.run(inputs)

    def __call__(self, *args: Any) -> Any:
        """Runs the finalized graph over arguments such as the function took, and gives a result
        such as it gave."""
        leaves = [leaf for leaf in pytree.tree_leaves(list(args)) if isinstance(leaf, Tensor)]
        results = iter(self.graph.run(leaves))
        found = [next(results) if leaf is self.TENSOR else leaf for leaf in self.static_outputs]
        return pytree.tree_unflatten(self.output_structure, found)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.graph, name)

    def __repr__(self) -> str:
        return repr(self.graph)


def trace(
    fn: Callable[..., Any],
    signature: Sequence[TensorSpec] | None = None,
    *,
    example_inputs: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    graph_name: str | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    dim_bounds: Mapping[str, tuple[int, int]] | None = None,
    device: Any = None,
    static_outputs: bool = False,
) -> TracedGraph:
    """Runs ``fn`` once over stand-ins without values and gives the graph of its operators.

    ``signature`` names the inputs of a function that takes one list. ``example_inputs`` stands in
    for it: a list is the one argument, a tuple is spread over the arguments, and both may hold
    lists, dicts and further containers of tensors; leaves that are no tensors are passed as they
    are. ``dynamic_axes`` maps an input's name to the axes whose size may change (a list, or a
    dict from axis to the name of the size), ``dim_bounds`` a size's name to the least and the
    largest value it takes: memory is then planned once. Inputs of a signature are on ``device`` (by
    default that of the scope). ``static_outputs`` lets ``fn`` also return what is no
    tensor: a call of the `TracedGraph` gives it back as it is.

    A tensor that ``fn`` finds around it becomes a constant of the graph. Where ``fn`` writes to one
    in place, its new value is a further output ``state_out_0``, ..., and every run rewrites it.

    Raises `ClikaRTError` where ``fn`` reads a value or draws random numbers without a seed.

    >>> import clika_runtime as crt
    >>> crt.trace(lambda x: x * 2.0, example_inputs=(crt.ones(3),), input_names=["x"]).input_names()
    ['x']
    """
    if signature is None and example_inputs is None:
        raise TypeError("trace: give example_inputs=(tensor, ...), or a signature of TensorSpecs")
    if signature is not None and example_inputs is not None:
        raise TypeError("trace: give the signature or example_inputs, and not both")
    _check_mapping("dynamic_axes", dynamic_axes)
    _check_mapping("dim_bounds", dim_bounds)
    for size, bounds in (dim_bounds or {}).items():
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise TypeError(f"trace: dim_bounds['{size}'] must be (least, largest), got {bounds!r}")
    graph = ModelGraph(graph_name or str(getattr(fn, "__name__", type(fn).__name__)))
    tracer = graph._tracer
    if signature is not None:
        specs = list(signature)
        for spec in specs:
            if not isinstance(spec, TensorSpec):
                hint = "; tensors go into example_inputs=" if isinstance(spec, Tensor) else ""
                raise TypeError(
                    f"trace: the signature holds TensorSpecs, got {type(spec).__name__}{hint}"
                )
        if input_names is not None:
            specs = [
                TensorSpec(name, spec.dtype, spec.dims, spec.optional, dim_names=spec.dim_names)
                for name, spec in zip(_names(input_names, len(specs)), specs, strict=True)
            ]
        _unique("input", [spec.name for spec in specs])
        traced = [tracer.tensor(graph._add_input(spec, device, dim_bounds)) for spec in specs]
        arguments: tuple[Any, ...] = (traced,)
        structure = pytree.tree_structure(list(arguments))
    else:
        arguments, structure = _stand_ins(
            graph, fn, example_inputs, input_names, dynamic_axes or {}, dim_bounds
        )
    with tracing_scope(tracer):
        found = fn(*arguments)
    leaves, returned = pytree.tree_flatten(found)
    values = []
    statics: list[Any] = []
    for leaf in leaves:
        statics.append(TracedGraph.TENSOR if isinstance(leaf, Tensor) else leaf)
        if not isinstance(leaf, Tensor):
            if static_outputs:
                continue
            raise InvalidArgumentError(
                f"trace: the function must return tensors, got {type(leaf).__name__}"
            )
        values.append(tracer.value(leaf))
    names = (
        _names(output_names, len(values))
        if output_names is not None
        else [f"output_{i}" for i in range(len(values))]
    )
    _unique("output", names)
    outputs = list(zip(names, values, strict=True))
    for root, _ in tracer.written_roots():
        if root not in graph._constants:
            continue
        name = f"state_out_{len(graph._states)}"
        value = tracer.value(graph._constants[root])
        outputs.append((name, value))
        graph._states[value] = root
    graph.set_output_list(outputs)
    return TracedGraph(graph, structure, returned, statics)


def _names(given: Sequence[str], count: int) -> list[str]:
    names = list(given)
    if len(names) != count:
        raise InvalidArgumentError(f"trace: {len(names)} names for {count} tensors")
    return names


def _unique(what: str, names: Sequence[str]) -> None:
    known: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"trace: an {what} name must be a non-empty string, got {name!r}")
        if name in known:
            raise InvalidArgumentError(f"trace: two {what}s have the name '{name}'")
        known.add(name)


def _check_mapping(what: str, given: Any) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"trace: {what} must be a mapping, got {type(given).__name__}")


def _stand_ins(
    graph: ModelGraph,
    fn: Any,
    example: Any,
    input_names: Sequence[str] | None,
    dynamic_axes: Mapping[str, Any],
    dim_bounds: Mapping[str, tuple[int, int]] | None,
) -> tuple[tuple[Any, ...], Any]:
    """The arguments of ``fn`` with traced tensors in the place of the tensors."""
    spread = example if isinstance(example, tuple) else (example,)
    pairs, structure = pytree.tree_flatten_with_path(list(spread))
    tensors = [(path, leaf) for path, leaf in pairs if isinstance(leaf, Tensor)]
    names = (
        _names(input_names, len(tensors))
        if input_names is not None
        else default_names(fn, [path for path, _ in tensors])
    )
    _unique("input", names)
    for name in dynamic_axes:
        if name not in names:
            raise InvalidArgumentError(
                f"trace: dynamic_axes names {name!r}, and the inputs are {names}"
            )
    leaves = []
    waiting = iter(names)
    for _, leaf in pairs:
        if isinstance(leaf, Tensor):
            name = next(waiting)
            if leaf.scheme:
                raise UnsupportedError(
                    f"trace: '{name}' is a packed weight, and inputs of a graph are dense; use it "
                    "within the function as a captured tensor"
                )
            spec = spec_of(name, leaf, dynamic_axes.get(name, ()))
            for dim, size in enumerate(leaf.shape):
                if spec.dims[dim] < 0:
                    graph._pinned.setdefault(spec.symbol_name(dim), size)
            leaf = graph._tracer.tensor(graph._add_input(spec, leaf.device, dim_bounds))
        leaves.append(leaf)
    return tuple(pytree.tree_unflatten(structure, leaves)), structure


def spec_of(name: str, tensor: Tensor, axes: Any) -> TensorSpec:
    """The spec of an example, with ``axes`` dynamic."""
    rank = len(tensor.shape)
    if not isinstance(axes, (Mapping, list, tuple, set, frozenset, range)):
        raise TypeError(
            f"trace: dynamic_axes['{name}'] must be a list of axes or a dict from axis to name, "
            f"got {axes!r}"
        )
    labels: dict[int, Any] = {}
    for axis in axes:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"trace: dynamic_axes['{name}'] has the axis {axis!r}; the input has rank {rank}"
            )
        labels[axis % rank] = axes[axis] if isinstance(axes, Mapping) else None
    return TensorSpec.exact(
        name,
        tensor.dtype,
        [-1 if axis in labels else size for axis, size in enumerate(tensor.shape)],
        [labels.get(axis) for axis in range(rank)],
    )


def default_names(fn: Any, paths: list[Any]) -> list[str]:
    """A tensor is called by the argument it stands in and by its place there. A path begins with
    the position or the keyword of the argument."""
    try:
        parameters = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for path in paths:
        first, *rest = [_word(entry) for entry in path]
        if isinstance(first, int):
            first = parameters[first] if first < len(parameters) else f"input_{first}"
        name = base = "_".join(str(word) for word in (first, *rest))
        number = 1
        while name in names:
            name, number = f"{base}_{number}", number + 1
        names.append(name)
    return names


def _word(entry: Any) -> Any:
    """What a key path's entry is called: a position, a key, an attribute."""
    for slot in ("idx", "key", "name"):
        if hasattr(entry, slot):
            return getattr(entry, slot)
    return entry
