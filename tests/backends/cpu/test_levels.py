"""The build's levels: which one is chosen, what caps it, and that every level holds the same
table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import LEVELS, SERVER, Kernels, Reply, Server, usable_levels

from clika_runtime_cpu import _kernels

ROOT = Path(__file__).resolve().parents[3]

here = pytest.mark.skipif(bool(SERVER), reason="looks at this process's own table")


def child(value: str | None) -> subprocess.CompletedProcess:
    code = "from clika_runtime_cpu import _kernels;print(_kernels.probe());_kernels.backend()"
    env = {k: v for k, v in os.environ.items() if k != "CLIKA_RT_CPU_ISA"}
    if value is not None:
        env["CLIKA_RT_CPU_ISA"] = value
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )


@here
def test_every_level_holds_the_same_entries():
    tables = [Kernels(level).table for level in usable_levels()]
    names = [[t.kernels[i].op for i in range(t.n_kernels)] for t in tables]
    assert names[0]
    assert all(n == names[0] for n in names)


@here
def test_kernel_names_tell_the_level():
    table = Kernels("portable").table
    assert all(b"(portable)" in table.kernels[i].name for i in range(table.n_kernels))


@here
def test_a_cap_above_the_machine_leaves_its_best():
    best = Kernels(_kernels.level()).table
    top = Kernels(LEVELS[-1]).table
    assert best.kernels[0].name == top.kernels[0].name


@pytest.mark.parametrize("cap", [None, *LEVELS])
@here
def test_environment_caps_the_level(cap):
    done = child(cap)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None"


@here
def test_unknown_cap_is_refused_with_its_value():
    done = child("sse9")
    assert done.returncode != 0
    assert "'sse9'" in done.stderr
    assert "portable, avx2 or avx512" in done.stderr
    assert "sse9" in done.stdout  # the probe gives the reason instead of raising


def test_header_copy_equals_the_core_header():
    inner = Path("clika_runtime/plugin.h")
    copy = (ROOT / "plugins/cpu/include" / inner).read_bytes()
    assert copy == (ROOT / "core/clika_runtime/include" / inner).read_bytes()


@pytest.mark.skipif("qemu-aarch64 -cpu max" not in SERVER, reason="needs an emulated arm64")
@pytest.mark.parametrize(
    ("processor", "level"),
    [("cortex-a72", "portable"), ("neoverse-n1", "dotprod"), ("max", "i8mm")],
)
def test_a_processor_gets_the_level_it_has(processor, level):
    """A level above would end in an illegal instruction."""
    server = Server(SERVER.replace("-cpu max", f"-cpu {processor}"))
    assert Reply(server.ask(b"\0")).text() == level
