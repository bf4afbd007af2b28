"""`Module` and `Parameter`: named slots in a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import clika_runtime as crt
from clika_runtime._native._core import Parameter
from clika_runtime.errors import InvalidArgumentError, UnsupportedError

__all__ = ["LoadReport", "Module", "Parameter", "declare"]


def declare(shape: tuple[int, ...], dtype: Any = None) -> Any:
    """A slot: a parameter with a shape and a dtype (float32) and no bytes."""
    return Parameter(crt.zeros(shape, dtype=dtype or crt.float32, device="meta"))


@dataclass
class LoadReport:
    """What a ``load_state_dict`` left out: slots without a tensor, tensors without a slot."""

    missing_keys: list[str] = field(default_factory=list)
    unexpected_keys: list[str] = field(default_factory=list)


class Module:
    """The base of every layer and model.

    Assigning a ``Parameter`` or a ``Module`` to an attribute registers it under that name; calling
    the module runs ``forward``. Names are dotted paths in the order of assignment.

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(4, 2)

            def forward(self, x):
                return self.proj(x)
    """

    # Registered names, in order. The values stand in the instance's own dict, so that reading a
    # parameter in `forward` is a plain attribute access.
    _parameters: dict[str, None]
    _modules: dict[str, None]

    def __init__(self) -> None:
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_modules", {})

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self.register_module(name, value)
        elif isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            parameters = self.__dict__.get("_parameters", {})
            if name in parameters and isinstance(value, crt.Tensor):
                # A plain tensor bound to a slot becomes the slot's parameter.
                value = Parameter(value)
            elif name in parameters and value is not None:
                raise InvalidArgumentError(
                    f"Module.{name}: a parameter takes a Tensor or None, not {type(value).__name__}"
                )
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._parameters.pop(name, None)
        self._modules.pop(name, None)
        object.__delattr__(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's result; a subclass defines it."""
        raise UnsupportedError(
            f"{type(self).__name__}.forward: the class defines no forward",
            code_name="NOT_IMPLEMENTED",
        )

    # ---- registration
    def register_parameter(self, name: str, value: Any) -> None:
        """Registers a parameter (or None: an absent optional one) under ``name``."""
        self._claim(name, "_parameters", "_modules")
        object.__setattr__(self, name, value)

    def register_module(self, name: str, value: Module | None) -> None:
        """Registers a child module under ``name``."""
        self._claim(name, "_modules", "_parameters")
        object.__setattr__(self, name, value)

    def _claim(self, name: str, own: str, other: str) -> None:
        """Enters a name among the registered ones of a kind."""
        if own not in self.__dict__:
            raise InvalidArgumentError(
                f"{type(self).__name__}.{name}: call super().__init__() before assigning modules "
                "or parameters"
            )
        if name in self.__dict__[other]:
            raise InvalidArgumentError(
                f"{type(self).__name__}.{name}: the name is taken by another kind of attribute"
            )
        if not name or "." in name:
            raise InvalidArgumentError(f"Module: '{name}' is no name for an attribute of a tree")
        self.__dict__[own].setdefault(name)

    # ---- walking
    def children(self) -> Iterator[Module]:
        """The direct child modules, in order."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Pairs (name, child module), in order."""
        for name in self._modules:
            module = self.__dict__[name]
            if module is not None:
                yield name, module

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Pairs (dotted name, module), this one first under ``prefix``; a shared module once."""
        seen: set[int] = set()

        def walk(name: str, module: Module) -> Iterator[tuple[str, Module]]:
            if id(module) in seen:
                return
            seen.add(id(module))
            yield name, module
            for child, value in module.named_children():
                yield from walk(f"{name}.{child}" if name else child, value)

        yield from walk(prefix, self)

    def modules(self) -> Iterator[Module]:
        """This module and every module below it."""
        for _, module in self.named_modules():
            yield module

    def _slots(self, prefix: str = "") -> Iterator[tuple[str, Module, str]]:
        """Triples (dotted name, owner, attribute) of every parameter slot; tied ones under each
        name."""
        for name in self._parameters:
            if self.__dict__[name] is not None:
                yield prefix + name, self, name
        for name, module in self.named_children():
            yield from module._slots(f"{prefix}{name}.")

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Pairs (dotted name, parameter) in registration order; a tied parameter under its first
        name."""
        seen: set[int] = set()
        for name, owner, attribute in self._slots(f"{prefix}." if prefix else ""):
            value = owner.__dict__[attribute]
            if id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def parameters(self) -> Iterator[Any]:
        """The parameters in registration order; a tied one once."""
        for _, value in self.named_parameters():
            yield value

    # ---- state
    def state_dict(self) -> dict[str, Any]:
        """Dotted name -> parameter, in registration order; a tied parameter stands under each of
        its names."""
        return {name: owner.__dict__[attribute] for name, owner, attribute in self._slots()}

    def load_state_dict(
        self, state: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadReport:
        """Binds the tensors of ``state`` to the slots of the same dotted names.

        With ``assign`` the tensors are adopted as they are (dtype and bytes; one object under two
        names stays one); otherwise each slot gets a copy in the slot's dtype. Shapes must agree.
        ``strict`` (True) refuses slots without a tensor and tensors without a slot, naming both
        sets; without it the report names them. Nothing is bound when the call raises.

            report = model.load_state_dict(crt.load("model.safetensors"), strict=False)
            report.missing_keys
        """
        slots = {name: (owner, attribute) for name, owner, attribute in self._slots()}
        report = LoadReport(
            [name for name in slots if name not in state],
            [name for name in state if name not in slots],
        )
        what = type(self).__name__
        if strict and (report.missing_keys or report.unexpected_keys):
            raise InvalidArgumentError(
                f"{what}.load_state_dict: the names do not agree; missing in the state: "
                f"{_names(report.missing_keys)}; unexpected in the state: "
                f"{_names(report.unexpected_keys)}"
            )
        bound = [(name, slots[name], state[name]) for name in slots if name in state]
        for name, (owner, attribute), value in bound:
            slot = owner.__dict__[attribute]
            if tuple(value.shape) != tuple(slot.shape):
                raise InvalidArgumentError(
                    f"{what}.load_state_dict: '{name}' has shape {list(value.shape)} in the state "
                    "and "
                    f"{list(slot.shape)} in the module"
                )
        # One tensor under several names becomes one parameter.
        adopted: dict[int, Any] = {}
        for _, (owner, attribute), value in bound:
            parameter = adopted.get(id(value))
            if parameter is None:
                if not assign:
                    parameter = Parameter(_copy(value, owner.__dict__[attribute].dtype))
                elif isinstance(value, Parameter):
                    parameter = value
                else:
                    parameter = Parameter(value)
                adopted[id(value)] = parameter
            object.__setattr__(owner, attribute, parameter)
        return report

    # ---- placement
    def _apply(self, convert: Callable[[str, Any], Any]) -> Module:
        done: dict[int, Any] = {}
        for name, owner, attribute in list(self._slots()):
            value = owner.__dict__[attribute]
            if id(value) not in done:
                done[id(value)] = (value, Parameter(convert(name, value)))
            object.__setattr__(owner, attribute, done[id(value)][1])
        return self

    def to(self, device: Any = None, dtype: Any = None) -> Module:
        """Moves the tree to a device, a dtype, or both, in place; returns the module.

        A packed weight moves between devices and is refused a dtype.
        """
        if isinstance(device, crt.dtype):
            device, dtype = None, device

        def convert(name: str, value: Any) -> Any:
            if dtype is not None and value.scheme:
                raise UnsupportedError(
                    f"Module.to: '{name}' is a packed weight (scheme {value.scheme}); dequantize "
                    "it to change its "
                    f"dtype to {dtype}",
                    code_name="NOT_IMPLEMENTED_FOR_PARAM",
                )
            if dtype is not None:
                value = value.to(dtype)
            return value if device is None else value.to(device)

        return self._apply(convert)

    def to_empty(self, *, device: Any = None) -> Module:
        """Gives every slot a placement without values; ``load_state_dict`` fills them.

        Slots stay without bytes until a tensor is bound, so a following ``assign=True`` keeps one
        copy."""
        if device is not None:
            crt.Device(device)
        return self

    def eval(self) -> Module:
        """Returns the module as it is: there is no training mode."""
        return self

    # ---- printing
    def extra_repr(self) -> str:
        """What stands between the brackets of a leaf; a subclass may define it."""
        return ""

    def __repr__(self) -> str:
        lines = []
        for name, module in self.named_children():
            body = repr(module).replace("\n", "\n  ")
            lines.append(f"  ({name}): {body}")
        head = f"{type(self).__name__}({self.extra_repr()}"
        if not lines:
            return head + ")"
        return "\n".join([head, *lines, ")"])


def _copy(value: Any, dtype: Any) -> Any:
    if value.scheme:
        return value
    return value.to(dtype) if value.dtype != dtype else value.clone()


def _names(names: list[str], limit: int = 12) -> str:
    if not names:
        return "none"
    shown = ", ".join(names[:limit])
    more = len(names) - limit
    return shown + (f" and {more} more" if more > 0 else "")
