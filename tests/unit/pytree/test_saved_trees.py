"""Trees of tensors saved as safetensors, read by the safetensors package and by ``crt.load``."""

from __future__ import annotations

import json
from collections import OrderedDict, deque

import numpy as np
import pytest
import safetensors
from safetensors.numpy import load_file, save_file

import clika_runtime as crt
from clika_runtime import pytree
from clika_runtime.errors import InvalidArgumentError, UnsupportedError

from .test_registry import registered
from .trees import Pair, Point


def tensor(*shape):
    return crt.tensor(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


def same(ours, theirs):
    assert pytree.tree_structure(ours) == pytree.tree_structure(theirs)
    for a, b in zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            assert np.array_equal(a.numpy(), b.numpy())


TREES = {
    "nested": {"layers": [{"w": tensor(2, 3), "b": tensor(3)} for _ in range(2)], "step": tensor()},
    "alone": tensor(4),
    "list": [tensor(2), tensor(0)],
    "keys": {1: tensor(1), "1": tensor(2), (2, "a"): tensor(3)},
    "empty": [],
    "none": {"cache": None, "x": tensor(2)},
    "kinds": (OrderedDict(z=tensor(1), a=Pair(tensor(2), None)), deque([tensor(1, 1)], 4), [], {}),
}


@pytest.mark.parametrize("name", TREES)
def test_round_trip(name, tmp_path):
    path = tmp_path / "tree.safetensors"
    crt.save(TREES[name], path)
    same(crt.load(path), TREES[name])
    with safetensors.safe_open(path, "np") as file:
        spec = pytree.treespec_loads(file.metadata()["clika_runtime.treespec"])
    found = load_file(path)
    pairs, wanted = pytree.tree_flatten_with_path(TREES[name], none_is_leaf=False)
    assert spec == wanted
    assert sorted(found) == sorted(pytree.keystr(key) or "tensor" for key, _ in pairs)
    for key, leaf in pairs:
        assert np.array_equal(found[pytree.keystr(key) or "tensor"], leaf.numpy())


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_a_state_dict_is_saved_as_it_is(kind, tmp_path):
    path = tmp_path / "state.safetensors"
    state = kind([("z.weight", tensor(2)), ("a.bias", tensor(3))])
    crt.save(state, path)
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() is None
    back = crt.load(path)
    assert type(back) is dict
    same(back, dict(state))
    assert list(back) == ["z.weight", "a.bias"]
    crt.save({}, path)
    assert crt.load(path) == {}


def test_registered_classes(tmp_path):
    path, tree = tmp_path / "tree.safetensors", {"p": Point(tensor(2), tensor(3), "a")}
    with registered(serialized_type_name="tests.point"):
        crt.save(tree, path)
        assert sorted(load_file(path)) == ["['p'].x", "['p'].y"]
        same(crt.load(path), tree)
    with pytest.raises(InvalidArgumentError, match=r"no class is registered as 'tests\.point'"):
        crt.load(path)
    assert sorted(crt.io.load_safetensors(path)) == ["['p'].x", "['p'].y"]
    with registered(), pytest.raises(InvalidArgumentError, match="no serialized_type_name"):
        crt.save(tree, path)
    with registered(
        flatten=lambda p: ((p.x, p.y), None, ("x", "x")), serialized_type_name="tests.point"
    ):
        with pytest.raises(InvalidArgumentError, match="names of their own"):
            crt.save(tree, path)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([1], "'[0]' must be a tensor, found int"),
        ({"a": [tensor(1), np.zeros(2)]}, "\"['a'][1]\" must be a tensor, found ndarray"),
        ({"a": [], "b": "text"}, "\"['b']\" must be a tensor, found str"),
        ("text", "'tensor' must be a tensor, found str"),
        ({"a": Point(1, 2, "a")}, "'a' must be a tensor, found Point"),
    ],
)
def test_what_cannot_be_saved(tree, message, tmp_path):
    with pytest.raises(InvalidArgumentError) as raised:
        crt.save(tree, tmp_path / "tree.safetensors")
    assert message in str(raised.value)
    assert not list(tmp_path.iterdir())
    packed = crt.Tensor.from_buffer(bytes(34), (1, 32), crt.float32, scheme=9)
    with pytest.raises(UnsupportedError, match="is quantized"):
        crt.save([packed], tmp_path / "tree.safetensors")


@pytest.mark.parametrize("names", [[], ["[0]"], ["[0]", "[1]", "[2]"], ["[0]", "other"]])
def test_tensors_that_do_not_fit_the_structure(names, tmp_path):
    path = tmp_path / "tree.safetensors"
    spec = pytree.treespec_dumps(pytree.tree_structure([0, 1]))
    save_file(
        {name: np.zeros(2, np.float32) for name in names}, path, {"clika_runtime.treespec": spec}
    )
    with pytest.raises(
        InvalidArgumentError, match="are not the leaves of the saved tree"
    ) as raised:
        crt.load(path)
    assert raised.value.code_name == "MALFORMED_FILE"


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"version": 1, "none_is_leaf": True})])
def test_a_structure_that_is_malformed(text, tmp_path):
    path = tmp_path / "tree.safetensors"
    save_file({"[0]": np.zeros(2, np.float32)}, path, {"clika_runtime.treespec": text})
    with pytest.raises(InvalidArgumentError, match="treespec_loads"):
        crt.load(path)
