"""Modules: registration, names, state dicts, printing."""

from __future__ import annotations

import pytest

import clika_runtime as crt
from clika_runtime import nn
from clika_runtime.errors import ClikaRTError, InvalidArgumentError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(crt.tensor([2.0, 2.0]))
        self.plain = crt.tensor([1.0])

    def forward(self, x: crt.Tensor) -> crt.Tensor:
        return self.second(self.first(x)) * self.scale


def state(module: nn.Module, start: float = 0.5) -> dict[str, crt.Tensor]:
    """Values for every slot, different from slot to slot."""
    result = {}
    for number, (name, slot) in enumerate(module.state_dict().items()):
        count = 1
        for size in slot.shape:
            count *= size
        values = [start + number + 0.25 * index for index in range(count)]
        result[name] = crt.tensor(values).reshape(tuple(slot.shape))
    return result


def test_slots_have_shapes_and_no_bytes() -> None:
    layer = nn.Linear(3, 4, dtype=crt.bfloat16)
    assert tuple(layer.weight.shape) == (4, 3)
    assert layer.weight.dtype is crt.bfloat16
    assert layer.weight.is_fake()
    assert isinstance(layer.weight, nn.Parameter) and isinstance(layer.weight, crt.Tensor)
    assert not isinstance(crt.tensor([1.0]), nn.Parameter)


def test_names_are_dotted_and_in_order() -> None:
    block = Block()
    names = ["scale", "first.weight", "first.bias", "second.weight"]
    assert list(block.state_dict()) == names
    assert [name for name, _ in block.named_parameters()] == names
    assert [name for name, _ in block.named_modules()] == ["", "first", "second"]
    assert [name for name, _ in block.named_children()] == ["first", "second"]
    assert len(list(block.parameters())) == 4


def test_load_copies_or_adopts() -> None:
    values = state(Block())
    copied, adopted = Block(), Block()
    report = copied.load_state_dict(values)
    assert (report.missing_keys, report.unexpected_keys) == ([], [])
    adopted.load_state_dict(values, assign=True)
    pointer = values["first.weight"].data_ptr()
    assert adopted.first.weight.data_ptr() == pointer
    assert copied.first.weight.data_ptr() != pointer
    assert copied.first.weight.tolist() == values["first.weight"].tolist()
    assert isinstance(adopted.first.weight, nn.Parameter)
    x = crt.tensor([[1.0, 2.0, 3.0]])
    assert copied(x).tolist() == adopted(x).tolist()


def test_a_copy_takes_the_dtype_of_the_slot_and_an_adopted_tensor_keeps_its_own() -> None:
    values = {"weight": crt.tensor([[1.0, 2.0]], dtype=crt.float32)}
    layer = nn.Linear(2, 1, bias=False, dtype=crt.bfloat16)
    layer.load_state_dict(values)
    assert layer.weight.dtype is crt.bfloat16
    layer.load_state_dict(values, assign=True)
    assert layer.weight.dtype is crt.float32


def test_strict_names_both_sets_and_binds_nothing() -> None:
    block = Block()
    values = state(block)
    values["extra"] = values.pop("scale")
    with pytest.raises(RuntimeError) as caught:
        block.load_state_dict(values)
    assert "missing in the state: scale" in str(caught.value)
    assert "unexpected in the state: extra" in str(caught.value)
    assert block.first.weight.is_fake()
    report = block.load_state_dict(values, strict=False)
    assert (report.missing_keys, report.unexpected_keys) == (["scale"], ["extra"])
    assert not block.first.weight.is_fake()


def test_a_shape_that_does_not_fit_names_both() -> None:
    block = Block()
    values = state(block)
    values["second.weight"] = crt.tensor([[1.0]])
    with pytest.raises(ClikaRTError, match=r"'second\.weight' has shape \[1, 1\].*\[2, 4\]"):
        block.load_state_dict(values)
    assert block.first.weight.is_fake()


def test_one_tensor_under_two_names_stays_one() -> None:
    pair = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    value = crt.tensor([[1.0, 2.0], [3.0, 4.0]])
    pair.load_state_dict({"a.weight": value, "b.weight": value}, assign=True)
    assert pair["a"].weight is pair["b"].weight
    assert len(list(pair.parameters())) == 1
    assert list(pair.state_dict()) == ["a.weight", "b.weight"]


def test_a_plain_tensor_on_a_slot_becomes_its_parameter() -> None:
    layer = nn.Linear(2, 1)
    layer.weight = crt.tensor([[1.0, 2.0]])
    assert isinstance(layer.weight, nn.Parameter)
    layer.bias = None
    assert list(layer.state_dict()) == ["weight"]
    with pytest.raises(InvalidArgumentError, match="takes a Tensor or None, not list"):
        layer.weight = [1.0]


def test_delete_unregisters() -> None:
    block = Block()
    del block.second
    assert list(block.state_dict()) == ["scale", "first.weight", "first.bias"]


def test_assigning_before_init_says_what_to_call() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Identity()

    with pytest.raises(InvalidArgumentError, match=r"super\(\).__init__\(\)"):
        Early()


def test_a_module_without_forward_is_refused_by_name() -> None:
    with pytest.raises(ClikaRTError, match=r"Module\.forward"):
        nn.Module()(1)


def test_to_moves_dtypes_and_keeps_ties() -> None:
    pair = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    value = crt.tensor([[1.0, 2.0], [3.0, 4.0]])
    pair.load_state_dict({"a.weight": value, "b.weight": value}, assign=True)
    assert pair.to(crt.bfloat16) is pair
    assert pair["a"].weight.dtype is crt.bfloat16
    assert pair["a"].weight is pair["b"].weight
    assert pair.eval() is pair
    assert pair.to_empty(device="cpu") is pair


def test_printing_shows_the_tree() -> None:
    assert repr(Block()) == (
        "Block(\n"
        "  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (second): Linear(in_features=4, out_features=2, bias=False)\n"
        ")"
    )


# ---- containers
def test_containers() -> None:
    blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
    blocks.append(nn.Linear(1, 1))
    assert len(blocks) == 3
    assert blocks[-1] is blocks[2]
    assert blocks[:2] == [blocks[0], blocks[1]]
    assert list(blocks.state_dict()) == ["2.weight", "2.bias"]
    with pytest.raises(IndexError, match="index 3 is out of range for 3"):
        blocks[3]
    named = nn.ModuleDict({"x": nn.Identity()})
    assert "x" in named and list(named.keys()) == ["x"] and len(named) == 1
    assert dict(named.items()) == {"x": named["x"]}
    with pytest.raises(KeyError):
        named["y"]
    with pytest.raises(InvalidArgumentError, match="name of a method"):
        nn.ModuleDict({"forward": nn.Identity()})


def test_sequential_runs_in_order() -> None:
    chain = nn.Sequential(nn.ReLU(), nn.Flatten())
    assert chain(crt.tensor([[[-1.0], [2.0]]])).tolist() == [[0.0, 2.0]]
