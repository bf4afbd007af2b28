"""Specs as values, error messages, JSON, key entries."""

from __future__ import annotations

import copy
import doctest
import inspect
import json
import pickle
from collections import OrderedDict, defaultdict, deque

import pytest
import torch.utils._pytree as torch_pytree
from hypothesis import given, settings

from clika_runtime import pytree
from clika_runtime.errors import InvalidArgumentError

from .test_registry import registered
from .trees import TREES, Pair, Point, Triple


def test_docstring_examples():
    result = doctest.testmod(pytree)
    assert result.failed == 0
    assert result.attempted > 40


def test_public_functions_are_documented():
    for name in pytree.__all__:
        value = getattr(pytree, name)
        if inspect.isfunction(value):
            assert inspect.getdoc(value), name
    for name, value in vars(pytree.TreeSpec).items():
        if not name.startswith("_") and name != "none_is_leaf":
            assert inspect.getdoc(value), name


@settings(max_examples=100, deadline=None, derandomize=True)
@given(TREES)
def test_leaves_and_key_paths_are_those_of_torch(tree):
    wanted, _ = torch_pytree.tree_flatten_with_path(tree)
    pairs, _ = pytree.tree_flatten_with_path(tree)
    assert [pytree.keystr(path) for path, _ in pairs] == [
        torch_pytree.keystr(path) for path, _ in wanted
    ]
    assert all(ours[1] is theirs[1] for ours, theirs in zip(pairs, wanted, strict=True))


@pytest.mark.parametrize(
    ("tree", "text", "context"),
    [
        (1, "*", None),
        ((), "()", None),
        ((1,), "(*,)", None),
        ([], "[]", None),
        ({}, "{}", []),
        ({"b": 1, 2: [3]}, "{'b': *, 2: [*]}", ["b", 2]),
        (OrderedDict(b=1), "OrderedDict({'b': *})", ["b"]),
        (defaultdict(int, b=1), "defaultdict(<class 'int'>, {'b': *})", (int, ["b"])),
        (deque([1, 2]), "deque([*, *])", None),
        (deque(maxlen=4), "deque([], maxlen=4)", 4),
        (Pair(1, [2]), "Pair(left=*, right=[*])", Pair),
    ],
)
def test_text_and_context(tree, text, context):
    spec = pytree.tree_structure(tree)
    assert repr(spec) == f"TreeSpec({text})"
    assert spec.context == context
    no_none = pytree.tree_structure([tree, None], none_is_leaf=False)
    assert repr(no_none) == f"TreeSpec([{text}, None], none_is_leaf=False)"


def test_context_is_a_copy():
    spec = pytree.tree_structure({"a": 1})
    spec.context.append("b")
    spec.entries().append("b")
    spec.paths().clear()
    assert spec == pytree.tree_structure({"a": 0})


def test_equality():
    def spec(tree, **options):
        return pytree.tree_structure(tree, **options)

    assert spec({"b": 1, "a": 2}) != spec({"a": 2, "b": 1})
    assert spec([1]) != spec((1,))
    assert spec({"a": 1}) != spec(OrderedDict(a=1))
    assert spec(deque([1])) != spec(deque([1], 3))
    assert spec(defaultdict(int, a=1)) != spec(defaultdict(list, a=1))
    assert spec(Pair(1, 2)) != spec((1, 2))
    assert spec([1]) != spec([1], none_is_leaf=False)
    assert spec([[], 1]) != spec([1, []])
    assert spec([1]) != [1]
    assert spec([1]).__eq__(3) is NotImplemented
    table = {spec({"a": [1, None]}): "found"}
    assert table[spec({"a": [None, 7]})] == "found"
    with registered(flatten=lambda p: ((p.x,), [p.label])):
        assert spec(Point(1, 2, "a")) == spec(Point(3, 4, "a")) != spec(Point(1, 2, "b"))
        with pytest.raises(TypeError, match="unhashable"):
            hash(spec(Point(1, 2, "a")))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_of_leaves(count):
    spec = pytree.tree_structure({"a": [1, 2]})
    for call in (spec.unflatten, lambda leaves: pytree.tree_unflatten(spec, iter(leaves))):
        with pytest.raises(ValueError) as raised:
            call([0] * count)
        assert type(raised.value) is InvalidArgumentError
        assert str(raised.value) == (
            f"tree_unflatten: expected 2 leaves for TreeSpec({{'a': [*, *]}}), got {count}"
        )


def test_arguments_the_wrong_way_round():
    leaves, spec = pytree.tree_flatten([1, 2])
    with pytest.raises(TypeError, match=r"got \(list, TreeSpec\); the spec comes first"):
        pytree.tree_unflatten(leaves, spec)
    with pytest.raises(TypeError):
        spec.is_prefix([1])
    with pytest.raises(TypeError):
        spec.compose(None)


def test_refusals_name_the_place():
    first = {"a": [1, Pair(2, 3)], "b": deque([4])}
    for other, message in (
        ([], r"expected dict with keys \['a', 'b'\] at the root, got list of 0"),
        (
            {"a": 1, "c": 2},
            r"dict with keys \['a', 'b'\] at the root, got dict with keys \['a', 'c'\]",
        ),
        ({"a": 1, "b": deque([1])}, r"expected list of 2 at \['a'\], got int"),
        ({"a": [1, (2, 3)], "b": 0}, r"expected Pair of 2 at \['a'\]\[1\], got tuple of 2"),
        ({"a": [1, Pair(2, 3)], "b": deque()}, r"expected deque of 1 at \['b'\], got deque of 0"),
        ({"a": [1, None], "b": 0}, r"expected Pair of 2 at \['a'\]\[1\], got None"),
    ):
        for name in ("tree_map", "tree_map_"):
            with pytest.raises(ValueError, match=f"^{name}: .*{message}"):
                getattr(pytree, name)(lambda x, y: x, first, other)
    with registered():
        spec = pytree.tree_structure({"p": Point(1, 2, "a")})
        with pytest.raises(
            ValueError,
            match=r"^flatten_up_to: expected Point of 2 with context 'a' at \['p'\], "
            "got Point of 2 with context 'b'$",
        ):
            spec.flatten_up_to({"p": Point(1, 2, "b")})
    with pytest.raises(ValueError, match=r"expected None at \[0\], got int"):
        pytree.tree_map(lambda x, y: x, [None], [1], none_is_leaf=False)
    with pytest.raises(ValueError, match="both specs need the same none_is_leaf"):
        spec.compose(pytree.tree_structure(1, none_is_leaf=False))


def test_further_trees():
    """Dicts pair by key whatever their order, and a leaf may stand before a subtree."""
    out = pytree.tree_map(
        lambda x, y: (x, y), {"a": 1, "b": None}, OrderedDict([("b", [3]), ("a", 4)])
    )
    assert out == {"a": (1, 4), "b": (None, [3])}


def test_map_only():
    tree = [1, "a", 2.5, None, True]
    assert pytree.tree_map_only((int, str), lambda x: x * 2, tree) == [2, "aa", 2.5, None, 2]
    assert pytree.tree_map_only(int | None, lambda x: 0, tree) == [0, "a", 2.5, 0, 0]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: 9, tree) == [9, "a", 2.5, None, 9]
    assert pytree.tree_map_only(list, len, [[1, 2], [3]], is_leaf=lambda x: x == [1, 2]) == [2, [3]]


def test_tree_iter_is_lazy():
    opened = []

    def flatten(point):
        opened.append(point.label)
        return (point.x,), None

    with registered(flatten=flatten):
        leaves = pytree.tree_iter([Point(1, 0, "a"), Point(2, 0, "b")])
        assert opened == []
        assert next(leaves) == 1
        assert opened == ["a"]
        assert pytree.tree_any([Point(1, 0, "c"), Point(2, 0, "d")])
        assert opened == ["a", "c"]


# ---- key entries


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        (pytree.SequenceKey(1), "[1]", "SequenceKey(idx=1)"),
        (pytree.MappingKey("a"), "['a']", "MappingKey(key='a')"),
        (pytree.GetAttrKey("x"), ".x", "GetAttrKey(name='x')"),
        (pytree.DataclassKey("x"), ".x", "DataclassKey(name='x')"),
    ],
)
def test_key_entries(key, text, words):
    assert (str(key), repr(key)) == (text, words)
    for again in (pickle.loads(pickle.dumps(key)), copy.deepcopy(key)):
        assert again == key
        assert hash(again) == hash(key)
    assert key != pytree.MappingKey(7)
    assert key != text
    assert pytree.keystr([key, key]) == text * 2
    assert pytree.keystr(()) == ""


def test_key_get():
    tree = {"a": [1, Pair(2, 3)]}
    path = (pytree.MappingKey("a"), pytree.SequenceKey(1), pytree.GetAttrKey("right"))
    assert pytree.key_get(tree, path) == 3
    assert pytree.key_get(tree, path[:1]) is tree["a"]
    assert pytree.key_get(tree, ()) is tree
    for wrong, error in (
        (pytree.MappingKey("b"), KeyError),
        (pytree.GetAttrKey("b"), AttributeError),
        ("a", TypeError),
    ):
        with pytest.raises(error):
            pytree.key_get(tree, [wrong])
    with pytest.raises(IndexError):
        pytree.key_get([1], [pytree.SequenceKey(1)])
    with pytest.raises(TypeError):
        pytree.GetAttrKey(1)


# ---- JSON


def round_trip(tree, **options):
    spec = pytree.tree_structure(tree, **options)
    again = pytree.treespec_loads(pytree.treespec_dumps(spec))
    assert again == spec
    assert again.none_is_leaf == spec.none_is_leaf
    assert again.paths() == spec.paths()
    return again


def test_json_keeps_the_types_of_keys():
    keys = [1, "1", True and "t", None, 1.5, (1, ("a", None)), -(2**70), "\ud800"]
    spec = round_trip(dict.fromkeys(keys, 0))
    assert list(map(type, spec.context)) == list(map(type, keys))
    round_trip([None, {"a": None}], none_is_leaf=False)
    with pytree.dict_insertion_ordered(False):
        spec = round_trip({"b": 1, "a": 2})
    assert list(spec.unflatten([1, 2])) == ["b", "a"]


def test_json_of_registered_classes():
    options = {"serialized_type_name": "tests.point", "namespace": "mylib"}
    point = Point(1, [2], "a")
    with registered(**options):
        round_trip(point, namespace="mylib")
        text = pytree.treespec_dumps(pytree.tree_structure(point, namespace="mylib"))
    with pytest.raises(ValueError, match=r"no class is registered as 'tests\.point'"):
        pytree.treespec_loads(text)
    with registered():
        with pytest.raises(ValueError, match="Point has no serialized_type_name"):
            pytree.treespec_dumps(pytree.tree_structure(point))
    for context in ((1, ("a", None)), {"a": [1]}, {(1, 2): "x"}, [pytree.MappingKey("k")]):
        with registered(flatten=lambda p, c=context: ((p.x, p.y), c), **options):
            assert round_trip(point, namespace="mylib").context == context
    with registered(flatten=lambda p: ((p.x,), {1, 2}), **options):
        with pytest.raises(ValueError, match=r"\{1, 2\} is no JSON value"):
            round_trip(point, namespace="mylib")
    pair = {"to_dumpable_context": sorted, "from_dumpable_context": set}
    with registered(flatten=lambda p: ((p.x,), {1, 2}), **options, **pair):
        assert round_trip(point, namespace="mylib").context == {1, 2}


def test_json_refuses_what_it_cannot_state():
    class Local(Pair):
        pass

    deep = []
    for _ in range(100_000):
        deep = [deep]
    for tree, message in (
        ({float("nan"): 1}, "nan is no JSON value"),
        ({b"a": 1}, "b'a' is no JSON value"),
        ({pytest: 1}, "is no JSON value"),
        (defaultdict(lambda: 3, a=1), "default_factory"),
        (Local(1, 2), "cannot be found again under this name"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            pytree.treespec_dumps(pytree.tree_structure(tree))
    with registered(flatten=lambda p: ((), deep), serialized_type_name="tests.point"):
        with pytest.raises(InvalidArgumentError, match="nested too deep"):
            pytree.treespec_dumps(pytree.tree_structure(Point(1, 2, "a")))
    while deep:
        deep = deep[0]
    with pytest.raises(TypeError):
        pytree.treespec_dumps([1])


def document(*nodes, **changes):
    return json.dumps({"version": 1, "none_is_leaf": True, "nodes": nodes, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        b"\xff\xfe\xfd",
        document("*", version=2),
        document("*", version=True),
        document("*", none_is_leaf=1),
        document("*", nodes={}),
        document(),
        document("*", "*"),
        document("x"),
        document(None),
        document({}),
        document({"type": "os.system"}),
        document({"type": ["list"]}),
        document({"type": "list"}),
        document({"type": "list", "arity": 1}),
        document({"type": "list", "arity": -1}),
        document({"type": "list", "arity": 10**30}),
        document({"type": "list", "arity": 0.0}),
        document({"type": "deque", "arity": 0, "maxlen": -1}),
        document({"type": "deque", "arity": 0, "maxlen": "1"}),
        document({"type": "dict"}),
        document({"type": "dict", "keys": ["a"]}),
        document({"type": "dict", "keys": ["a", "a"]}, "*", "*"),
        document({"type": "dict", "keys": [["a"]]}, "*"),
        document({"type": "dict", "keys": [{"dict": []}]}, "*"),
        document({"type": "dict", "keys": [{"tuple": [[]]}]}, "*"),
        document({"type": "dict", "keys": [{"tuple": 1}]}, "*"),
        document({"type": "dict", "keys": [{"GetAttrKey": 1}]}, "*"),
        document({"type": "dict", "keys": [{"set": [1]}]}, "*"),
        document({"type": "dict", "keys": ["a"], "order": ["b"]}, "*"),
        document({"type": "dict", "keys": ["a"], "order": "a"}, "*"),
        document({"type": "OrderedDict", "keys": ["a"], "order": ["b"]}, "*"),
        document({"type": "defaultdict", "keys": [], "factory": "eval"}),
        document({"type": "defaultdict", "keys": [], "factory": []}),
        document({"type": "namedtuple", "class": "os:system", "fields": []}),
        document({"type": "namedtuple", "class": "antigravity:geohash", "fields": []}),
        document({"type": "namedtuple", "class": ":", "fields": []}),
        document({"type": "namedtuple", "class": "os", "fields": []}),
        document({"type": "namedtuple", "class": f"{Pair.__module__}:Pair", "fields": ["a", "b"]}),
        document({"type": "custom", "name": "nobody", "arity": 0, "context": None}),
        document({"type": "custom", "name": None, "arity": 0}),
        document(*[{"type": "list", "arity": 1}] * 1001, "*"),
    ],
)
def test_json_that_is_malformed(text):
    with pytest.raises(InvalidArgumentError):
        pytree.treespec_loads(text)


def test_json_imports_nothing():
    import sys

    text = document({"type": "namedtuple", "class": "this:Zen", "fields": []})
    with pytest.raises(ValueError, match="unknown type: no namedtuple 'this:Zen'"):
        pytree.treespec_loads(text)
    assert "this" not in sys.modules


def test_json_of_every_kind_survives_damage():
    """A document cut or altered anywhere loads as some spec or is refused."""
    tree = {
        "a": [Pair(1, (2,)), deque([3], 5)],
        "d": defaultdict(int, x=None),
        "t": Triple(1, 2, 3),
    }
    text = pytree.treespec_dumps(pytree.tree_structure(tree, none_is_leaf=False))
    assert (
        pytree.treespec_loads(text).unflatten(pytree.tree_leaves(tree, none_is_leaf=False)) == tree
    )
    for i in range(len(text)):
        for damaged in (text[:i], text[:i] + "1" + text[i + 1 :], text[:i] + text[i + 1 :]):
            try:
                assert isinstance(pytree.treespec_loads(damaged), pytree.TreeSpec)
            except InvalidArgumentError:
                pass
