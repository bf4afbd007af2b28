"""Transforms of graphs: the runtime's, by factories of their names
(``transforms.remove_double_neg()``), those that installed packages bring (`plugin`), and what makes
one of your own (`transform`, `rule`, `rewrite`).

A transform of the runtime's leaves the results of a graph as they are, to the bit; after
``clamp_to_relu`` alone a zero may have the other sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from ...errors import NotFoundError
from ..optimize import DefaultsOptions, OwnTransform, Transform
from .cleanup import CLEANUP_GRAPH
from .equal import MERGE_EQUAL_NODES
from .fusion import FOLD_ACTIVATION, FOLD_ADD_RMS_NORM, FOLD_BIAS, FOLD_SILU_MUL
from .identities import FOLD_NEUTRAL_NUMBERS, REMOVE_IDENTITY_CASTS, REMOVE_IDENTITY_VIEWS
from .layout import (
    COLLAPSE_RESHAPES,
    DROP_BOUNDARY_PERMUTES,
    MATMUL_ABSORB_TRANSPOSE,
    REMOVE_DOUBLE_PERMUTE,
    SINK_CHANNELS_FIRST,
)
from .pairs import CLAMP_TO_RELU, REMOVE_DOUBLE_NEG, REMOVE_REDUNDANT_RELU
from .products import FOLD_GATED_LINEAR, JOIN_LINEARS
from .shapes import FIXATE_DYN_SHAPE_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..._native._core import Tensor
    from ..model_graph import ModelGraph
    from ..pattern import Pattern, RewriteMatch

    Replacement = Callable[[RewriteMatch, list[Tensor]], object]
    Condition = Callable[[RewriteMatch], object]

# The runtime's transforms, in the order they run.
_LIST: tuple[OwnTransform, ...] = (
    CLEANUP_GRAPH,  # first: a node that nothing reads still counts as a reader to all others
    FIXATE_DYN_SHAPE_QUEUES,  # then: fixed sizes show which shapes are equal
    DROP_BOUNDARY_PERMUTES,  # before permutations are joined, the border's with the inner ones
    REMOVE_IDENTITY_CASTS,  # identities go before what looks at neighbours, which they part
    FOLD_NEUTRAL_NUMBERS,  # so do these
    REMOVE_IDENTITY_VIEWS,  # and these, which a cast or a number may have parted
    REMOVE_DOUBLE_NEG,  # exposes pairs of what stood around it
    CLAMP_TO_RELU,  # makes Relus that the next one takes away
    REMOVE_REDUNDANT_RELU,  # before a Relu hides in the node that it follows
    SINK_CHANNELS_FIRST,  # makes pairs that the next one takes away
    REMOVE_DOUBLE_PERMUTE,  # before products take a transposition: two of them are none
    COLLAPSE_RESHAPES,  # after permutations are gone from between reshapes
    MERGE_EQUAL_NODES,  # after the identities, so that equals look equal; before fusions hide parts
    MATMUL_ABSORB_TRANSPOSE,  # before the bias: Linear and MatMul take it alike
    FOLD_BIAS,  # before the activation, which comes after the bias
    FOLD_SILU_MUL,  # before the Silu becomes the activation of the gate's product
    FOLD_ADD_RMS_NORM,  # after the bias, which takes sums that are no residuals
    FOLD_GATED_LINEAR,  # after the Silu and its Mul are a Swiglu
    JOIN_LINEARS,  # after gates took their products
    FOLD_ACTIVATION,  # last: hides the activations that others look for
)
_BY_NAME = {item.name: item for item in _LIST}
_plugins: dict[str, Transform] = {}

__all__ = [
    "DefaultsOptions",
    "Transform",
    "defaults",
    "plugin",
    "rewrite",
    "rule",
    "transform",
    *_BY_NAME,
]


def __getattr__(name: str) -> Callable[[], Transform]:
    item = _BY_NAME.get(name)
    if item is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    chosen = item

    def factory() -> Transform:
        return chosen

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = (item.visit or item.whole).__doc__
    globals()[name] = factory
    return factory


def __dir__() -> list[str]:
    return __all__


def is_own(name: str) -> bool:
    """Whether one of the runtime's transforms has that name."""
    return name in _BY_NAME


def default_list(options: DefaultsOptions, from_file: bool) -> list[Transform]:
    """What `ModelGraph.optimize` runs by itself."""
    return [item for item in _LIST if item.gate is None or not item.gate(options, from_file)]


def defaults(options: DefaultsOptions | None = None) -> list[Transform]:
    """The default list under these choices, without a graph.

    >>> [item.name for item in defaults()][:2]
    ['cleanup_graph', 'remove_identity_casts']
    """
    options = options or DefaultsOptions()
    chosen = {*default_list(options, False), *default_list(options, True)}
    return [item for item in _LIST if item in chosen]


def plugin(name: str) -> Transform:
    """The transform that an installed package registers under ``name`` (entry-point group
    ``clika_runtime.transforms``). Its code is imported here.

    Raises `NotFoundError` for a name that no installed package registers.
    """
    from ... import plugins

    row = plugins.transforms().get(name)
    if row is None:
        listed = ", ".join(sorted(plugins.transforms())) or "none"
        raise NotFoundError(
            f"transforms: no installed package registers a transform '{name}'; registered: {listed}"
        )
    if name not in _plugins:
        found = plugins.load(row)
        if isinstance(found, type):
            found = found()
        _plugins[name] = found if isinstance(found, Transform) else Transform(name, found)
    return _plugins[name]


@overload
def transform(name: Callable[[ModelGraph], object], /) -> Transform: ...
@overload
def transform(
    name: str | None = None, *, runs_after: Iterable[Transform] = ()
) -> Callable[[Callable[[ModelGraph], object]], Transform]: ...
def transform(name: Any = None, *, runs_after: Iterable[Transform] = ()) -> Any:
    """Makes a `Transform` of the function it decorates, which gets the graph and edits it. It is
    named after the function unless ``name`` is given.

    >>> @transform
    ... def look(graph):
    ...     print(len(graph.nodes()))
    >>> look
    Transform('look')
    """
    if callable(name):
        return Transform(_name_of(name), name)

    def decorate(fn: Callable[[ModelGraph], object]) -> Transform:
        return Transform(_name_of(fn) if name is None else name, fn, runs_after)

    return decorate


def rewrite(
    name: str,
    pattern: Pattern,
    replacement: Replacement,
    condition: Condition | None = None,
    *,
    runs_after: Iterable[Transform] = (),
) -> Transform:
    """A transform that replaces each occurrence of ``pattern`` that ``condition`` accepts with the
    values ``replacement(match, tensors)`` computes, one per value of ``match.outputs``; the tensors
    stand for ``match.inputs``.

    >>> from clika_runtime.graph import OpCode, Pattern
    >>> pair = Pattern([OpCode.Abs, OpCode.Abs])
    >>> rewrite("one_abs", pair, lambda match, tensors: tensors[0].abs())
    Transform('one_abs')
    """
    from ..pattern import Pattern, apply_rule

    if not isinstance(pattern, Pattern):
        raise TypeError(f"rewrite: pattern must be a Pattern, got {type(pattern).__name__}")
    if not callable(replacement):
        raise TypeError(f"rewrite: replacement must be callable, got {type(replacement).__name__}")
    if condition is not None and not callable(condition):
        raise TypeError(f"rewrite: condition must be callable, got {type(condition).__name__}")
    taken = pattern.copy()  # as it is now, whatever is added to the caller's

    def run(graph: ModelGraph) -> None:
        apply_rule(graph, taken, replacement, condition)

    return Transform(name, run, runs_after)


def rule(
    pattern: Pattern,
    *,
    condition: Condition | None = None,
    name: str | None = None,
    runs_after: Iterable[Transform] = (),
) -> Callable[[Replacement], Transform]:
    """Makes a `rewrite` of the replacement that it decorates, and whose name it has by default."""

    def decorate(replacement: Replacement) -> Transform:
        chosen = _name_of(replacement) if name is None else name
        return rewrite(chosen, pattern, replacement, condition, runs_after=runs_after)

    return decorate


def _name_of(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))
