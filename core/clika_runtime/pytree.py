"""Pytrees: nested containers taken apart into leaves and a structure, and put together again.

    from clika_runtime import pytree

    leaves, spec = pytree.tree_flatten({"a": [1, (2, None)], "b": 3})
    tree = pytree.tree_unflatten(spec, leaves)

Lists, tuples, dicts, ``OrderedDict``, ``defaultdict``, ``deque``, namedtuples and registered
classes are nodes; everything else is a leaf, ``None`` too unless ``none_is_leaf=False``. The
built-in containers count by exact type: a subclass is a leaf until it is registered. Leaves come
depth first, left to right, dicts in insertion order. Containers may be nested 1000 deep.

The keywords of most functions are the same:

- ``is_leaf``: a function of a subtree; where it is true, the subtree is one leaf;
- ``none_is_leaf``: whether None is a leaf (default) or a node without children;
- ``namespace``: whose registrations count besides the global ones.

A structure that does not fit is an ``InvalidArgumentError``, which is a ``ValueError``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from ._native import _pytree
from ._native._pytree import DataclassKey, GetAttrKey, MappingKey, SequenceKey, TreeSpec
from .errors import InvalidArgumentError

__all__ = [
    "DataclassKey",
    "GetAttrKey",
    "KeyPath",
    "MappingKey",
    "PyTree",
    "SERIALIZATION_PROTOCOL",
    "SequenceKey",
    "TreeSpec",
    "broadcast_prefix",
    "dict_insertion_ordered",
    "is_registered",
    "key_get",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "tree_all",
    "tree_any",
    "tree_broadcast_prefix",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_with_path",
    "tree_max",
    "tree_min",
    "tree_reduce",
    "tree_structure",
    "tree_sum",
    "tree_transpose",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "unregister_pytree_node",
]

PyTree: TypeAlias = Any
KeyPath: TypeAlias = tuple[SequenceKey | MappingKey | GetAttrKey, ...]
IsLeaf: TypeAlias = Callable[[Any], Any] | None
_Class = TypeVar("_Class", bound=type)

# The format of `treespec_dumps`; a document of another version is refused.
SERIALIZATION_PROTOCOL = 1


class _Missing:
    def __repr__(self) -> str:
        return "<no default>"


_MISSING: Any = _Missing()


# ---- flatten and rebuild


def tree_flatten(
    tree: PyTree, is_leaf: IsLeaf = None, *, none_is_leaf: bool = True, namespace: str = ""
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure.

    >>> tree_flatten({"a": [1, (2, None)], "b": 3})
    ([1, 2, None, 3], TreeSpec({'a': [*, (*, *)], 'b': *}))
    >>> tree_flatten({"x": 1, "cache": None}, none_is_leaf=False)
    ([1], TreeSpec({'x': *, 'cache': None}, none_is_leaf=False))
    """
    return _pytree.flatten(tree, is_leaf, none_is_leaf, namespace)


def tree_unflatten(spec: TreeSpec, leaves: Iterable[Any]) -> PyTree:
    """The tree of a structure over ``leaves``.

    Raises:
        InvalidArgumentError: another number of leaves than the structure has.

    >>> leaves, spec = tree_flatten({"a": 1, "b": (2,)})
    >>> tree_unflatten(spec, [10, 20])
    {'a': 10, 'b': (20,)}
    """
    if not isinstance(spec, TreeSpec):
        raise TypeError(
            f"tree_unflatten: expected (spec, leaves), got ({type(spec).__name__}, "
            f"{type(leaves).__name__}); the spec comes first"
        )
    return _pytree.unflatten(spec, leaves)


def tree_leaves(
    tree: PyTree, is_leaf: IsLeaf = None, *, none_is_leaf: bool = True, namespace: str = ""
) -> list[Any]:
    """The leaves of a tree.

    >>> tree_leaves({"a": [1, (2, None)], "b": 3}, is_leaf=lambda x: isinstance(x, tuple))
    [1, (2, None), 3]
    """
    return _pytree.flatten(tree, is_leaf, none_is_leaf, namespace)[0]


def tree_iter(
    tree: PyTree, is_leaf: IsLeaf = None, *, none_is_leaf: bool = True, namespace: str = ""
) -> Iterator[Any]:
    """The leaves of a tree, one at a time; a container is opened when its turn comes.

    >>> next(tree_iter([[1, 2], 3]))
    1
    """
    return _pytree.LeafIterator(tree, is_leaf, none_is_leaf, namespace)


def tree_structure(
    tree: PyTree, is_leaf: IsLeaf = None, *, none_is_leaf: bool = True, namespace: str = ""
) -> TreeSpec:
    """The structure of a tree.

    >>> tree_structure({"a": [1, 2], "b": None})
    TreeSpec({'a': [*, *], 'b': *})
    """
    return _pytree.flatten(tree, is_leaf, none_is_leaf, namespace)[1]


# ---- map


def tree_map(
    fn: Callable[..., Any],
    tree: PyTree,
    *rest: PyTree,
    is_leaf: IsLeaf = None,
    none_is_leaf: bool = True,
    namespace: str = "",
) -> PyTree:
    """The tree with ``fn`` applied to every leaf.

    Further trees have the first one's structure, dicts by key; ``fn`` takes what stands in the
    place of the leaf in each, which may be a subtree.

    Raises:
        InvalidArgumentError: a further tree has another structure; the message names the place.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    return _pytree.map_leaves("tree_map", fn, tree, rest, is_leaf, none_is_leaf, namespace, False)


def tree_map_(
    fn: Callable[..., Any],
    tree: PyTree,
    *rest: PyTree,
    is_leaf: IsLeaf = None,
    none_is_leaf: bool = True,
    namespace: str = "",
) -> PyTree:
    """Call ``fn`` as ``tree_map`` does, for what it does; returns ``tree`` itself.

    >>> seen = []
    >>> tree_map_(seen.append, (1, [2]))
    (1, [2])
    >>> seen
    [1, 2]
    """
    for row in _pytree.rows("tree_map_", tree, rest, is_leaf, none_is_leaf, namespace):
        fn(*row)
    return tree


def tree_map_only(
    type_or_pred: type | tuple[type, ...] | Callable[[Any], Any],
    fn: Callable[[Any], Any],
    tree: PyTree,
    *,
    is_leaf: IsLeaf = None,
    none_is_leaf: bool = True,
    namespace: str = "",
) -> PyTree:
    """The tree with ``fn`` applied to the leaves of a type (a class, a tuple or union of them), or
    to those for which a predicate holds.

    >>> tree_map_only(int, lambda x: x + 1, {"a": 1, "b": "text", "c": [2, None, 2.5]})
    {'a': 2, 'b': 'text', 'c': [3, None, 2.5]}
    """
    wanted: Any = type_or_pred
    if not isinstance(wanted, type) and callable(wanted):
        chosen = wanted
    else:

        def chosen(leaf: Any) -> Any:
            return isinstance(leaf, wanted)

    return tree_map(
        lambda leaf: fn(leaf) if chosen(leaf) else leaf,
        tree,
        is_leaf=is_leaf,
        none_is_leaf=none_is_leaf,
        namespace=namespace,
    )


def tree_map_with_path(
    fn: Callable[..., Any],
    tree: PyTree,
    *rest: PyTree,
    is_leaf: IsLeaf = None,
    none_is_leaf: bool = True,
    namespace: str = "",
) -> PyTree:
    """As ``tree_map``; ``fn`` takes the key path before the leaf.

    >>> tree_map_with_path(lambda path, x: keystr(path), {"a": [1, 2]})
    {'a': ["['a'][0]", "['a'][1]"]}
    """
    return _pytree.map_leaves(
        "tree_map_with_path", fn, tree, rest, is_leaf, none_is_leaf, namespace, True
    )


# ---- reductions


@overload
def tree_all(tree: PyTree, /, *, is_leaf: IsLeaf = ..., namespace: str = ...) -> bool: ...
@overload
def tree_all(
    pred: Callable[[Any], Any], tree: PyTree, /, *, is_leaf: IsLeaf = ..., namespace: str = ...
) -> bool: ...
def tree_all(*args: Any, is_leaf: IsLeaf = None, namespace: str = "") -> bool:
    """Whether every leaf is true, or ``pred`` holds for every leaf: ``tree_all(tree)``,
    ``tree_all(pred, tree)``.

    >>> tree_all([1, (2, 3)]), tree_all(lambda x: x > 1, [1, (2, 3)])
    (True, False)
    """
    return all(_verdicts("tree_all", args, is_leaf, namespace))


@overload
def tree_any(tree: PyTree, /, *, is_leaf: IsLeaf = ..., namespace: str = ...) -> bool: ...
@overload
def tree_any(
    pred: Callable[[Any], Any], tree: PyTree, /, *, is_leaf: IsLeaf = ..., namespace: str = ...
) -> bool: ...
def tree_any(*args: Any, is_leaf: IsLeaf = None, namespace: str = "") -> bool:
    """Whether some leaf is true, or ``pred`` holds for some leaf: ``tree_any(tree)``,
    ``tree_any(pred, tree)``.

    >>> tree_any({"a": 0, "b": None}), tree_any(lambda x: x is None, {"a": 0, "b": None})
    (False, True)
    """
    return any(_verdicts("tree_any", args, is_leaf, namespace))


def _verdicts(
    operation: str, args: tuple[Any, ...], is_leaf: IsLeaf, namespace: str
) -> Iterator[Any]:
    if len(args) not in (1, 2):
        raise TypeError(f"{operation}: expected (tree) or (pred, tree), got {len(args)} arguments")
    leaves = tree_iter(args[-1], is_leaf, namespace=namespace)
    return leaves if len(args) == 1 else map(args[0], leaves)


def tree_reduce(
    fn: Callable[[Any, Any], Any],
    tree: PyTree,
    initial: Any = _MISSING,
    *,
    is_leaf: IsLeaf = None,
    namespace: str = "",
) -> Any:
    """The leaves joined from the left by ``fn``, from ``initial`` on if it is given.

    Raises:
        TypeError: no leaves and no ``initial``.

    >>> tree_reduce(lambda x, y: x * y, {"a": 2, "b": (3, 4)})
    24
    """
    leaves = tree_leaves(tree, is_leaf, namespace=namespace)
    if initial is _MISSING:
        return functools.reduce(fn, leaves)
    return functools.reduce(fn, leaves, initial)


def tree_sum(tree: PyTree, start: Any = 0, *, is_leaf: IsLeaf = None, namespace: str = "") -> Any:
    """The sum of the leaves, after ``start``.

    >>> tree_sum({"a": 1, "b": (2, 3)})
    6
    """
    return sum(tree_iter(tree, is_leaf, namespace=namespace), start)


def tree_max(
    tree: PyTree,
    *,
    default: Any = _MISSING,
    key: Callable[[Any], Any] | None = None,
    is_leaf: IsLeaf = None,
    namespace: str = "",
) -> Any:
    """The largest leaf by ``key``, the first among equals; ``default`` for a tree without leaves.

    Raises:
        ValueError: no leaves and no ``default``.

    >>> tree_max({"a": 1, "b": (3, 2)}), tree_max([], default=0)
    (3, 0)
    """
    leaves = tree_iter(tree, is_leaf, namespace=namespace)
    if default is _MISSING:
        return max(leaves, key=key)
    return max(leaves, default=default, key=key)


def tree_min(
    tree: PyTree,
    *,
    default: Any = _MISSING,
    key: Callable[[Any], Any] | None = None,
    is_leaf: IsLeaf = None,
    namespace: str = "",
) -> Any:
    """The smallest leaf by ``key``, the first among equals; ``default`` for a tree without leaves.

    Raises:
        ValueError: no leaves and no ``default``.

    >>> tree_min({"a": 1, "b": (3, -2)}, key=abs)
    1
    """
    leaves = tree_iter(tree, is_leaf, namespace=namespace)
    if default is _MISSING:
        return min(leaves, key=key)
    return min(leaves, default=default, key=key)


# ---- prefixes and transposition


def broadcast_prefix(
    prefix: PyTree,
    tree: PyTree,
    *,
    is_leaf: IsLeaf = None,
    none_is_leaf: bool = True,
    namespace: str = "",
) -> list[Any]:
    """The leaves of ``prefix``, each as often as ``tree`` has leaves in its place.

    Raises:
        InvalidArgumentError: ``prefix`` is not the top of ``tree``.

    >>> broadcast_prefix({"a": 1, "b": 2}, {"a": [7, 8], "b": (9,)})
    [1, 1, 2]
    """
    return _pytree.broadcast("broadcast_prefix", prefix, tree, is_leaf, none_is_leaf, namespace)[0]


def tree_broadcast_prefix(
    prefix: PyTree,
    tree: PyTree,
    *,
    is_leaf: IsLeaf = None,
    none_is_leaf: bool = True,
    namespace: str = "",
) -> PyTree:
    """``prefix`` extended to the structure of ``tree``, its leaves repeated.

    Raises:
        InvalidArgumentError: ``prefix`` is not the top of ``tree``.

    >>> tree_broadcast_prefix({"a": 1, "b": 2}, {"a": [7, 8], "b": (9,)})
    {'a': [1, 1], 'b': (2,)}
    """
    leaves, spec = _pytree.broadcast(
        "tree_broadcast_prefix", prefix, tree, is_leaf, none_is_leaf, namespace
    )
    return _pytree.unflatten(spec, leaves)


def tree_transpose(outer: TreeSpec, inner: TreeSpec, tree: PyTree) -> PyTree:
    """A tree of structure ``outer.compose(inner)`` turned into one of ``inner.compose(outer)``.

    Raises:
        InvalidArgumentError: the tree has another structure.

    >>> outer, inner = tree_structure([0, 0]), tree_structure({"x": 0, "y": 0})
    >>> tree_transpose(outer, inner, [{"x": 1, "y": 2}, {"x": 3, "y": 4}])
    {'x': [1, 3], 'y': [2, 4]}
    """
    leaves = _pytree.match("tree_transpose", outer.compose(inner), tree)
    return inner.compose(outer).unflatten(
        leaf for start in range(inner.num_leaves) for leaf in leaves[start :: inner.num_leaves]
    )


# ---- key paths


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None, *, none_is_leaf: bool = True, namespace: str = ""
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Pairs of key path and leaf, and the structure.

    >>> tree_flatten_with_path({"a": [7]})[0]
    [((MappingKey(key='a'), SequenceKey(idx=0)), 7)]
    """
    return _pytree.flatten_with_path(tree, is_leaf, none_is_leaf, namespace)


def keystr(path: Iterable[Any]) -> str:
    """A key path as the expression that reaches the leaf from its tree.

    >>> keystr((MappingKey("a"), SequenceKey(0), GetAttrKey("x")))
    "['a'][0].x"
    """
    return "".join(map(str, path))


def key_get(tree: PyTree, path: Iterable[Any], *, namespace: str = "") -> Any:
    """The leaf or subtree at a key path. In a registered class a key means the child that its
    flatten function names so, else the item or attribute.

    Raises:
        KeyError, IndexError, AttributeError: the path leads nowhere.

    >>> key_get({"a": [1, 2]}, (MappingKey("a"), SequenceKey(1)))
    2
    """
    return _pytree.key_get(tree, path, namespace)


# ---- registry


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, ...]],
    unflatten_fn: Callable[[tuple[Any, ...], Any], Any],
    *,
    namespace: str = "",
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
) -> None:
    """Make instances of a class nodes.

    ``flatten_fn(instance)`` returns ``(children, context)`` or ``(children, context, entries)``;
    the entries name the children in key paths: attributes by identifiers, else keys of a mapping,
    indices, or key entries such as ``GetAttrKey``. ``unflatten_fn(children, context)`` rebuilds.
    Specs compare contexts, so they should have ``==`` and a hash. In a ``namespace`` the class is a
    node only for calls that pass it. ``serialized_type_name`` and the two functions of the context,
    for one that is not JSON, let ``treespec_dumps`` write it.

    Raises:
        TypeError: an instance instead of a class, or something that cannot be called.
        InvalidArgumentError: a built-in container, a second registration, a name already taken.

    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_pytree_node(
    ...     Point, lambda p: ((p.x, p.y), None, ("x", "y")), lambda children, _: Point(*children)
    ... )
    >>> tree_leaves({"p": Point(1, 2), "n": 3}), tree_structure(Point(1, 2)).entries()
    ([1, 2, 3], ['x', 'y'])
    >>> unregister_pytree_node(Point)
    """
    _pytree.register(
        cls,
        flatten_fn,
        unflatten_fn,
        namespace,
        serialized_type_name,
        to_dumpable_context,
        from_dumpable_context,
        False,
    )


@overload
def register_pytree_node_class(cls: _Class, /) -> _Class: ...
@overload
def register_pytree_node_class(
    *,
    namespace: str = ...,
    serialized_type_name: str | None = ...,
    to_dumpable_context: Callable[[Any], Any] | None = ...,
    from_dumpable_context: Callable[[Any], Any] | None = ...,
) -> Callable[[_Class], _Class]: ...
def register_pytree_node_class(cls: Any = None, /, **options: Any) -> Any:
    """Register a class that flattens itself: a decorator, with or without the keywords of
    ``register_pytree_node``.

    ``__tree_flatten__(self)`` returns what ``flatten_fn`` does; the class method
    ``__tree_unflatten__(cls, context, children)`` rebuilds (the context comes first).

    Raises:
        TypeError: the class lacks one of the two; else as ``register_pytree_node``.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    ...     def __tree_flatten__(self):
    ...         return (self.a, self.b), "pair", ("a", "b")
    ...     @classmethod
    ...     def __tree_unflatten__(cls, context, children):
    ...         return cls(*children)
    >>> leaves, spec = tree_flatten(Pair(1, [2, 3]))
    >>> leaves, spec.context, tree_unflatten(spec, [10, 20, 30]).b
    ([1, 2, 3], 'pair', [20, 30])
    >>> unregister_pytree_node(Pair)
    """
    if cls is None:
        return functools.partial(_register_self, options)
    return _register_self(options, cls)


def _register_self(options: dict[str, Any], cls: Any) -> Any:
    missing = [
        name for name in ("__tree_flatten__", "__tree_unflatten__") if not hasattr(cls, name)
    ]
    if missing and isinstance(cls, type):
        raise TypeError(f"register_pytree_node_class: {cls.__name__} lacks {' and '.join(missing)}")
    register_pytree_node(
        cls,
        lambda instance: instance.__tree_flatten__(),
        lambda children, context: cls.__tree_unflatten__(context, children),
        **options,
    )
    return cls


def register_dataclass(
    cls: _Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    *,
    namespace: str = "",
    serialized_type_name: str | None = None,
) -> _Class:
    """Register a dataclass by field and return it: the data fields are children, the meta fields
    are the context and come back unchanged. Together they are all fields of ``__init__``; without
    ``data_fields``, the children are those that are not meta.

    Raises:
        TypeError: not a dataclass.
        InvalidArgumentError: a field unknown, named twice or left out; else as
            ``register_pytree_node``.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Sample:
    ...     weight: object
    ...     bias: object
    ...     name: str
    >>> _ = register_dataclass(Sample, ["weight", "bias"], ["name"])
    >>> leaves, spec = tree_flatten(Sample(1, 2, "s"))
    >>> leaves, [field.bias for field in [tree_unflatten(spec, [10, 20])]]
    ([1, 2], [20])
    >>> unregister_pytree_node(Sample)
    """
    fields = getattr(cls, "__dataclass_fields__", None)
    if not isinstance(cls, type) or fields is None:
        raise TypeError(f"register_dataclass: expected a dataclass, got {cls!r}")
    needed = [
        name for name, field in fields.items() if field.init and field._field_type.name == "_FIELD"
    ]
    meta = tuple(meta_fields or ())
    data = tuple(n for n in needed if n not in meta) if data_fields is None else tuple(data_fields)
    if sorted(data + meta) != sorted(needed):
        raise InvalidArgumentError(
            f"register_dataclass: data and meta fields of {cls.__name__} are together its fields "
            f"{needed}, each once; got {list(data)} and {list(meta)}"
        )

    def flatten(instance: Any) -> tuple[Any, ...]:
        return (
            [getattr(instance, name) for name in data],
            tuple([getattr(instance, name) for name in meta]),
            data,
        )

    def unflatten(children: tuple[Any, ...], context: tuple[Any, ...]) -> Any:
        return cls(**dict(zip(data + meta, (*children, *context), strict=True)))

    _pytree.register(cls, flatten, unflatten, namespace, serialized_type_name, None, None, True)
    return cls


def unregister_pytree_node(cls: type, *, namespace: str = "") -> None:
    """Make instances of a class leaves again. Specs that were made before still rebuild them.

    Raises:
        TypeError: an instance instead of a class.
        InvalidArgumentError: a built-in container, or not registered in the namespace.
    """
    _pytree.unregister(cls, namespace)


def is_registered(cls: type, *, namespace: str = "") -> bool:
    """Whether instances of a class are nodes for calls with this namespace: registered there or
    globally, or a built-in container. Namedtuples need no registration.

    >>> is_registered(dict), is_registered(int)
    (True, False)
    """
    return _pytree.is_registered(cls, namespace)


@contextlib.contextmanager
def dict_insertion_ordered(flag: bool) -> Iterator[None]:
    """Within the block, flatten dicts and defaultdicts in insertion order (True, the rule outside)
    or by sorted key (False); a rebuilt dict has the original order. Keys of several types are
    sorted by the name of the type first. It holds for the calling thread or task only.

    Raises:
        InvalidArgumentError: from a function in the block, if keys have no order.

    >>> with dict_insertion_ordered(False):
    ...     leaves, spec = tree_flatten({"b": 1, "a": 2})
    >>> leaves, tree_unflatten(spec, leaves)
    ([2, 1], {'b': 1, 'a': 2})
    """
    token = _pytree.set_insertion_order(flag)
    try:
        yield
    finally:
        _pytree.reset_insertion_order(token)


# ---- structures as JSON


def treespec_dumps(spec: TreeSpec) -> str:
    """A structure as JSON.

    A registered class needs its ``serialized_type_name``. Keys and contexts may be made of None,
    bools, ints, finite floats, strings, and lists, tuples and dicts of these.

    Raises:
        InvalidArgumentError: a class without such a name, or a value that JSON cannot state.

    >>> spec = tree_structure({"a": [1, (2, None)], "b": 3})
    >>> treespec_loads(treespec_dumps(spec)) == spec
    True
    """
    from . import _treespec_json

    return _treespec_json.dumps(spec, SERIALIZATION_PROTOCOL)


def treespec_loads(text: str | bytes) -> TreeSpec:
    """The structure that ``treespec_dumps`` wrote. Nothing is imported for it: namedtuples are
    found in modules that are imported already, registered classes by their name.

    Raises:
        InvalidArgumentError: no such document, another version, an unknown type.
    """
    from . import _treespec_json

    return _treespec_json.loads(text, SERIALIZATION_PROTOCOL)
