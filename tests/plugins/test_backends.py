"""Backend plugins: a pure-Python backend, probes, refusals."""

from tests.plugins.dists import Dist, Site

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
                  made is plugins.load_backend("abacus"),
                  sorted({"abacus", "cpu"} & set(plugins.device_kinds()))]
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
    assert "cpu" in answer[0] and "abacus" not in answer[0]
    assert "duplicate device kind 'cpu'" in answer[1]
    assert "clika-runtime-cpu" in answer[1]


def test_core_without_a_cpu_backend_names_the_line_to_run(site):
    _, code, text = ask(site, "cpu", CLIKA_RT_DISABLE_PLUGINS="cpu")
    assert code == "BACKEND_NOT_LOADED"
    assert "CLIKA_RT_DISABLE_PLUGINS" in text


def test_absent_backends(site):
    known = "from clika_runtime import _known\n_known.BACKENDS['loom'] = 'clika-runtime-loom'\n"
    _, code, text = site.ask(known + ASK.replace("KIND", "'loom'"))
    assert code == "BACKEND_NOT_LOADED"
    assert text == (
        "The loom backend could not load: not installed. Install it with: "
        "pip install clika-runtime-loom"
    )
    _, code, text = ask(site, "slide-rule")
    assert code == "BACKEND_NOT_LOADED"
    assert "the kinds installed here: cpu" in text


NUMPY_CODE = """
import numpy as np


def add(call):
    np.add(*call.inputs, out=call.outputs[0])


class Abacus:
    name = "wooden abacus"
    device_count = 2
    kernels = {"add": add}


def make():
    return Abacus()
"""


def test_python_backend_computes(site):
    site.install(backend(code=NUMPY_CODE))
    answer = site.ask(
        """
        import clika_runtime as crt
        x = crt.tensor([1.0, 2.0], device="abacus:1")
        y = x + x
        try:
            crt.sort(x)
        except crt.UnsupportedError as error:
            refused = [error.code_name, str(error)]
        answer = [str(y.device), y.to("cpu").tolist(), refused, crt.is_available("abacus"),
                  [str(d) for d in crt.enumerate_devices("abacus")],
                  crt.get_device_properties("abacus:1").name]
        """
    )
    assert answer[:2] == ["abacus:1", [2.0, 4.0]]
    assert answer[2][0].startswith("NOT_IMPLEMENTED")
    assert "abacus" in answer[2][1]
    assert answer[3:] == [True, ["abacus:0", "abacus:1"], "wooden abacus"]


CHOOSY_CODE = """
class Choosy:
    dtypes = frozenset(("float32", "bfloat16", "int64"))
    schemes = frozenset((9,))

    def __init__(self, name):
        self.name = name
        self.seen = []

    def __call__(self, call):
        assert call.op == self.name
        flat = []
        for each in call.input_dtypes:
            flat += [dtype.name for dtype in (each if type(each) is list else [each])]
        self.seen.append([flat, [dtype.name for dtype in call.output_dtypes]])
        call.outputs[0][...] = 0


class Abacus:
    kernels = {name: Choosy(name) for name in ("exp", "cat", "neg", "square", "copy", "dequantize")}

    def device_properties(self, index):
        return {"memory_bytes": 1024 + index, "units": 10, "fp16": False, "driver": ""}


make = Abacus
"""


def test_python_kernels_state_what_they_take(site):
    site.install(backend(code=CHOOSY_CODE))
    answer = site.ask(
        """
        import clika_runtime as crt
        from clika_runtime import plugins
        kernels = plugins.load_backend("abacus").kernels
        x = crt.ones(2)
        half, wide = (x.to(t).to("abacus") for t in (crt.bfloat16, crt.float64))
        x = x.to("abacus")
        crt.exp(x), crt.exp(half), crt.cat([half, half])
        refused = []
        def refuse(call):
            try:
                call()
            except crt.UnsupportedError as error:
                refused.append([error.code_name, str(error)])
        refuse(lambda: crt.exp(wide))
        refuse(lambda: crt.square(wide))  # composed of mul, which is not there
        recorder = crt.GraphRecorder()
        refuse(lambda: crt.exp(recorder.input("x", (2,), crt.float64, "abacus")))
        plan = recorder.compile(crt.exp(recorder.input("y", (2,), crt.bfloat16, "abacus")))
        answer = [kernels["exp"].seen, kernels["cat"].seen, refused]
        """
    )
    assert answer[0] == [[["float32"], ["float32"]], [["bfloat16"], ["bfloat16"]]]
    assert answer[1] == [[["bfloat16", "bfloat16"], ["bfloat16"]]]
    assert [code for code, _ in answer[2]] == [
        "NOT_IMPLEMENTED_FOR_DTYPE",
        "NOT_IMPLEMENTED",
        "NOT_IMPLEMENTED_FOR_DTYPE",
    ]
    assert "exp: not served on abacus:0 for (float64)" in answer[2][0][1]
    assert "mul" in answer[2][1][1]


def test_python_kernels_state_packed_schemes(site):
    site.install(backend(code=CHOOSY_CODE))
    answer = site.ask(
        """
        import clika_runtime as crt
        from clika_runtime import plugins
        answer = []
        for scheme, nbytes in ((9, 68), (3, 36)):
            weight = crt.Tensor.from_buffer(bytes(nbytes), (2, 32), crt.float32, scheme=scheme)
            try:
                answer.append(list(crt.dequantize(weight.to("abacus")).shape))
            except crt.UnsupportedError as error:
                answer.append(error.code_name)
        """
    )
    assert answer == [[2, 32], "NOT_IMPLEMENTED_FOR_DTYPE"]


def test_python_backends_report_properties(site, tmp_path):
    site.install(backend(code=CHOOSY_CODE))
    code = """
        import clika_runtime as crt
        found = crt.get_device_properties("abacus")
        answer = [found.name, found.memory_bytes, found.units, found.fp16, found.driver]
        """
    assert site.ask(code) == ["abacus", 1024, 10, False, None]
    other = tmp_path / "other"
    other.mkdir()
    site = Site(other)
    site.install(backend(code=CHOOSY_CODE.replace('"units"', '"beads"')))
    done = site.run(code)
    assert "InternalError" in done.stderr and "['beads']" in done.stderr


OPS_PLUGIN = (
    PLUGIN
    + """

@hookimpl
def clika_register_ops(register):
    register(name="abacus-ops", contract=1, operators=("carry",), module="abacus_backend.ops")
"""
)

OPS_MODULE = """
from clika_runtime.ops.record import op, tensor

op("carry", doc="x + 1 where x is 9, else x.", args=[tensor("x")], infer=lambda x: x)
"""


def test_operators_of_a_plugin(site):
    dist = backend(plugin=OPS_PLUGIN, code=CODE)
    dist.modules["abacus_backend/ops.py"] = OPS_MODULE
    site.install(dist)
    answer = site.ask(
        """
        import sys
        from clika_runtime import ops, plugins
        row = plugins.operators()["abacus-ops"]
        before = "abacus_backend.ops" in sys.modules
        answer = [row.spec.operators, before, ops.record("carry").summary]
        """
    )
    assert answer == [["carry"], False, "x + 1 where x is 9, else x."]


def test_operators_of_a_plugin_as_functions(site):
    dist = backend(plugin=OPS_PLUGIN, code=CODE)
    dist.modules["abacus_backend/ops.py"] = OPS_MODULE
    site.install(dist)
    answer = site.ask(
        """
        from clika_runtime import ops
        answer = [repr(ops.carry), hasattr(ops, "no_such_operator")]
        """
    )
    assert "carry" in answer[0]
    assert answer[1] is False


def test_operator_module_that_fails(site):
    dist = backend(plugin=OPS_PLUGIN, code=CODE)
    dist.modules["abacus_backend/ops.py"] = "raise RuntimeError('splinters')"
    site.install(dist)
    answer = site.ask(
        """
        from clika_runtime import ops
        try:
            ops.record("carry")
        except Exception as error:
            answer = [error.code_name, str(error)]
        """
    )
    assert answer[0] == "PLUGIN_FAILED"
    assert "splinters" in answer[1]


def test_two_plugins_announce_one_operator(site):
    one = backend(plugin=OPS_PLUGIN, code=CODE)
    plugin = OPS_PLUGIN.split("@hookimpl")[0] + "@hookimpl" + OPS_PLUGIN.split("@hookimpl")[2]
    two = Dist(
        "z-other",
        {"z_other/__init__.py": "", "z_other/plugin.py": plugin.replace("abacus-ops", "z-ops")},
        {"clika_runtime.backends": {"z": "z_other.plugin"}},
    )
    site.install(one, two)
    answer = site.ask(
        """
        from clika_runtime import plugins
        answer = [list(plugins.operators()), [str(b) for b in plugins.broken()]]
        """
    )
    assert answer[0] == ["abacus-ops"]
    assert "duplicate operator 'carry'" in answer[1][0]
