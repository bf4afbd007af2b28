"""`compile`: a callable whose first call records a graph that serves the later ones."""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from .. import pytree
from .._native._core import Stream, Tensor, active_tracer, device_number
from ..device import Device
from ..errors import ClikaRTError, InvalidArgumentError
from ..nn import Module
from .recording import TracedGraph, spec_of, trace
from .spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model_graph import ModelGraph

P = ParamSpec("P")
R = TypeVar("R")

MAX_CAPTURES = 8  # structures kept, the oldest is dropped
MAX_DRIFTS = 8  # captures that drifting shapes may force, until `reset`


class _Capture:
    """One graph, and which calls it serves."""

    def __init__(self, traced: TracedGraph, dims: list[tuple[Any, ...]], names: list[str]) -> None:
        self.graph: ModelGraph = traced.graph
        self.program = self.graph._program
        self.structure = traced.output_structure
        self.statics = traced.static_outputs
        self.dims = dims  # per input: a size, or the name of a dynamic one
        self.names = names

    def serves(self, tensors: list[Any]) -> bool:
        """Whether the shapes are those of the capture."""
        known: dict[str, int] = {}
        for dims, tensor in zip(self.dims, tensors, strict=True):
            for size, given in zip(dims, tensor.shape, strict=True):
                if isinstance(size, str):
                    if given < 1 or known.setdefault(size, given) != given:
                        return False
                elif size != given:
                    return False
        return True

    def run(self, tensors: list[Any]) -> Any:
        results = iter(self.program.run(tensors))
        leaves = [next(results) if leaf is _TENSOR else leaf for leaf in self.statics]
        return pytree.tree_unflatten(self.structure, leaves)


_TENSOR: Any = TracedGraph.TENSOR


class CompiledFunction(Generic[P, R]):
    """A callable whose first call serves the eager result and records a graph; later calls with the
    same structure and matching shapes run the graph without calling Python. See `compile`."""

    class State(enum.Enum):
        """Where the function is: nothing captured yet; a graph serves matching calls; it serves
        eagerly until `reset`."""

        Pending = "Pending"
        Compiled = "Compiled"
        Fallback = "Fallback"

    def __init__(
        self,
        target: Callable[P, R],
        *,
        signature: Sequence[TensorSpec] = (),
        dynamic: bool | None = None,
        fullgraph: bool = False,
        optimize: bool | None = None,
        specialize: bool | None = None,
        place: Any = None,
        dynamic_axes: Mapping[str, Any] | None = None,
        output_names: Sequence[str] | None = None,
        graph_name: str | None = None,
    ) -> None:
        if not callable(target):
            raise TypeError(f"compile: the target must be callable, got {type(target).__name__}")
        for spec in signature:
            if not isinstance(spec, TensorSpec):
                raise TypeError(f"compile: the signature holds TensorSpecs, got {spec!r}")
        if dynamic_axes is not None and not isinstance(dynamic_axes, Mapping):
            raise TypeError(f"compile: dynamic_axes must be a mapping, got {dynamic_axes!r}")
        if place is not None:
            device = place.device if isinstance(place, Stream) else Device(place)
            if device_number(device) < 0:
                raise InvalidArgumentError(f"compile: nothing runs on device {device}")
        self._target = target
        self._signature = tuple(signature)
        self._dynamic = dynamic
        self._fullgraph = fullgraph
        self._optimize = optimize is not False
        self._specialize = bool(specialize)
        self._place = place
        self._dynamic_axes = dict(dynamic_axes or {})
        self._output_names = output_names
        self._graph_name = graph_name
        self._lock = threading.RLock()
        self.reset()

    # ---------------------------------------------------------- facts
    @property
    def state(self) -> CompiledFunction.State:
        """Where the current capture is in its lifecycle."""
        return self._state

    @property
    def recapture_count(self) -> int:
        """How many times a changed structure, a changed static value or drifted shapes forced a
        new capture."""
        return self._recaptures

    @property
    def input_names(self) -> list[str]:
        """The graph's input names of the current capture, in flattening order."""
        return [] if self._current is None else list(self._current.names)

    def reset(self) -> None:
        """Drops every capture and the count; the next call captures again."""
        with self._lock:
            self._state = self.State.Pending
            self._captures: OrderedDict[Any, _Capture] = OrderedDict()
            self._current: _Capture | None = None
            self._recaptures = 0
            self._drifts = 0
            self._drifted: dict[Any, list[set[int]]] = {}
            self._taken = False

    def take_graph(self) -> ModelGraph:
        """The graph of the current capture, which is the caller's from now on; the function serves
        eagerly until `reset`. Raises `InvalidArgumentError` unless the state is ``Compiled``."""
        with self._lock:
            if self._current is None or self._state is not self.State.Compiled:
                raise InvalidArgumentError(
                    f"take_graph: the function's state is {self._state}, and only a Compiled one "
                    "has a graph; call it first",
                    "FAILED_PRECONDITION",
                )
            graph = self._current.graph
            self._captures.clear()
            self._current = None
            self._state = self.State.Fallback
            return graph

    # ---------------------------------------------------------- a call
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._state is self.State.Fallback or active_tracer() is not None:
            return self._target(*args, **kwargs)
        leaves, structure = pytree.tree_flatten([list(args), kwargs])
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if any(tensor.is_traced for tensor in tensors):
            return self._target(*args, **kwargs)
        if not all(tensor.is_contiguous() and not tensor.layout for tensor in tensors):
            if self._fullgraph:
                raise InvalidArgumentError(
                    "compile: a graph takes contiguous inputs, and weights as published; pass "
                    "x.contiguous() or unpack_weight(x)"
                )
            return self._target(*args, **kwargs)
        key = (structure, tuple(_guard(leaf) for leaf in leaves), self._module_guard())
        try:
            capture = self._captures.get(key)
        except TypeError as error:  # a static value that changes unseen: a set, an array
            if self._fullgraph:
                raise InvalidArgumentError(
                    f"compile: a capture cannot be told by an argument: {error}; pass a tensor, or "
                    "a value with a hash"
                ) from error
            return self._target(*args, **kwargs)
        if capture is not None and capture.serves(tensors):
            self._current = capture
            return cast(R, capture.run(tensors))
        with self._lock:
            return self._captured_call(key, capture, leaves, structure, tensors, args, kwargs)

    def _captured_call(
        self,
        key: Any,
        before: _Capture | None,
        leaves: list[Any],
        structure: Any,
        tensors: list[Any],
        args: Any,
        kwargs: Any,
    ) -> R:
        """Serves a call that no capture fits, and captures it."""
        self._check_axes(structure, leaves, tensors)
        if self._fullgraph:
            capture = self._capture(key, before, leaves, structure, tensors)
            result = self._target(*args, **kwargs)
        else:
            result = self._target(*args, **kwargs)
            if before is not None and self._drifts >= MAX_DRIFTS:
                self._state = self.State.Fallback
                self._current = None
                return result
            try:
                capture = self._capture(key, before, leaves, structure, tensors)
            except (ClikaRTError, TypeError, ValueError):
                self._state = self.State.Fallback
                self._current = None
                return result
        if self._captures or self._current is not None:
            self._recaptures += 1
        self._drifts += before is not None
        self._captures[key] = capture
        self._captures.move_to_end(key)
        while len(self._captures) > MAX_CAPTURES:
            dropped, _ = self._captures.popitem(last=False)
            self._drifted.pop(dropped, None)
        self._current = capture
        self._state = self.State.Compiled
        return result

    def _check_axes(self, structure: Any, leaves: list[Any], tensors: list[Any]) -> None:
        """What the caller wrote is refused, and not served eagerly."""
        if not self._dynamic_axes:
            return
        names = self._names(structure, leaves)
        if len(names) != len(tensors):
            return  # of the signature: the capture says so
        for name, axes in self._dynamic_axes.items():
            if name not in names:
                raise InvalidArgumentError(
                    f"compile: dynamic_axes names {name!r}, and the inputs are {names}"
                )
            spec_of(name, tensors[names.index(name)], axes)

    # ---------------------------------------------------------- a capture
    def _capture(
        self,
        key: Any,
        before: _Capture | None,
        leaves: list[Any],
        structure: Any,
        tensors: list[Any],
    ) -> _Capture:
        """Traces the target over stand-ins for the tensors; tries fewer dynamic axes where the
        function does not take them."""
        failure: Exception | None = None
        for dims in self._choices(key, before, tensors):
            try:
                return self._trace(dims, leaves, structure, tensors)
            except (ClikaRTError, TypeError, ValueError, ZeroDivisionError) as error:
                failure = failure or error
        assert failure is not None
        if isinstance(failure, ClikaRTError):
            raise failure
        raise InvalidArgumentError(
            f"compile: the function cannot be recorded: {failure}"
        ) from failure

    def _choices(
        self, key: Any, before: _Capture | None, tensors: list[Any]
    ) -> list[list[tuple[Any, ...]]]:
        """Dims to trace with, best first: per input a size, or the name of a dynamic one."""
        static = [tuple(tensor.shape) for tensor in tensors]
        if self._signature:
            if len(self._signature) != len(tensors):
                raise InvalidArgumentError(
                    f"compile: the signature has {len(self._signature)} inputs, the call has "
                    f"{len(tensors)}"
                )
            named = []
            for spec, shape in zip(self._signature, static, strict=True):
                if len(spec.dims) != len(shape):
                    raise InvalidArgumentError(
                        f"compile: input '{spec.name}' has rank {len(spec.dims)} in the signature, "
                        f"got shape {list(shape)}"
                    )
                named.append(
                    tuple(
                        size if want > 0 else (label or f"{spec.name}_dim{axis}")
                        for axis, (want, label, size) in enumerate(
                            zip(spec.dims, spec.dim_names, shape, strict=True)
                        )
                    )
                )
            return [named]
        if self._dynamic is False:
            return [static]
        moving = self._drifted.setdefault(key, [set() for _ in tensors])
        if before is not None:
            for axes, dims, shape in zip(moving, before.dims, static, strict=True):
                axes.update(
                    axis
                    for axis, (size, given) in enumerate(zip(dims, shape, strict=True))
                    if isinstance(size, str) or size != given
                )
        if self._dynamic:
            for axes, shape in zip(moving, static, strict=True):
                if shape:
                    axes.add(0)
        # Axes of one size now are taken for one size always, then for sizes of their own.
        choices = []
        if any(moving):
            for shared in (True, False):
                choices.append(
                    [
                        tuple(
                            (f"size{size}" if shared else f"size_{at}_{axis}")
                            if axis in axes and size > 0
                            else size
                            for axis, size in enumerate(shape)
                        )
                        for at, (axes, shape) in enumerate(zip(moving, static, strict=True))
                    ]
                )
        return [*choices, static]

    def _trace(
        self, dims: list[tuple[Any, ...]], leaves: list[Any], structure: Any, tensors: list[Any]
    ) -> _Capture:
        names = self._names(structure, leaves)
        axes = {
            name: {axis: size for axis, size in enumerate(sizes) if isinstance(size, str)}
            for name, sizes in zip(names, dims, strict=True)
        }
        for name, more in self._dynamic_axes.items():
            rank = len(dims[names.index(name)])
            for axis in more:
                label = more[axis] if isinstance(more, Mapping) else None
                axes[name][axis % rank] = label or f"{name}_dim{axis % rank}"
        target: Any = self._target

        def spread(given: list[Any], options: dict[str, Any]) -> Any:
            return target(*given, **options)

        traced = trace(
            spread,
            example_inputs=tuple(pytree.tree_unflatten(structure, leaves)),
            input_names=names,
            output_names=self._output_names,
            graph_name=self._graph_name or str(getattr(target, "__name__", type(target).__name__)),
            dynamic_axes={name: found for name, found in axes.items() if found},
            static_outputs=True,
        )
        if self._optimize:
            traced.graph.optimize(**self._defaults())
        if self._place is not None:
            traced.graph.to(self._place)
        traced.graph.finalize()
        sizes = [
            tuple(axes[name].get(axis, size) for axis, size in enumerate(tensor.shape))
            for name, tensor in zip(names, tensors, strict=True)
        ]
        return _Capture(traced, sizes, names)

    def _defaults(self) -> dict[str, Any]:
        if not self._specialize:
            return {}
        from .optimize import DefaultsOptions

        return {"defaults": DefaultsOptions(specialize=True, shape_fixation=True)}

    def _names(self, structure: Any, leaves: list[Any]) -> list[str]:
        """An input is called by its spec, else by the argument it stands in."""
        if self._signature:
            return [spec.name for spec in self._signature]
        from .recording import default_names

        pairs, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(structure, leaves))
        target = self._target.forward if isinstance(self._target, Module) else self._target
        return default_names(target, [path[1:] for path, leaf in pairs if isinstance(leaf, Tensor)])

    def _module_guard(self) -> tuple[int, ...]:
        """Which tensors a module's parameters are: another one needs another capture."""
        if not isinstance(self._target, Module):
            return ()
        return tuple(id(value) for _, value in self._target.named_parameters())


class CompiledModule(CompiledFunction[..., Any]):
    """A `CompiledFunction` of a module; what the module has can be asked here too."""

    @property
    def module(self) -> Module:
        """The module itself."""
        return cast(Module, self._target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.__dict__["_target"], name)


def compile(
    target: Callable[P, R],
    signature: Sequence[TensorSpec] = (),
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    optimize: bool | None = None,
    specialize: bool | None = None,
    place: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    output_names: Sequence[str] | None = None,
    graph_name: str | None = None,
) -> CompiledFunction[P, R]:
    """Wraps a function or module in capture and replay: the first call serves the eager result and
    records a graph, later calls that match run the graph without calling Python.

    Arguments and results are nested containers. Tensors feed the graph; every other leaf is a
    static value of the capture, and a call with another structure or another static value captures
    again. ``signature`` names the inputs of a function that takes one list. Shapes that drift make
    a new capture in which the drifted axes are dynamic; ``dynamic=True`` has the first axis of
    every input dynamic from the start, False none ever, ``dynamic_axes`` names them. ``optimize``
    (on by default) runs `ModelGraph.optimize` on the capture, ``specialize`` fixes it to its
    shapes, ``place`` is the device that it serves on.

    What the function finds around it, such as a global, is what it was at the capture.

    What cannot be recorded, such as a branch on a tensor's value or random numbers without a seed,
    is served eagerly from then on, and so is every call with a tensor that is not contiguous, a
    weight in its backend's own layout or a static value without a hash; ``fullgraph`` makes that a
    `ClikaRTError`.

    >>> import clika_runtime as crt
    >>> double = crt.compile(lambda x: x + x)
    >>> double(crt.ones(2)).tolist(), double(crt.ones(2)).tolist(), double.state
    ([2.0, 2.0], [2.0, 2.0], <State.Compiled: 'Compiled'>)
    """
    kind: Any = CompiledModule if isinstance(target, Module) else CompiledFunction
    made: CompiledFunction[P, R] = kind(
        target,
        signature=signature,
        dynamic=dynamic,
        fullgraph=fullgraph,
        optimize=optimize,
        specialize=specialize,
        place=place,
        dynamic_axes=dynamic_axes,
        output_names=output_names,
        graph_name=graph_name,
    )
    return made


def _guard(leaf: Any) -> Any:
    """What of a leaf a capture depends on, besides shapes."""
    if isinstance(leaf, Tensor):
        return (leaf.dtype, leaf.device, len(leaf.shape), leaf.scheme)
    if isinstance(leaf, float):
        return (type(leaf), leaf.hex())  # 0.0 is not -0.0, and a NaN is itself
    return (type(leaf), leaf)
