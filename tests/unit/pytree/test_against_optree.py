"""Random trees: leaves, structures and their algebra beside optree."""

from __future__ import annotations

import functools
import itertools
import pickle

import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clika_runtime import pytree

from .trees import NAMESPACE, SMALL, TREES, Pair, Point

# Insertion order in optree is a switch of a namespace; SORTED keeps its own rule.
SORTED = "tests-sorted"
NONE_IS_LEAF = st.booleans()
examples = settings(max_examples=200, deadline=None, derandomize=True)


@pytest.fixture(scope="module", autouse=True)
def registered():
    def unflatten(children, label):
        return Point(*children, label)

    pytree.register_pytree_node(Point, Point.flatten, unflatten, namespace=NAMESPACE)
    for namespace in (NAMESPACE, SORTED):
        optree.register_pytree_node(
            Point,
            Point.flatten,
            lambda label, children: Point(*children, label),
            namespace=namespace,
        )
    with optree.dict_insertion_ordered(True, namespace=NAMESPACE):
        yield
    pytree.unregister_pytree_node(Point, namespace=NAMESPACE)
    for namespace in (NAMESPACE, SORTED):
        optree.unregister_pytree_node(Point, namespace=namespace)


def same(ours, theirs):
    """Leaves by identity."""
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))


def text(spec):
    """The containers that a spec of either library prints."""
    words = repr(spec)
    for end in (f", namespace='{NAMESPACE}')", f", namespace='{SORTED}')", ")"):
        if words.endswith(end):
            words = words[: -len(end)]
            break
    words = words.removesuffix(", NoneIsLeaf").removesuffix(", none_is_leaf=False")
    words = words.removeprefix("PyTreeSpec(").removeprefix("TreeSpec(")
    # Ours prints an empty deque as Python does.
    return words.replace("deque()", "deque([])").replace("deque(maxlen", "deque([], maxlen")


def names(accessor):
    return tuple(
        entry.field if isinstance(entry, optree.NamedTupleEntry) else entry.entry
        for entry in accessor
    )


def outcome(call):
    """What a call gives, or that it refuses."""
    try:
        return call()
    except ValueError:
        return ValueError


def both(tree, none_is_leaf):
    options = {"none_is_leaf": none_is_leaf, "namespace": NAMESPACE}
    return pytree.tree_flatten(tree, **options), optree.tree_flatten(tree, **options)


@examples
@given(TREES, NONE_IS_LEAF)
def test_flatten_and_unflatten(tree, none_is_leaf):
    (leaves, spec), (wanted, theirs) = both(tree, none_is_leaf)
    options = {"none_is_leaf": none_is_leaf, "namespace": NAMESPACE}
    assert same(leaves, wanted)
    assert same(list(pytree.tree_iter(tree, **options)), wanted)
    assert text(spec) == text(theirs)
    counts = [(s.num_leaves, s.num_nodes, s.num_children) for s in (spec, theirs)]
    assert counts[0] == counts[1]
    assert spec.type is theirs.type
    assert spec.is_leaf() == optree.treespec_is_leaf(theirs)
    assert list(map(text, spec.children())) == list(map(text, theirs.children()))
    rebuilt, again = spec.unflatten(range(len(leaves))), theirs.unflatten(range(len(leaves)))
    assert type(rebuilt) is type(again)
    assert rebuilt == again
    assert pytree.tree_structure(rebuilt, **options) == spec


@examples
@given(TREES, NONE_IS_LEAF)
def test_paths(tree, none_is_leaf):
    (leaves, spec), (_, theirs) = both(tree, none_is_leaf)
    options = {"none_is_leaf": none_is_leaf, "namespace": NAMESPACE}
    assert spec.paths() == [names(accessor) for accessor in theirs.accessors()]
    pairs, again = pytree.tree_flatten_with_path(tree, **options)
    assert again == spec
    assert same([leaf for _, leaf in pairs], leaves)
    for path, leaf in pairs:
        assert pytree.key_get(tree, path, namespace=NAMESPACE) is leaf
        assert eval("tree" + pytree.keystr(path), {"tree": tree}) is leaf
    paths = pytree.tree_map_with_path(lambda path, leaf: pytree.keystr(path), tree, **options)
    assert pytree.tree_leaves(paths, **options) == [pytree.keystr(path) for path, _ in pairs]


@examples
@given(TREES, NONE_IS_LEAF, st.sampled_from([list, Pair, type(None)]))
def test_is_leaf(tree, none_is_leaf, kind):
    options = {"none_is_leaf": none_is_leaf, "namespace": NAMESPACE}

    def is_leaf(value):
        return isinstance(value, kind)

    leaves, spec = pytree.tree_flatten(tree, is_leaf, **options)
    wanted, theirs = optree.tree_flatten(tree, is_leaf, **options)
    assert same(leaves, wanted)
    assert text(spec) == text(theirs)
    assert same(list(pytree.tree_iter(tree, is_leaf, **options)), wanted)


@examples
@given(TREES, NONE_IS_LEAF)
def test_sorted_keys(tree, none_is_leaf):
    wanted, theirs = optree.tree_flatten(tree, none_is_leaf=none_is_leaf, namespace=SORTED)
    options = {"none_is_leaf": none_is_leaf, "namespace": NAMESPACE}
    with pytree.dict_insertion_ordered(False):
        leaves, spec = pytree.tree_flatten(tree, **options)
    assert same(leaves, wanted)
    assert text(spec) == text(theirs)
    rebuilt = spec.unflatten(leaves)
    # The rebuilt dicts have their own order again.
    assert same(pytree.tree_leaves(rebuilt, **options), pytree.tree_leaves(tree, **options))
    assert pytree.tree_structure(rebuilt, **options) == pytree.tree_structure(tree, **options)


@st.composite
def pairs_of_trees(draw):
    """A tree, and one that has grown from it, been altered, or has nothing to do with it."""
    first = draw(TREES)
    how = draw(st.sampled_from(["grown", "equal", "other"]))
    if how == "other":
        return first, draw(TREES)
    options = {"none_is_leaf": draw(NONE_IS_LEAF), "namespace": NAMESPACE}
    if how == "equal":
        return first, optree.tree_map(lambda leaf: object(), first, **options)
    grown = itertools.cycle(draw(st.lists(SMALL, min_size=1, max_size=3)))
    return first, optree.tree_map(lambda leaf: next(grown), first, **options)


@examples
@given(pairs_of_trees(), NONE_IS_LEAF)
def test_two_trees(trees, none_is_leaf):
    options = {"none_is_leaf": none_is_leaf, "namespace": NAMESPACE}
    (ours, ours_2), (theirs, theirs_2) = zip(
        *(both(tree, none_is_leaf) for tree in trees), strict=True
    )
    spec, other = ours[1], ours_2[1]
    optree_specs = [theirs[1], theirs_2[1]]
    if (optree_specs[0] == optree_specs[1]) is True:
        assert hash(spec) == hash(other)
    assert outcome(lambda: spec.is_prefix(other)) == optree_specs[0].is_prefix(optree_specs[1])
    subtrees = outcome(lambda: spec.flatten_up_to(trees[1]))
    wanted = outcome(lambda: optree_specs[0].flatten_up_to(trees[1]))
    assert subtrees is wanted is ValueError or same(subtrees, wanted)
    for name in ("broadcast_prefix", "tree_broadcast_prefix"):
        ours_out, theirs_out = (
            outcome(functools.partial(getattr(space, name), *trees, **options))
            for space in (pytree, optree)
        )
        assert ours_out is theirs_out or repr(ours_out) == repr(theirs_out)
    rows, wanted_rows = [], []
    outcome(lambda: pytree.tree_map_(lambda *row: rows.append(row), *trees, **options))
    outcome(lambda: optree.tree_map_(lambda *row: wanted_rows.append(row), *trees, **options))
    assert same(list(itertools.chain(*rows)), list(itertools.chain(*wanted_rows)))
    assert text(spec.compose(other)) == text(optree_specs[0].compose(optree_specs[1]))


@examples
@given(pairs_of_trees(), NONE_IS_LEAF)
def test_equality(trees, none_is_leaf):
    (spec, theirs), (other, theirs_2) = (
        (ours[1], oracle[1]) for ours, oracle in (both(tree, none_is_leaf) for tree in trees)
    )
    assert (spec == other) == (theirs == theirs_2)
    assert (spec != other) == (theirs != theirs_2)
    assert spec == spec.compose(pytree.tree_structure(0, none_is_leaf=none_is_leaf))
    if not spec.is_leaf() and spec.num_leaves:
        assert (spec == pytree.tree_structure(0, none_is_leaf=none_is_leaf)) is False


@examples
@given(SMALL, SMALL, NONE_IS_LEAF)
def test_transpose(outer, inner, none_is_leaf):
    options = {"none_is_leaf": none_is_leaf, "namespace": NAMESPACE}
    specs = [pytree.tree_structure(tree, **options) for tree in (outer, inner)]
    theirs = [optree.tree_structure(tree, **options) for tree in (outer, inner)]
    count = specs[0].num_leaves * specs[1].num_leaves
    if not count:
        return
    tree = specs[0].compose(specs[1]).unflatten(range(1, count + 1))
    assert pytree.tree_transpose(*specs, tree) == optree.tree_transpose(*theirs, tree)
    with pytest.raises(ValueError, match="tree_transpose: expected"):
        pytree.tree_transpose(
            specs[0].compose(pytree.tree_structure([0], **options)), specs[1], tree
        )


@examples
@given(TREES, NONE_IS_LEAF)
def test_pickle_and_json(tree, none_is_leaf):
    spec = both(tree, none_is_leaf)[0][1]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(spec, protocol))
        assert again == spec
        assert repr(again) == repr(spec)
    if "CustomTreeNode" not in repr(spec):
        again = pytree.treespec_loads(pytree.treespec_dumps(spec))
        assert again == spec
        assert again.paths() == spec.paths()
        assert hash(again) == hash(spec)


@examples
@given(st.recursive(st.integers(-9, 9), lambda c: st.lists(c, max_size=3) | st.tuples(c, c)))
def test_reductions(tree):
    leaves = optree.tree_leaves(tree)
    assert pytree.tree_sum(tree, 1) == optree.tree_sum(tree, 1)
    assert pytree.tree_all(tree) == optree.tree_all(tree)
    assert pytree.tree_any(tree) == optree.tree_any(tree)
    assert pytree.tree_all(lambda x: x > 0, tree) == all(x > 0 for x in leaves)
    assert pytree.tree_any(lambda x: x > 0, tree) == any(x > 0 for x in leaves)
    assert pytree.tree_reduce(lambda x, y: x - y, tree, 3) == optree.tree_reduce(
        lambda x, y: x - y, tree, 3
    )
    for name in ("tree_max", "tree_min"):
        ours, theirs = getattr(pytree, name), getattr(optree, name)
        assert ours(tree, default=0) == theirs(tree, default=0)
        assert outcome(functools.partial(ours, tree)) == outcome(functools.partial(theirs, tree))
        assert ours(tree, default=0, key=abs) == theirs(tree, default=0, key=abs)
