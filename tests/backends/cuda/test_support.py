"""The table of what CUDA serves, and that it is served there: a pretended GPU that stands idle is
asked without the CPU's kernels in the process."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOST_REFUSED = 15


@pytest.fixture(scope="module")
def generator():
    path = ROOT / "scripts" / "generate_reference.py"
    spec = importlib.util.spec_from_file_location("generate_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(machine, generator):
    environ = {"FAKE_CUDA_IDLE": "1", "CLIKA_RT_CUDA_CACHE": str(machine.cache.parent / "idle")}
    return machine.ask(generator.ASKED_OF_A_GPU, CLIKA_RT_DISABLE_PLUGINS="cpu", **environ)


def test_the_committed_table_is_current(found, generator):
    page = generator.SUPPORT.read_text()
    assert "\n".join(generator.served_by("cuda", found)) in page, (
        "run scripts/generate_reference.py"
    )


def test_few_operators_are_refused_each_with_a_reason(found, generator):
    refused = {name for name, by in found.items() if set(by.values()) == {"refused"}}
    assert refused == set(generator.REFUSED_ON_CUDA)
    assert len(refused) <= MOST_REFUSED


def test_every_kernel_is_compiled_ahead(fresh):
    """By several threads, each once; what comes later finds all of them."""
    first, second, count, wrong = fresh().ask(
        """
from clika_runtime_cuda import _backend, start
counts = []
for threads in (3, None):
    counts.append([start.prepare("cuda", threads), *_backend.counters().values()])
answer = [*counts, len(_backend.programs()), said(start.prepare, "cpu")]
""",
        FAKE_CUDA_IDLE="1",
    )
    assert count > 400
    assert first == [count, count, 0, 0]
    assert second == [count, count, count, 0]
    assert wrong[0] == "InvalidArgumentError"


def test_what_does_not_compile_ahead_is_told(fresh, tmp_path):
    answer = fresh().ask(
        """
from clika_runtime_cuda import start
answer = said(start.prepare, "cuda", 2)
""",
        FAKE_CUDA_EMULATION=str(tmp_path / "none.hpp"),
    )
    assert answer[0] == "InternalError"
    assert "does not compile" in answer[2]
