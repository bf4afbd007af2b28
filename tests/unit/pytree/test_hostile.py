"""Trees and functions that misbehave: an error that says what, no crash, no leak."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict, deque

import pytest

from clika_runtime import pytree
from clika_runtime.errors import InvalidArgumentError

from .test_registry import rebuild, registered
from .trees import Pair, Point, Stranger

LIMIT = 1000


def nest(depth, wrap=lambda inner: [inner], leaf=0):
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


WRAPS = [
    lambda x: [x],
    lambda x: (x,),
    lambda x: {"a": x},
    lambda x: OrderedDict(a=x),
    lambda x: defaultdict(int, a=x),
    lambda x: deque([x]),
    lambda x: Pair(x, 1),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_depth(wrap):
    deep = nest(LIMIT, wrap)
    leaves, spec = pytree.tree_flatten(deep)
    assert spec.unflatten(leaves) is not None
    assert spec == pytree.tree_structure(deep)
    assert hash(spec) == hash(pytree.tree_structure(deep))
    assert repr(spec).startswith("TreeSpec(")
    assert len(spec.paths()[0]) == LIMIT
    assert spec.is_prefix(spec)
    assert spec.flatten_up_to(deep) == leaves
    assert list(pytree.tree_iter(deep)) == leaves
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    function, state = spec.__reduce__()
    assert function(*state) == spec
    # What is broadcast goes no deeper than its tree.
    assert pytree.broadcast_prefix(7, deep) == [7] * spec.num_leaves
    too_deep = wrap(deep)
    for call in (
        lambda: pytree.tree_flatten(too_deep),
        lambda: pytree.tree_map(lambda x: x, too_deep),
        lambda: pytree.tree_flatten_with_path(too_deep),
        lambda: list(pytree.tree_iter(too_deep)),
        lambda: spec.compose(pytree.tree_structure([0])),
        lambda: pytree.broadcast_prefix(0, too_deep),
        lambda: pytree.tree_broadcast_prefix([0], [deep]),
    ):
        with pytest.raises(InvalidArgumentError, match="nested more than 1000 deep"):
            call()


def test_depth_in_a_thread_with_a_small_stack():
    done = []
    before = threading.stack_size(1024 * 1024)  # the smallest default of a platform: musl
    try:
        thread = threading.Thread(target=lambda: done.append(test_depth(WRAPS[0])))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert done == [None]


@pytest.mark.parametrize("kind", [list, dict, deque])
def test_a_container_that_holds_itself(kind):
    tree = kind()
    if kind is dict:
        tree["a"] = tree["b"] = tree
    else:
        tree.extend([tree, tree])
    with pytest.raises(InvalidArgumentError, match="holds itself"):
        pytree.tree_flatten(tree)
    with pytest.raises(InvalidArgumentError, match="holds itself"):
        list(pytree.tree_iter(tree))


def test_a_class_that_flattens_to_itself():
    with registered(flatten=lambda p: ((p,), None)):
        with pytest.raises(InvalidArgumentError, match="holds itself"):
            pytree.tree_flatten(Point(1, 2, "a"))


def test_composing_until_it_overflows():
    spec = pytree.tree_structure([0, 0])
    with pytest.raises(InvalidArgumentError, match="too many"):
        for _ in range(70):
            spec = spec.compose(spec)
    assert spec.num_leaves >= 2**16
    with pytest.raises(InvalidArgumentError, match="expected"):
        pytree.tree_structure([0] * 5).compose(spec).unflatten([1, 2])


NONSENSE = [
    None,
    3,
    (),
    ((1,),),
    ((1,), None, None, None),
    [(1,), None],
    (3, None),
    (None, None),
    ((1, 2), None, ("x",)),
    ((1,), None, 4),
]


@pytest.mark.parametrize("result", NONSENSE)
def test_flatten_functions_that_return_nonsense(result):
    with registered(flatten=lambda p: result):
        for call in (
            lambda: pytree.tree_flatten([Point(1, 2, "a")]),
            lambda: list(pytree.tree_iter([Point(1, 2, "a")])),
            lambda: pytree.key_get(Point(1, 2, "a"), [pytree.SequenceKey(0)]),
        ):
            with pytest.raises(InvalidArgumentError, match="the flatten function of Point"):
                call()


class Oops(Exception):
    pass


def oops(*_):
    raise Oops


def test_errors_of_functions_pass_through():
    for call in (
        lambda: pytree.tree_leaves([1, [2]], is_leaf=oops),
        lambda: list(pytree.tree_iter([1, [2]], is_leaf=oops)),
        lambda: pytree.tree_map(oops, [1]),
        lambda: pytree.tree_map(oops, [1], [2]),
        lambda: pytree.tree_map_(oops, [1]),
        lambda: pytree.tree_map_with_path(oops, [1]),
        lambda: pytree.tree_map_only(oops, lambda x: x, [1]),
        lambda: pytree.tree_all(oops, [1]),
    ):
        with pytest.raises(Oops):
            call()
    with registered(flatten=oops), pytest.raises(Oops):
        pytree.tree_flatten([Point(1, 2, "a")])
    with registered(unflatten=oops):
        leaves, spec = pytree.tree_flatten([Point(1, 2, "a"), (3, [4])])
        with pytest.raises(Oops):
            spec.unflatten(leaves)
    with pytest.raises(TypeError, match="is_leaf is a function"):
        pytree.tree_leaves([1], is_leaf=3)


class Awkward:
    """A key that is found by its identity alone: comparing it raises."""

    def __hash__(self):
        return 7

    def __eq__(self, other):
        raise Oops

    __lt__ = __eq__


def test_keys_that_cannot_be_compared():
    key = Awkward()
    spec = pytree.tree_structure({key: 1})
    assert pytree.tree_leaves(spec.unflatten([5])) == [5]
    assert spec.flatten_up_to({key: 3}) == [3]
    assert spec == pytree.tree_structure({key: 3})
    other = pytree.tree_structure({Awkward(): 1})
    for call in (
        lambda: spec == other,
        lambda: spec.is_prefix(other),
        lambda: spec.flatten_up_to({Awkward(): 1}),
    ):
        with pytest.raises(Oops):
            call()
    with pytree.dict_insertion_ordered(False), pytest.raises(Oops):
        pytree.tree_flatten({key: 1, 7: 2})


@pytest.mark.parametrize("keys", [(1j, 2j), (object(), object()), ((1,), ("a",))])
def test_keys_without_an_order(keys):
    tree = dict.fromkeys(keys, 0)
    assert pytree.tree_leaves(tree) == [0, 0]
    with pytree.dict_insertion_ordered(False):
        with pytest.raises(InvalidArgumentError, match="have no order among them"):
            pytree.tree_leaves(tree)
        assert pytree.tree_leaves(OrderedDict(tree)) == [0, 0]


def test_keys_of_several_types_are_sorted_by_type_first():
    with pytree.dict_insertion_ordered(False):
        tree = {"b": 0, 2: 1, "a": 2, 1: 3}
        spec = pytree.tree_structure(tree)
        assert spec.context == [1, 2, "a", "b"]
        assert list(spec.unflatten([1, 2, 3, 4]).items()) == [("b", 4), (2, 2), ("a", 3), (1, 1)]
        assert spec == pytree.tree_structure(dict(reversed(tree.items())))


def test_the_order_of_dicts_is_that_of_the_thread():
    seen = []
    with pytree.dict_insertion_ordered(False):
        thread = threading.Thread(target=lambda: seen.append(pytree.tree_leaves({"b": 1, "a": 2})))
        thread.start()
        thread.join()
        with pytree.dict_insertion_ordered(True):
            seen.append(pytree.tree_leaves({"b": 1, "a": 2}))
        seen.append(pytree.tree_leaves({"b": 1, "a": 2}))
    assert seen == [[1, 2], [1, 2], [2, 1]]
    with pytest.raises(Oops), pytree.dict_insertion_ordered(False):
        raise Oops
    assert pytree.tree_leaves({"b": 1, "a": 2}) == [1, 2]


def test_containers_that_change_meanwhile():
    def leaves_while(change, tree):
        return pytree.tree_leaves(tree, is_leaf=lambda x: x is not tree and change(tree))

    for change in (lambda t: t.clear(), lambda t: t.append(0), lambda t: t.pop()):
        with pytest.raises(InvalidArgumentError, match="a list changed its length"):
            leaves_while(change, [Stranger(), Stranger(), [1]])
    # The others are read at once.
    for tree in ({1: 1, 2: 2, 3: 3}, OrderedDict({1: 1, 2: 2, 3: 3}), deque([1, 2, 3])):
        assert leaves_while(lambda t: t.clear(), tree) == [1, 2, 3]

    def flatten(point):
        holder.clear()
        gc.collect()
        return (point.x,), None

    holder = [Point(1, 2, "a")]
    with registered(flatten=flatten):
        with pytest.raises(InvalidArgumentError, match="a list changed its length"):
            pytree.tree_leaves(holder)


def test_looking_up_a_missing_key_adds_nothing():
    tree = defaultdict(list, a=1)
    with pytest.raises(InvalidArgumentError):
        pytree.tree_structure({"b": 0}).flatten_up_to(tree)
    assert dict(tree) == {"a": 1}


class Meta(type):
    def __eq__(cls, other):
        raise Oops

    __hash__ = __eq__


class Odd(metaclass=Meta):
    pass


def test_a_metaclass_cannot_interfere():
    odd = Odd()
    assert pytree.tree_leaves([odd]) == [odd]
    with registered(Odd, lambda o: ((1,), None), lambda c, _: Odd()):
        assert pytree.tree_leaves([odd]) == [1]
    assert pytree.tree_leaves([odd]) == [odd]


def test_almost_namedtuples_are_leaves():
    class Named(tuple):
        _fields = ["a"]  # noqa: RUF012

    class Lying(Pair):
        _fields = ("left", "right", "more")

    value = Named((1,))
    assert pytree.tree_leaves([value, range(2), "ab", b"ab", {1}]) == [
        value,
        range(2),
        "ab",
        b"ab",
        {1},
    ]
    with pytest.raises(InvalidArgumentError, match="a Lying has 3 fields, got 2 values"):
        pytree.tree_leaves(Lying(1, 2))


def test_objects_made_without_their_constructor():
    spec = pytree.TreeSpec.__new__(pytree.TreeSpec)
    assert repr(spec) == "TreeSpec(*)"
    with pytest.raises(TypeError, match=r"made by pytree\.tree_structure"):
        pytree.TreeSpec()
    from clika_runtime._native import _pytree

    assert list(_pytree.LeafIterator.__new__(_pytree.LeafIterator)) == []
    assert "None" in repr(pytree.MappingKey.__new__(pytree.MappingKey))


MALFORMED = [
    [],
    [3],
    [("leaf", 1, None, None, None, None)],
    [("leaf", 0, None, None, None)],
    [("list", 1, None, None, None, None)],
    [("list", 2**70, None, None, None, None)],
    [("list", -1, None, None, None, None)],
    [("list", True, None, None, None, None)],
    [("list", 0, list, None, None, None)],
    [("list", 0, None, [], None, None)],
    [("list", 0, None, None, None, 3)],
    [("none", 1, None, None, None, None), ("leaf", 0, None, None, None, None)],
    [("dict", 0, None, None, None, None)],
    [("dict", 1, None, ["a", "b"], None, None), ("leaf", 0, None, None, None, None)],
    [("dict", 2, None, ["a", "a"], None, None)] + [("leaf", 0, None, None, None, None)] * 2,
    [("dict", 1, None, ["a"], ["b"], None), ("leaf", 0, None, None, None, None)],
    [("defaultdict", 0, None, [], None, 3)],
    [("deque", 1, None, None, None, 0), ("leaf", 0, None, None, None, None)],
    [("deque", 0, None, None, None, 2**70)],
    [("namedtuple", 0, tuple, None, None, None)],
    [("namedtuple", 0, "Pair", None, None, None)],
    [("namedtuple", 1, Pair, None, None, None), ("leaf", 0, None, None, None, None)],
    [("custom", 0, Point, None, None, None)],
    [("custom", 0, (Point, ""), None, None, None)],
    [("custom", 0, (Point, 3), None, None, None)],
    [("tuple", 0, None, None, None, None), ("leaf", 0, None, None, None, None)],
    [("tuple", 1, None, None, None, None)] * 2000,
]


@pytest.mark.parametrize("items", MALFORMED)
def test_malformed_descriptions(items):
    assemble = pytree.tree_structure(0).__reduce__()[0]
    with pytest.raises(InvalidArgumentError):
        assemble(True, items)


def test_no_references_are_kept():
    class Thing(Stranger):
        pass

    def use():
        tree = {"a": [Thing(), (Thing(), None)], "p": Point(Thing(), 1, "a"), "d": deque([Thing()])}
        tree["o"] = OrderedDict(x=Pair(Thing(), defaultdict(int, y=Thing())))
        leaves, spec = pytree.tree_flatten(tree)
        refs.extend(weakref.ref(leaf) for leaf in leaves if isinstance(leaf, Thing))
        spec.unflatten(leaves)
        pytree.tree_map(lambda x, y: y, tree, tree)
        pytree.tree_flatten_with_path(tree)
        list(pytree.tree_iter(tree))
        next(pytree.tree_iter(tree))
        pytree.tree_broadcast_prefix(tree, tree)
        with pytest.raises(ValueError):
            spec.flatten_up_to([leaves])
        with pytest.raises(Oops):
            pytree.tree_map(oops, tree)
        with pytest.raises(ValueError):
            spec.unflatten(leaves[1:])
        return spec

    refs = []
    with registered():
        spec = use()
        gc.collect()
        assert len(refs) == 6
        assert not [ref for ref in refs if ref() is not None]
        assert spec.num_leaves == 8


def test_counts_of_references_are_stable():
    leaf, key = Stranger(), "a key that is no literal".replace("no", "not")
    tree = {key: [leaf, (leaf, Pair(leaf, None))], "p": Point(leaf, 1, "a")}
    with registered(unflatten=rebuild):

        def once():
            leaves, spec = pytree.tree_flatten(tree)
            for _ in range(3):
                spec.unflatten(leaves)
            hash(spec)
            pytree.tree_map(lambda x, y: y, tree, tree)
            spec.compose(spec).paths()
            repr(spec)
            spec.__reduce__()[0](*spec.__reduce__()[1])

        once()
        gc.collect()
        before = [sys.getrefcount(x) for x in (leaf, key, None, Pair, Point)]
        for _ in range(200):
            once()
        gc.collect()
        after = [sys.getrefcount(x) for x in (leaf, key, None, Pair, Point)]
    assert all(abs(b - a) < 20 for a, b in zip(before, after, strict=True)), (before, after)
