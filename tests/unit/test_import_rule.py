"""What an import may load. Inspects modules instead of measuring time."""

import json
import subprocess
import sys

import pytest

HEAVY = {
    "clika_runtime._native._core",
    "clika_runtime.modelverse",
    "clika_runtime.ops",
    "huggingface_hub",
    "jinja2",
    "numpy",
    "onnx",
    "pluggy",
    "rich",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
}


def modules_after(code, *argv):
    script = (
        "import sys, json\n"
        f"{code}\n"
        "print('\\nMODULES ' + json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *argv], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    line = [x for x in done.stderr.splitlines() if x.startswith("MODULES ")][-1]
    return done.stdout, set(json.loads(line.removeprefix("MODULES ")))


def plugin_code(modules):
    return {m for m in modules if m.startswith(("clika_runtime_", "clika_family_"))}


def test_import_loads_small_machinery_only():
    _, modules = modules_after("import clika_runtime")
    assert not modules & HEAVY
    assert not plugin_code(modules)


def test_one_operator_loads_its_own_record_only():
    _, modules = modules_after("import clika_runtime\nclika_runtime.add")
    assert not modules & {"dataclasses", "numpy", "pluggy"}
    records = {m.rpartition(".")[2] for m in modules if m.startswith("clika_runtime.ops.")}
    assert {m for m in records if not m.startswith("_")} == {"arithmetic", "record"}


@pytest.mark.parametrize(
    "name", ["errors", "dtypes", "device", "plugins", "hooks", "pytree", "_known"]
)
def test_small_machinery_stays_small(name):
    _, modules = modules_after(f"from clika_runtime import {name}")
    assert not modules & (HEAVY - {"pluggy"})
    assert not plugin_code(modules)


def test_reading_entries_runs_no_plugin():
    out, modules = modules_after(
        "from clika_runtime import plugins\nprint(*[e.name for e in plugins.entries()])"
    )
    assert "cpu" in out.split()
    assert not modules & HEAVY
    assert not plugin_code(modules)


def test_rows_load_data_only():
    _, modules = modules_after(
        "from clika_runtime import plugins\nplugins.families()\nplugins.backends()"
    )
    assert not modules & (HEAVY - {"pluggy"})
    assert not [m for m in plugin_code(modules) if not m.endswith("plugin") and "." in m]


def test_list_imports_neither_numpy_nor_the_native_core():
    pytest.importorskip("clika_runtime.modelverse.cli")
    out, modules = modules_after(
        "from clika_runtime.modelverse.cli import main\n"
        "sys.argv = ['clikart-cli', 'list']\n"
        "try:\n    code = main()\nexcept SystemExit as stop:\n    code = stop.code\n"
        "assert not code, code"
    )
    assert "llama" in out
    assert not modules & {"numpy", "torch", "clika_runtime._native._core", "transformers", "onnx"}


def test_lazy_names():
    code = (
        "import clika_runtime as crt\n"
        "try:\n    crt.no_such_thing\nexcept AttributeError as error:\n    print(error)\n"
        "print(hasattr(crt, '_private'))"
    )
    out, _ = modules_after(code)
    assert "no_such_thing" in out
    assert out.strip().endswith("False")
