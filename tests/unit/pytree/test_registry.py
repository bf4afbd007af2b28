"""Classes of the caller's: registration, namespaces, dataclasses."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import OrderedDict, defaultdict, deque

import pytest

from clika_runtime import pytree
from clika_runtime.errors import InvalidArgumentError

from .trees import Pair, Point


def rebuild(children, label):
    return Point(*children, label)


@contextlib.contextmanager
def registered(cls=Point, flatten=Point.flatten, unflatten=rebuild, **options):
    pytree.register_pytree_node(cls, flatten, unflatten, **options)
    try:
        yield
    finally:
        pytree.unregister_pytree_node(cls, namespace=options.get("namespace", ""))


def test_namespaces():
    point = Point(1, [2], "a")
    with registered(namespace="mylib"):
        assert pytree.tree_leaves(point) == [point]
        assert pytree.tree_leaves(point, namespace="other") == [point]
        assert pytree.tree_leaves(point, namespace="mylib") == [1, 2]
        assert pytree.is_registered(Point, namespace="mylib")
        assert not pytree.is_registered(Point)
        assert not pytree.is_registered(Point, namespace="other")
        # One's own registration stands before the global one, for calls that pass the namespace.
        with registered(flatten=lambda p: ((p.label,), None)):
            assert pytree.tree_leaves(point) == ["a"]
            assert pytree.tree_leaves(point, namespace="other") == ["a"]
            assert pytree.tree_leaves(point, namespace="mylib") == [1, 2]
            assert pytree.is_registered(Point, namespace="other")
            ours, theirs = (pytree.tree_structure(point, namespace=n) for n in ("mylib", ""))
            assert ours != theirs
    assert pytree.tree_leaves(point, namespace="mylib") == [point]


def test_specs_outlive_the_registration():
    with registered():
        leaves, spec = pytree.tree_flatten([Point(1, 2, "a"), 3])
    assert spec.unflatten(leaves) == [Point(1, 2, "a"), 3]
    assert spec.flatten_up_to([Point(4, 5, "a"), 6]) == [4, 5, 6]


@pytest.mark.parametrize("cls", [list, tuple, dict, OrderedDict, defaultdict, deque, type(None)])
def test_built_in_containers_are_fixed(cls):
    assert pytree.is_registered(cls)
    with pytest.raises(InvalidArgumentError, match=f"{cls.__name__} is a built-in container"):
        pytree.register_pytree_node(cls, lambda x: ((), None), lambda c, x: cls())
    with pytest.raises(InvalidArgumentError, match="is a built-in container"):
        pytree.unregister_pytree_node(cls)


def test_registering_twice():
    with registered(), pytest.raises(InvalidArgumentError, match="Point is registered already"):
        pytree.register_pytree_node(Point, Point.flatten, rebuild)
    with registered(namespace="n"):
        with pytest.raises(ValueError, match="already in namespace 'n'"):
            pytree.register_pytree_node(Point, Point.flatten, rebuild, namespace="n")
    with pytest.raises(InvalidArgumentError, match="Point is not registered"):
        pytree.unregister_pytree_node(Point)
    with pytest.raises(InvalidArgumentError, match="not registered in namespace 'n'"):
        pytree.unregister_pytree_node(Point, namespace="n")


def test_arguments_of_registration():
    point = Point(1, 2, "a")
    for call in (
        lambda: pytree.register_pytree_node(point, Point.flatten, rebuild),
        lambda: pytree.register_dataclass(point, ["x"]),
        lambda: pytree.register_pytree_node_class(point),
        lambda: pytree.unregister_pytree_node(point),
        lambda: pytree.is_registered(point),
        lambda: pytree.register_pytree_node(Point, None, rebuild),
        lambda: pytree.register_pytree_node(Point, Point.flatten, 3),
        lambda: pytree.register_pytree_node(Point, Point.flatten, rebuild, namespace=None),
        lambda: pytree.register_pytree_node(
            Point, Point.flatten, rebuild, serialized_type_name=b"point"
        ),
        lambda: pytree.register_pytree_node_class(Point),
        lambda: pytree.tree_leaves(point, namespace=3),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(InvalidArgumentError, match="both of to_dumpable_context"):
        pytree.register_pytree_node(Point, Point.flatten, rebuild, to_dumpable_context=str)
    with registered(serialized_type_name="tests.point"):
        with pytest.raises(InvalidArgumentError, match=r"'tests\.point' belongs to Point"):
            pytree.register_pytree_node(
                Pair, lambda p: (p, None), lambda c, _: Pair(*c), serialized_type_name="tests.point"
            )
    assert not pytree.is_registered(Point)
    assert not pytree.is_registered(Pair)


def test_a_namedtuple_may_be_registered():
    with registered(Pair, lambda p: ((p.left,), p.right), lambda c, right: Pair(c[0], right)):
        leaves, spec = pytree.tree_flatten(Pair(1, 2))
        assert leaves == [1]
        assert spec.unflatten([5]) == Pair(5, 2)
    assert pytree.tree_leaves(Pair(1, 2)) == [1, 2]


class Doubled(dict):
    """A mapping of one's own."""


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (("x", "y"), [".x", ".y"]),
        (("not an identifier", 7), ["['not an identifier']", "[7]"]),
        (None, ["[0]", "[1]"]),
        ((pytree.MappingKey("x"), pytree.SequenceKey(1)), ["['x']", "[1]"]),
    ],
)
def test_entries_name_children(entries, text):
    point = Point(1, [2], "a")
    with registered(flatten=lambda p: ((p.x, p.y), p.label, entries)):
        pairs, spec = pytree.tree_flatten_with_path([point])
        assert [pytree.keystr(path) for path, _ in pairs] == ["[0]" + text[0], f"[0]{text[1]}[0]"]
        for path, leaf in pairs:
            assert pytree.key_get([point], path) is leaf
        assert spec.children()[0].entries() == list(range(2) if entries is None else entries)


def test_entries_of_a_mapping_are_keys():
    def flatten(d):
        return list(d.values()), tuple(d), tuple(d)

    with registered(Doubled, flatten, lambda c, keys: Doubled(zip(keys, c, strict=True))):
        [(path, _)], spec = pytree.tree_flatten_with_path(Doubled(a=1))
        assert pytree.keystr(path) == "['a']"
        assert type(spec.unflatten([2])) is Doubled


def test_class_decorator():
    @pytree.register_pytree_node_class(namespace="mylib", serialized_type_name="tests.box")
    class Box:
        def __init__(self, *items):
            self.items = items

        def __tree_flatten__(self):
            return self.items, len(self.items)

        @classmethod
        def __tree_unflatten__(cls, context, children):
            assert context == len(children)
            return cls(*children)

    try:
        spec = pytree.tree_structure(Box(1, (2, 3)), namespace="mylib")
        assert repr(spec) == "TreeSpec(CustomTreeNode(Box[2], [*, (*, *)]))"
        assert spec.unflatten("abc").items == ("a", ("b", "c"))
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    finally:
        pytree.unregister_pytree_node(Box, namespace="mylib")


@dataclasses.dataclass(frozen=True)
class Sample:
    weight: object
    bias: object
    name: str = "s"
    shape: tuple = dataclasses.field(init=False, default=(1,))


def test_dataclass():
    assert pytree.register_dataclass(Sample, meta_fields=["name"]) is Sample
    try:
        pairs, spec = pytree.tree_flatten_with_path(Sample([1], 2, "t"))
        assert [pytree.keystr(path) for path, _ in pairs] == [".weight[0]", ".bias"]
        assert pairs[1][0] == (pytree.DataclassKey("bias"),)
        assert spec.unflatten([3, 4]) == Sample([3], 4, "t")
        assert spec.context == ("t",)
        assert spec != pytree.tree_structure(Sample([1], 2, "u"))
        with pytest.raises(ValueError, match="already"):
            pytree.register_dataclass(Sample)
    finally:
        pytree.unregister_pytree_node(Sample)


@pytest.mark.parametrize(
    ("data", "meta"),
    [
        (["weight"], ["name"]),  # bias is left out
        (["weight", "bias", "name"], ["name"]),
        (["weight", "bias", "size"], ["name"]),
        (["weight", "bias", "shape"], ["name"]),  # not of __init__
        ([], []),
    ],
)
def test_fields_of_a_dataclass(data, meta):
    with pytest.raises(InvalidArgumentError, match="register_dataclass: data and meta fields"):
        pytree.register_dataclass(Sample, data, meta)
    assert not pytree.is_registered(Sample)


def test_not_a_dataclass():
    with pytest.raises(TypeError, match="expected a dataclass"):
        pytree.register_dataclass(Point, ["x"])


def test_threads():
    """Registering, flattening and asking at once: every answer is one of the two possible."""
    classes = [type(f"Class{i}", (), {}) for i in range(8)]
    stop, failures = threading.Event(), []

    def change(cls):
        while not stop.is_set():
            pytree.register_pytree_node(cls, lambda x: ((1, 2), None), lambda c, _: cls())
            pytree.unregister_pytree_node(cls)

    def read():
        try:
            for _ in range(1000):
                for cls in classes:
                    instance = cls()
                    leaves, spec = pytree.tree_flatten((instance, 0))
                    assert leaves in ([instance, 0], [1, 2, 0])
                    assert len(pytree.tree_leaves(spec.unflatten(leaves))) in (2, 3)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=change, args=(cls,)) for cls in classes[:3]]
    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in writers + readers:
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    for thread in writers:
        thread.join()
    assert not failures
    assert not any(map(pytree.is_registered, classes))


def test_one_of_many_threads_registers():
    cls, results = type("Once", (), {}), []
    barrier = threading.Barrier(8)

    def register():
        barrier.wait()
        try:
            pytree.register_pytree_node(cls, lambda x: ((), None), lambda c, _: cls())
            results.append(True)
        except InvalidArgumentError:
            results.append(False)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pytree.unregister_pytree_node(cls)
    assert sorted(results) == [False] * 7 + [True]
