"""A machine with pretended GPUs for every test; no other test is to see the devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends.cuda.pretended import Machine, NoCompiler, build


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def machine(shared: Path) -> Machine:
    pytest.importorskip("clika_runtime_cuda._backend", reason="the CUDA backend is not built here")
    try:
        build(shared / "fake-cuda")
    except NoCompiler as error:
        pytest.skip(str(error))
    return Machine(shared / "fake-cuda", shared / "fake-cubins")


@pytest.fixture
def fresh(machine: Machine, tmp_path: Path) -> Callable[[], Machine]:
    """A machine whose cache of kernels is empty."""
    return lambda: Machine(machine.folder, tmp_path / "cubins")
