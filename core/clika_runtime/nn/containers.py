"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clika_runtime.errors import InvalidArgumentError

from .module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class ModuleList(Module):
    """A list of modules, registered under "0", "1", ... ``blocks[i]``, ``len``, iteration and
    ``append`` work."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        """Adds a module at the end; returns the list."""
        self.register_module(str(len(self)), module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"ModuleList: index {index} is out of range for {size} module(s)")
        return self.__dict__[str(index % size)]

    def __iter__(self) -> Iterator[Module]:
        return self.children()


class Sequential(ModuleList):
    """Runs its modules one after the other: ``nn.Sequential(nn.Linear(4, 8), nn.ReLU())``."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by name: ``heads["a"]``, ``len``, ``in``, ``keys``, ``values``, ``items``."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self[name] = module

    def __setitem__(self, name: str, module: Module) -> None:
        if hasattr(type(self), name):
            raise InvalidArgumentError(f"ModuleDict: '{name}' is the name of a method")
        self.register_module(name, module)

    def __getitem__(self, name: str) -> Module:
        if name not in self._modules:
            raise KeyError(name)
        module: Module = self.__dict__[name]
        return module

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def keys(self) -> Iterator[str]:
        """The names, in order."""
        return iter(self._modules)

    def values(self) -> Iterator[Module]:
        """The modules, in order."""
        return self.children()

    def items(self) -> Iterator[tuple[str, Module]]:
        """Pairs (name, module), in order."""
        return self.named_children()
