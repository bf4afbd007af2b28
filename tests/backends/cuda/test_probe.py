"""What is said where there is no driver, no device, no compiler, and what is known of devices."""

import subprocess

PROBE = 'answer = [plugins.probe("cuda"), crt.cuda.is_available(), str(crt.Device.gpu())]'


def test_no_driver(machine, tmp_path):
    reason, available, gpu = machine.ask(PROBE, CLIKA_RT_CUDA_DRIVER=str(tmp_path / "libcuda.so.1"))
    assert reason.startswith("no NVIDIA driver: ")
    assert "libcuda.so.1" in reason
    assert (available, gpu) == (False, "cpu")


def test_old_driver(machine):
    reason, available, _ = machine.ask(PROBE, FAKE_CUDA_VERSION="11080")
    assert reason == (
        "the NVIDIA driver is too old: it supports CUDA 11.8, 12.0 is needed; update the driver"
    )
    assert not available


def test_compiler_newer_than_the_driver(machine):
    reason, _, _ = machine.ask(PROBE, FAKE_CUDA_VERSION="12040")
    assert (
        "the NVIDIA driver supports CUDA 12.4, and the installed compiler (NVRTC) is of CUDA 13.0"
        in reason
    )
    reason, available, _ = machine.ask(PROBE, FAKE_CUDA_VERSION="12040", FAKE_NVRTC_MAJOR="12")
    assert (reason, available) == (None, True)


def test_no_device(machine):
    reason, _, gpu = machine.ask(PROBE, FAKE_CUDA_DEVICES="0")
    assert reason.startswith("no NVIDIA GPU is visible to the driver")
    assert gpu == "cpu"


def test_no_compiler(machine, tmp_path):
    reason, _, _ = machine.ask(PROBE, CLIKA_RT_CUDA_NVRTC=str(tmp_path / "libnvrtc.so"))
    assert "(NVRTC) is missing" in reason
    assert "pip install 'clika-runtime[cuda]'" in reason


def test_old_gpu(machine):
    reason, _, _ = machine.ask(PROBE, FAKE_CUDA_CAPABILITY="75")
    assert reason == "none of the 1 NVIDIA GPU(s) has compute capability 8.0 or newer"


def test_not_a_driver(machine, tmp_path):
    empty = tmp_path / "empty.so"
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(empty)], check=True)
    reason, _, _ = machine.ask(PROBE, CLIKA_RT_CUDA_DRIVER=str(empty))
    assert reason.startswith("the NVIDIA driver does not say its version; ")


def test_driver_that_does_not_start(machine):
    code = "fake.fake_fail(b'cuInit', 1, 803)\n" + PROBE
    reason, _, _ = machine.ask(code)
    assert reason.startswith("the NVIDIA driver does not start: ")


def test_properties(machine):
    facts, names, free = machine.ask(
        """
        facts = crt.get_device_properties("cuda:1")
        answer = [facts._asdict(), [str(d) for d in crt.enumerate_devices("cuda")],
                  said(crt.get_device_properties, "cuda:2")]
        """.replace("\n        ", "\n"),
        FAKE_CUDA_DEVICES="2",
        FAKE_CUDA_CAPABILITY="120",
    )
    assert names == ["cuda:0", "cuda:1"]
    assert facts["name"] == "Pretended GPU 1"
    assert facts["compute_capability"] == [12, 0]
    assert facts["isa"] == "sm_120"
    assert (facts["units"], facts["warp"], facts["memory_bytes"]) == (4, 32, 1 << 30)
    assert facts["driver"] == "CUDA 13.0"
    assert free[1] == "INVALID_ARGUMENT"


def test_absent_device_is_refused_with_what_is_there(machine):
    kind, code, text = machine.ask('answer = said(crt.zeros, 2, device="cuda:3")')
    assert (kind, code) == ("InternalError", "BACKEND_UNAVAILABLE")
    assert text == "cannot allocate on device CUDA:3: the devices of this machine are cuda:0"


def test_placement_without_a_driver(machine, tmp_path):
    kind, code, text = machine.ask(
        'answer = said(crt.zeros, 2, device="cuda")', CLIKA_RT_CUDA_DRIVER=str(tmp_path / "none.so")
    )
    assert (kind, code) == ("InternalError", "BACKEND_DRIVER_ABSENT")
    assert text.startswith("cannot allocate on device CUDA:0: The cuda backend cannot work here: ")


def test_devices_and_doctor(machine):
    code = """
from clika_runtime.modelverse.cli.devices import report
from clika_runtime.modelverse.cli import findings
backends, rows = report()
found = [f for f in findings._backends() if f.name == "cuda"]
answer = [[b for b in backends if b["kind"] == "cuda"],
          [r for r in rows if r["device"].startswith("CUDA")],
          [f.status for f in found]]
"""
    backends, rows, statuses = machine.ask(code)
    assert backends[0]["status"] == "available"
    assert rows[0]["compute_capability"] == "9.0"
    assert rows[0]["shared_mem_kb"] == 227.0
    assert statuses == ["ok"]
    backends, rows, statuses = machine.ask(code, FAKE_CUDA_DEVICES="0")
    assert "no NVIDIA GPU" in backends[0]["status"]
    assert (rows, statuses) == ([], ["absent"])


def test_importing_opens_nothing(machine):
    code = "import sys; answer = [m for m in sys.modules if m.startswith('clika_runtime_cuda')]"
    assert machine.ask(code) == []


def test_plugin_table_needs_no_driver(machine):
    """The declaration is data: listing backends opens no library."""
    code = "import sys; plugins.backends(); answer = 'clika_runtime_cuda._backend' in sys.modules"
    assert machine.ask(code) is False
