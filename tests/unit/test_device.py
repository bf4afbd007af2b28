"""Devices and sizes: forms, equality, refusals."""

import copy
import doctest
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime import _size, device
from clika_runtime.device import Device
from clika_runtime.errors import ClikaRTError, InvalidArgumentError


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "cpu"),
        (("cpu",), "cpu"),
        (("cpu:0",), "cpu"),
        (("CPU",), "cpu"),
        (("cuda",), "cuda:0"),
        (("cuda:3",), "cuda:3"),
        (("cuda", 3), "cuda:3"),
        (("vulkan:0",), "vulkan:0"),
        (("metal",), "metal:0"),
        (("meta",), "meta"),
    ],
)
def test_forms(args, text):
    made = Device(*args)
    assert str(made) == text
    assert repr(made) == f"device('{text}')"
    assert made == Device(text)
    assert hash(made) == hash(Device(text))
    assert Device(made) is made
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made


def test_fields():
    made = Device.cuda(2)
    assert (made.type, made.index, made.api, made.is_cpu()) == ("cuda", 2, "CUDA", False)
    assert Device.cpu().is_cpu()
    assert [d.api for d in (Device.vulkan(), Device.metal(1), Device.cpu())] == [
        "Vulkan",
        "Metal",
        "CPU",
    ]
    assert made != Device.cuda(1)
    assert made != "cuda:2"
    assert crt.cuda.device(1) == Device("cuda:1")


def test_read_only():
    with pytest.raises(AttributeError):
        Device("cuda").index = 3
    with pytest.raises(AttributeError):
        del Device("cuda").type
    assert Device("cuda").index == 0


@pytest.mark.parametrize(
    "args",
    [
        ("",),
        (":0",),
        ("cuda:",),
        ("cuda:-1",),
        ("cuda:x",),
        ("cuda:99999",),
        ("cuda 0",),
        ("cuda", -1),
        ("cuda", True),
        ("cuda:0", 0),
        ("cpu:1",),
        ("meta", 1),
        ("abacus",),
        ("abacus:0",),
        ("cuda\n",),
    ],
)
def test_refusals_name_the_value(args):
    with pytest.raises(crt.InvalidArgumentError, match="Device"):
        Device(*args)


def test_other_types():
    with pytest.raises(TypeError, match="Device"):
        Device(3)


def test_absent_kinds_are_facts():
    assert crt.enumerate_devices("abacus") == []
    assert crt.is_available("abacus") is False
    assert str(Device.gpu())
    with pytest.raises(crt.InvalidArgumentError):
        crt.enumerate_devices("cuda:0")


def test_size():
    size = crt.Size([2, 5])
    assert repr(size) == str(size) == "clika_runtime.Size([2, 5])"
    assert size == (2, 5)
    assert hash(size) == hash((2, 5))
    assert isinstance(size, tuple)
    assert size.numel() == 10
    assert crt.Size().numel() == 1
    assert type(size[:1]) is type(size + (3,)) is type((3,) + size) is type(size * 2) is crt.Size
    assert (3,) + size == (3, 2, 5)
    assert type(size[0]) is int
    rows, columns = size
    assert (rows, columns) == (2, 5)
    assert pickle.loads(pickle.dumps(size)) == size
    with pytest.raises(TypeError):
        size + [3]


def test_examples():
    assert doctest.testmod(device).failed == 0
    assert doctest.testmod(_size).failed == 0


def test_this_machine():
    assert crt.is_available("cpu")
    assert crt.enumerate_devices() == [Device("cpu")]
    facts = crt.get_device_properties("cpu")
    assert facts.name
    assert facts.memory_bytes > 1 << 20
    assert facts.units >= 1
    assert facts.sm_count == facts.units
    assert facts.compute_capability is None
    assert facts.fp8_e4m3 in (True, False)
    assert crt.enumerate_devices("meta") == [Device("meta")]
    assert not crt.accelerator.is_available() or Device.gpu().type != "cpu"


def test_absent_device_is_refused():
    with pytest.raises(crt.InternalError) as caught:
        crt.get_device_properties("cuda:0")
    absent = ("BACKEND_NOT_LOADED", "BACKEND_UNAVAILABLE", "BACKEND_DRIVER_ABSENT")
    assert caught.value.code_name in absent


def test_placement_scope() -> None:
    """``crt.device(d)``: the device of factories that name none, in this thread."""
    with crt.device("meta"):
        assert crt.zeros(2).device == Device("meta")
        assert crt.zeros(2, device="cpu").device == Device("cpu")
        with crt.device(Device("cpu")):
            assert crt.zeros(2).device == Device("cpu")
        assert crt.ones(2).device == Device("meta")
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: crt.zeros(2)).result().device == Device("cpu")
    assert crt.zeros(2).device == Device("cpu")
    with pytest.raises(InvalidArgumentError, match="unknown device kind"):
        crt.device("toaster")


def test_meta_init_is_a_scope_and_a_decorator() -> None:
    @crt.meta_init()
    def build() -> Any:
        return crt.arange(3)

    made = build()
    assert made.device == Device("meta")
    assert tuple(made.shape) == (3,)
    with pytest.raises(ClikaRTError):
        made.numpy()
    assert crt.arange(3).device == Device("cpu")
