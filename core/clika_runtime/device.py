"""Devices: a kind and an index, and what is known of the hardware behind them."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any, NamedTuple

from .errors import InternalError, InvalidArgumentError

__all__ = [
    "Accelerator",
    "Device",
    "DeviceProperties",
    "accelerator",
    "compute_api_name",
    "cuda",
    "enumerate_devices",
    "get_device_properties",
    "is_available",
    "meta_init",
    "metal",
    "vulkan",
]

# How a kind is written outside Python (tables, to_string). A kind that is not listed is
# capitalized.
_API_NAMES = {"cpu": "CPU", "cuda": "CUDA", "vulkan": "Vulkan", "metal": "Metal", "meta": "Meta"}
# Kinds that need no plugin to be named; "meta" holds no bytes, "null" is the backend of the tests.
_NAMED = frozenset({"cpu", "cuda", "vulkan", "metal", "meta", "null"})
# One place without an index: the whole machine, or no memory at all.
_SINGLE = frozenset({"cpu", "meta"})
# The order in which an accelerator is looked for.
_PREFERENCE = ("cuda", "metal", "vulkan")
_SPEC = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(?::(\d{1,4}))?")


class Device:
    """A device: a kind (``"cpu"``, ``"cuda"``, ``"vulkan"``, ``"metal"``, ``"meta"``, or the kind
    of an installed backend) and an index. It is a value: comparable, hashable, without a connection
    to the hardware.

    >>> Device("cpu"), str(Device("cuda")), Device("cuda:1").index
    (device('cpu'), 'cuda:0', 1)
    """

    __slots__ = ("index", "type")

    type: str
    index: int

    def __new__(cls, spec: str | Device = "cpu", index: int | None = None) -> Device:
        if isinstance(spec, Device):
            if index is not None:
                raise InvalidArgumentError(
                    f"Device: {spec!s} already has an index, got index {index!r} too"
                )
            return spec
        if not isinstance(spec, str):
            raise TypeError(f"Device: expected a string such as 'cuda:0', got {spec!r}")
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise InvalidArgumentError(
                f"Device: {spec!r} is not of the form 'kind' or 'kind:index'"
            )
        kind = match[1].lower()
        if match[2] is not None:
            if index is not None:
                raise InvalidArgumentError(
                    f"Device: {spec!r} already has an index, got index {index!r} too"
                )
            index = int(match[2])
        if index is None:
            index = 0
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise InvalidArgumentError(f"Device: the index must be an integer >= 0, got {index!r}")
        if kind not in _NAMED:
            _check_kind(spec, kind)
        if kind in _SINGLE and index != 0:
            raise InvalidArgumentError(f"Device: '{kind}' is one device, got index {index}")
        return _interned(kind, index)

    @staticmethod
    def cpu() -> Device:
        """The host CPU, whole machine: the default device."""
        return Device("cpu")

    @staticmethod
    def cuda(index: int = 0) -> Device:
        return Device("cuda", index)

    @staticmethod
    def vulkan(index: int = 0) -> Device:
        return Device("vulkan", index)

    @staticmethod
    def metal(index: int = 0) -> Device:
        return Device("metal", index)

    @staticmethod
    def gpu() -> Device:
        """The first accelerator that works here (CUDA, Metal, Vulkan), else the CPU. Never
        fails."""
        for kind in _PREFERENCE:
            if is_available(kind):
                return Device(kind)
        return Device("cpu")

    @property
    def api(self) -> str:
        """The kind as tables write it: ``CPU``, ``CUDA``, ``Vulkan``, ``Metal``."""
        return compute_api_name(self.type)

    def is_cpu(self) -> bool:
        return self.type == "cpu"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Device: '{name}' is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Device: '{name}' is read-only")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.type in _SINGLE else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device('{self}')"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (str(self),)


_all: dict[tuple[str, int], Device] = {}


def _interned(kind: str, index: int) -> Device:
    found = _all.get((kind, index))
    if found is None:
        new = object.__new__(Device)
        object.__setattr__(new, "type", kind)
        object.__setattr__(new, "index", index)
        found = _all.setdefault((kind, index), new)
    return found


def _check_kind(spec: str, kind: str) -> None:
    """Only an unusual kind asks the plugins; the usual ones stay free of any lookup."""
    from . import plugins

    kinds = plugins.device_kinds()
    if kind not in kinds:
        known = ", ".join(sorted(_NAMED.union(kinds) - {"null"}))
        raise InvalidArgumentError(
            f"Device: unknown device kind in {spec!r}; the kinds here are {known}"
        )


def compute_api_name(kind: str) -> str:
    """The name of a device kind in tables and `to_string`: ``CPU``, ``CUDA``, ``Vulkan``,
    ``Metal``."""
    return _API_NAMES.get(kind, kind.capitalize())


class DeviceProperties(NamedTuple):
    """What a backend reports of a device. A field that means nothing for the device is None."""

    # A dataclass would cost every import of the package the import of inspect.

    name: str
    driver: str | None = None
    runtime: str | None = None
    memory_bytes: int | None = None
    units: int | None = None  # cores or multiprocessors
    compute_capability: tuple[int, int] | None = None
    warp: int | None = None
    max_threads_per_block: int | None = None
    shared_memory_bytes: int | None = None
    tensor_cores: bool | None = None
    fp16: bool | None = None
    bf16: bool | None = None
    fp8_e4m3: bool | None = None
    isa: str | None = None

    @property
    def sm_count(self) -> int | None:
        return self.units


def is_available(kind: str) -> bool:
    """True when a backend of that kind is installed, loads, and finds a device. False is a fact, no
    error."""
    return bool(enumerate_devices(kind))


def enumerate_devices(kind: str = "cpu") -> list[Device]:
    """The devices of a kind that this machine has; an empty list when there is no backend or no
    device."""
    if not isinstance(kind, str) or _SPEC.fullmatch(kind) is None or ":" in kind:
        raise InvalidArgumentError(
            f"enumerate_devices: expected a device kind such as 'cuda', got {kind!r}"
        )
    kind = kind.lower()
    if kind == "meta":
        return [Device("meta")]
    try:
        count = _device_count(kind)
    except InternalError:
        return []
    return [Device(kind, i) for i in range(count)]


def get_device_properties(device: str | Device) -> DeviceProperties:
    """What is known of a device. `InternalError` with ``BACKEND_NOT_LOADED`` when its backend is
    absent."""
    device = Device(device)
    count = _device_count(device.type)
    if device.index >= count:
        raise InvalidArgumentError(
            f"get_device_properties: there is no {device}; {device.api} has {count} device(s) here"
        )
    from ._native import _core

    # A backend's table of plain numbers says "no such thing" with 0 and with an empty text.
    facts: dict[str, Any] = {
        name: None if type(value) is not bool and value in (0, "") else value
        for name, value in _core.device_properties(device.type, device.index).items()
    }
    capability = facts.get("compute_capability")
    if isinstance(capability, int):
        facts["compute_capability"] = divmod(capability, 10)
    unknown = facts.keys() - set(DeviceProperties._fields)
    if unknown:
        raise InternalError(
            f"get_device_properties: the backend of {device} reports {sorted(unknown)}; "
            f"the facts are {', '.join(DeviceProperties._fields)}",
            "PLUGIN_FAILED",
        )
    return DeviceProperties(**facts)


def _device_count(kind: str) -> int:
    from . import plugins

    # The probe answers without the native core; only a backend that can work is registered there.
    plugins.load_backend(kind)
    from ._native import _core

    return int(_core.device_count(kind))


class Accelerator:
    """The devices of one kind: ``crt.cuda``, ``crt.vulkan``, ``crt.metal``. ``crt.accelerator`` is
    the same for whichever of them this machine has."""

    def __init__(self, kind: str | None) -> None:
        self._kind = kind

    @property
    def kind(self) -> str:
        """The device kind; for ``crt.accelerator`` the first that works here, else ``"cpu"``."""
        return Device.gpu().type if self._kind is None else self._kind

    def is_available(self) -> bool:
        kind = self.kind
        return kind != "cpu" and is_available(kind)

    def device(self, index: int = 0) -> Device:
        return Device(self.kind, index)

    def synchronize(self, index: int = 0) -> None:
        """Waits until the work queued on the device has run."""
        from ._native import _core

        _core.synchronize(self.device(index))

    def __repr__(self) -> str:
        return f"clika_runtime.{self._kind or 'accelerator'}"


accelerator = Accelerator(None)
cuda = Accelerator("cuda")
metal = Accelerator("metal")
vulkan = Accelerator("vulkan")


class _DeviceModule(ModuleType):
    """This module, which is also the scope ``crt.device(d)``."""

    def __call__(self, device: str | Device) -> Any:
        """A scope, for ``with`` or as a decorator, whose device is where the thread's factories
        make tensors that name none.

        >>> import clika_runtime as crt
        >>> with crt.device("meta"):
        ...     x = crt.zeros(2, 3)
        >>> x.device
        device('meta')
        """
        from ._native import _core

        return _core.device_scope(device)


def meta_init() -> Any:
    """``crt.device("meta")``: in the block factories make shapes and dtypes without bytes."""
    return sys.modules[__name__]("meta")  # type: ignore[operator]


# The name of the scope is the name of the room: a module may be called where its class says how.
sys.modules[__name__].__class__ = _DeviceModule
