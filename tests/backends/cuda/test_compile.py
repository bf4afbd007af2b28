"""Every kernel compiles for the architectures that are supported, by the compiler itself."""

import os
import re
from pathlib import Path

import pytest

WAIT = re.compile(r"\b(?:begin_early|wait_for_earlier)\(\)")
ARCHITECTURES = ("sm_80", "sm_90", "sm_120")
COMPILE = """
from concurrent.futures import ThreadPoolExecutor
from clika_runtime_cuda import _backend, start
start._configure()
def made(source, defines, arch):
    try:
        size = len(_backend.compile(source, defines, arch))
        return size < 1000 and [source, defines, arch, "empty"]
    except RuntimeError as error:
        return [source, defines, arch, str(error)]
programs = _backend.programs()
wanted = WANTED
with ThreadPoolExecutor(2) as pool:
    answer = [len(wanted), [row for row in pool.map(lambda one: made(*one), wanted) if row]]
"""


@pytest.fixture(scope="module")
def compiler():
    start = pytest.importorskip("clika_runtime_cuda.start")
    found = [path for path in start.libraries("nvrtc") if "/" in path or "\\" in path]
    if not found:
        pytest.skip("the wheel nvidia-cuda-nvrtc is not installed")
    return found[0]


def compiled(machine, compiler, shared, wanted):
    return machine.ask(
        COMPILE.replace("WANTED", wanted),
        CLIKA_RT_CUDA_NVRTC=compiler,
        CLIKA_RT_CUDA_CACHE=str(shared / "real-cubins"),
        CLIKA_RT_CUDA_DRIVER="/nowhere/libcuda.so.1",
    )


def test_every_source_for_every_architecture(machine, compiler, shared):
    """One program of each source file and compute type, three times."""
    count, wrong = compiled(
        machine,
        compiler,
        shared,
        "[(*one, arch) for one in {(s, d[d.find('CLIKA_C='):]): (s, d) for s, d in programs}"
        f".values() for arch in {ARCHITECTURES}]",
    )
    assert wrong == []
    assert count > 30


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_every_program(machine, compiler, shared, part):
    """Each for one architecture, in turn; for all of them with CLIKA_CUDA_COMPILE_ALL=1."""
    every = "[(*one, arch) for one in programs[PART::2] for arch in ARCHS]"
    turns = "[(*one, ARCHS[i % 3]) for i, one in enumerate(programs[PART::2])]"
    wanted = every if os.environ.get("CLIKA_CUDA_COMPILE_ALL") == "1" else turns
    wanted = wanted.replace("PART", str(part)).replace("ARCHS", repr(ARCHITECTURES))
    count, wrong = compiled(machine, compiler, shared, wanted)
    assert wrong == []
    assert count > 150


def test_kernels_that_may_begin_early_wait_for_those_before_them():
    """What the host launches so, and no other source, waits in each of its kernels."""
    root = Path(__file__).parents[3] / "plugins" / "cuda"
    launched: dict[str, set[bool]] = {}
    for file in (root / "kernels").glob("*.cpp"):
        for name, rest in re.findall(r'registry\.program\("(\w+)"([^;]*);', file.read_text()):
            launched.setdefault(name, set()).add("begins_early()" in rest)
    early = {name for name, said in launched.items() if said == {True}}
    assert {"linear", "normalization", "attention_decode", "elementwise"} <= early
    assert not [name for name, said in launched.items() if len(said) > 1]
    for name in launched:
        source = (root / "src" / "clika_runtime_cuda" / "device" / f"{name}.cu").read_text()
        functions, *kernels = source.split('extern "C" __global__ ')
        # A function may wait for the kernel that calls it.
        waiting = {
            called[1]
            for text in functions.split("CLIKA_INLINE ")
            if WAIT.search(text) and (called := re.match(r"\w+ (\w+)\(", text))
        }
        waits = [
            len(WAIT.findall(kernel)) + sum(f"{one}<" in kernel for one in waiting)
            for kernel in kernels
        ]
        assert kernels and waits == [int(name in early)] * len(kernels), name
