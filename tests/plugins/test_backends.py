"""Backend plugins: a pure-Python backend, probes, refusals."""

from tests.plugins.dists import Dist

PLUGIN = """
from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import BackendSpec


@hookimpl
def clika_register_backends(register):
    register(BackendSpec(name="abacus", contract=1, kinds=("abacus",),
                         load="abacus_backend.code:make", probe="abacus_backend.probe:probe"))
"""


def backend(plugin=PLUGIN, probe="def probe():\n    return None\n", code="", dist="abacus-backend"):
    return Dist(
        dist,
        {
            "abacus_backend/__init__.py": "",
            "abacus_backend/plugin.py": plugin,
            "abacus_backend/probe.py": probe,
            "abacus_backend/code.py": code,
        },
        {"clika_runtime.backends": {"abacus": "abacus_backend.plugin"}},
    )


CODE = """
class Abacus:
    beads = 10


def make():
    return Abacus()
"""

ASK = """
from clika_runtime import plugins
try:
    plugins.load_backend(KIND)
except Exception as error:
    answer = [type(error).__name__, error.code_name, str(error)]
else:
    answer = []
"""


def ask(site, kind="abacus", **environ):
    return site.ask(ASK.replace("KIND", repr(kind)), **environ)


def test_python_backend(site):
    site.install(backend(code=CODE))
    answer = site.ask(
        """
        import sys
        import clika_runtime as crt
        from clika_runtime import plugins
        device = crt.Device("abacus:1")
        before = "abacus_backend.code" in sys.modules
        made = plugins.load_backend("abacus")
        answer = [str(device), device.api, before, made.beads,
                  made is plugins.load_backend("abacus"), sorted(plugins.device_kinds())]
        """
    )
    assert answer == ["abacus:1", "Abacus", False, 10, True, ["abacus", "cpu"]]


def test_probe_speaks_before_the_code_is_loaded(site):
    site.install(
        backend(probe="def probe():\n    return 'no beads'\n", code="raise RuntimeError('loaded')")
    )
    name, code, text = ask(site)
    assert (name, code) == ("InternalError", "BACKEND_UNAVAILABLE")
    assert "no beads" in text


def test_probe_that_fails(site):
    site.install(backend(probe="def probe():\n    return 1 // 0\n", code=CODE))
    _, code, text = ask(site)
    assert code == "BACKEND_UNAVAILABLE"
    assert "its probe failed: ZeroDivisionError" in text


def test_code_that_fails(site):
    site.install(backend(code="raise OSError('libabacus.so is missing')"))
    name, code, text = ask(site)
    assert (name, code) == ("InternalError", "PLUGIN_FAILED")
    assert "abacus-backend 1.0" in text
    assert "libabacus.so is missing" in text


def test_factory_that_fails(site):
    site.install(backend(code="def make():\n    raise OSError('out of wood')\n"))
    _, code, text = ask(site)
    assert code == "BACKEND_NOT_LOADED"
    assert "out of wood" in text


def test_broken_backend_gives_its_reason(site):
    site.install(backend(plugin="raise RuntimeError('a crack')"))
    name, code, text = ask(site)
    assert (name, code) == ("InternalError", "BACKEND_NOT_LOADED")
    assert "a crack" in text
    assert ask(site, "cpu") == []


def test_second_driver_of_a_kind_is_refused(site):
    plugin = PLUGIN.replace('kinds=("abacus",)', 'kinds=("abacus", "cpu")')
    site.install(backend(plugin=plugin, code=CODE))
    answer = site.ask(
        """
        from clika_runtime import plugins
        answer = [sorted(plugins.backends()), str(plugins.broken()[0])]
        """
    )
    assert answer[0] == ["cpu"]
    assert "duplicate device kind 'cpu'" in answer[1]
    assert "clika-runtime-cpu" in answer[1]


def test_core_without_a_cpu_backend_names_the_line_to_run(site):
    _, code, text = ask(site, "cpu", CLIKA_RT_DISABLE_PLUGINS="cpu")
    assert code == "BACKEND_NOT_LOADED"
    assert "CLIKA_RT_DISABLE_PLUGINS" in text


def test_absent_backends(site):
    _, code, text = ask(site, "cuda")
    assert code == "BACKEND_NOT_LOADED"
    assert text == (
        "The cuda backend could not load: not installed. Install it with: "
        "pip install clika-runtime-cuda"
    )
    _, code, text = ask(site, "slide-rule")
    assert "the kinds installed here: cpu" in text
