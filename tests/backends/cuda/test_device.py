"""Memory, copies, order and faults. Streams of the pretended devices run only when waited for."""

import numpy as np
import pytest


def test_round_trips_of_every_size(machine):
    """Small copies ride with the command, large ones go through pinned chunks of 4 MiB."""
    answer = machine.ask("""
import numpy as np
answer = []
for count in (0, 1, 5, 1 << 14, (1 << 14) + 1, 3 * (1 << 20) + 7, 9 * (1 << 20) + 3):
    values = np.arange(count, dtype=np.float32)
    there = crt.tensor(values).to("cuda")
    again = there.to("cuda", copy=True)
    answer.append(bool((again.cpu().numpy() == values).all()) and again.device == there.device)
""")
    assert answer == [True] * 7


def test_source_may_change_as_soon_as_the_copy_was_issued(machine):
    answer = machine.ask("""
import numpy as np
answer = []
for count in (4, 1 << 22):
    values = np.ones(count, np.float32)
    there = crt.from_numpy(values).to("cuda")
    values[:] = 7
    answer.append([float(there.cpu().numpy().min()), float(there.cpu().numpy().max())])
""")
    assert answer == [[1.0, 1.0], [1.0, 1.0]]


def test_a_queued_call_does_not_wait(machine):
    """Operators return before they have run; what reads waits for them."""
    answer = machine.ask("""
x = crt.tensor([1.0, 2.0]).to("cuda")
crt.cuda.synchronize()
ran = fake.fake_calls(b"kernel")
y = x
for _ in range(20):
    y = y + 1
stream = crt.Stream.default_stream("cuda")
before = [fake.fake_calls(b"kernel") - ran, stream.query_idle()]
values = y.tolist()
answer = [before, values, fake.fake_calls(b"kernel") - ran, stream.query_idle()]
""")
    assert answer == [[0, False], [21.0, 22.0], 20, True]


def test_scope_of_synchronous_calls(machine):
    answer = machine.ask("""
x = crt.tensor([1.0]).to("cuda")
with crt.synchronous():
    y = x + 1
    answer = crt.Stream.default_stream("cuda").query_idle()
""")
    assert answer is True


def test_streams(machine):
    answer = machine.ask("""
stream = crt.Stream.default_stream("cuda")
again = crt.Stream.default_stream("cuda:0")
answer = [stream.native_handle() == again.native_handle(), stream.native_handle() > 0,
          stream.is_default(), str(stream.device), crt.Stream.default_stream().native_handle(),
          said(crt.Stream.create, "cuda")]
stream.synchronize()
""")
    assert answer[:5] == [True, True, True, "cuda:0", None]
    assert answer[5][1] == "NOT_IMPLEMENTED_FOR_DEVICE"


def test_memory_is_cached_and_given_back(machine):
    before, held, idle, freed, after, used = machine.ask("""
before = crt.memory_stats("cuda")
x = crt.zeros(1 << 20, device="cuda")
held = crt.memory_stats("cuda")
del x
idle = crt.memory_stats("cuda")
x = crt.zeros(1 << 20, device="cuda")
again = crt.memory_stats("cuda")
assert again.system_allocations == held.system_allocations
del x
freed = crt.empty_cache("cuda")
answer = [before, held, idle, freed, crt.memory_stats("cuda"), fake.fake_used(0)]
""")
    assert before["active_bytes"] == 0
    assert held["active_bytes"] == held["peak_bytes"] == 4 << 20
    assert (idle["active_bytes"], idle["cached_bytes"]) == (0, 4 << 20)
    assert freed == 4 << 20
    assert (after["cached_bytes"], used) == (0, 0)


def test_out_of_memory(machine):
    """One trim and one more try; then an error with the sizes, and the process goes on."""
    answer = machine.ask(
        """
kept = crt.zeros(1 << 20, device="cuda")          # 4 MiB
idle = crt.zeros(3 << 20, device="cuda")          # 12 MiB, idle in the pool
del idle
fits = crt.zeros(11 << 18, device="cuda")         # 11 MiB: only after a trim
trims = fake.fake_calls(b"cuMemPoolTrimTo")
failure = said(crt.zeros, 8 << 20, device="cuda") # 32 MiB
answer = [trims > 0, failure, (kept + 1).tolist()[:2], said(kept.to, "cuda", copy=True)]
""",
        FAKE_CUDA_MEMORY=str(20 << 20),
    )
    assert answer[0] is True
    kind, code, text = answer[1]
    assert (kind, code) == ("OutOfMemoryError", "OUT_OF_MEMORY")
    assert "cannot allocate 33554432 bytes on cuda:0: " in text
    assert "of 20971520 bytes are free" in text
    assert answer[2] == [1.0, 1.0]


def test_fault_is_reported_once_with_its_operator(machine):
    first, second, third, host = machine.ask("""
x = crt.tensor([1.0, 2.0]).to("cuda")
(x + 1).tolist()
fake.fake_fail(b"kernel", 1, 700)
y = crt.exp(x)
first = said(y.tolist)
later = [said(y.tolist), said(lambda: crt.zeros(2, device="cuda").tolist())]
answer = [first, *later, (crt.ones(2) + 1).tolist()]
""")
    assert first[0] == "InternalError"
    assert first[2] == (
        "exp failed with CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered) on "
        "cuda:0; the device is out of use in this process"
    )
    for later in (second, third):
        assert later[1] == "BACKEND_UNAVAILABLE"
        assert "cuda:0 is out of use in this process: exp failed" in later[2]
    assert host == [2.0, 2.0]


def test_fault_among_several_operators_names_them(machine):
    text = machine.ask("""
x = crt.tensor([1.0, 2.0]).to("cuda")
(x + 1).tolist()
fake.fake_fail(b"kernel", 2, 719)
y = crt.exp(crt.relu(x) * 2)
answer = said(y.tolist)[2]
""")
    assert text.startswith(
        "one of relu, mul, exp (run under clika_runtime.synchronous() to know which)"
    )


def test_failed_launch_is_raised_where_the_result_is_read(machine):
    answer = machine.ask("""
x = crt.tensor([1.0, 2.0]).to("cuda")
(x + 1).tolist()
fake.fake_fail(b"cuLaunchKernelEx", 1, 1)
y = x + 1
answer = [said(y.tolist), (x + 1).tolist()]
""")
    assert "add failed on cuda:0" in answer[0][2]
    assert answer[1] == [2.0, 3.0]


def test_values_that_a_kernel_refuses(machine):
    """Reported by whoever waits next; the device goes on."""
    answer = machine.ask("""
x = crt.tensor([4, 6], device="cuda")
zero = crt.tensor([2, 0], device="cuda")
bad = x // zero
answer = [said(bad.tolist), (x // crt.tensor([2, 3], device="cuda")).tolist()]
""")
    kind, code, text = answer[0]
    assert (kind, code) == ("InvalidArgumentError", "INVALID_ARGUMENT")
    assert text.startswith("floor_divide: integer division by zero")
    assert answer[1] == [2, 2]


def test_two_devices(machine):
    answer = machine.ask(
        """
x = crt.tensor([1.0, 2.0]).to("cuda:1")
y = (x * 3).to("cuda:0")
z = y + 1
w = z.to("cuda:1") + x
answer = [str(w.device), w.tolist(), z.tolist(), said(lambda: x + y)[1]]
""",
        FAKE_CUDA_DEVICES="2",
    )
    assert answer == ["cuda:1", [5.0, 9.0], [4.0, 7.0], "INVALID_ARGUMENT"]


def test_exchange_keeps_the_memory_and_the_order(machine):
    answer = machine.ask("""
class Sender:  # another library's array: it is told which stream reads
    def __init__(self, tensor): self.tensor = tensor; self.asked = []
    def __dlpack_device__(self): return self.tensor.__dlpack_device__()
    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.tensor.__dlpack__(**options)
x = crt.tensor([1.0, 2.0, 3.0]).to("cuda") + 1
sender = Sender(x)
y = crt.from_dlpack(sender)
handle = crt.Stream.default_stream("cuda").native_handle()
same = y.data_ptr() == x.data_ptr()
address = x.data_ptr()
del x, sender.tensor
answer = [same, y.tolist(), str(y.device), sender.asked[0]["stream"] == handle,
          list(y.__dlpack_device__()), said(y.__dlpack__, stream=0)[1],
          *(type(y.__dlpack__(stream=number)).__name__ for number in (1, -1))]
y.add_(1)
answer.append(y.tolist())
""")
    assert answer == [
        True, [2.0, 3.0, 4.0], "cuda:0", True, [2, 0], "INVALID_ARGUMENT", "PyCapsule", "PyCapsule",
        [3.0, 4.0, 5.0],
    ]  # fmt: skip


def test_forked_child_is_told(machine):
    answer = machine.ask("""
import sys
x = crt.tensor([1.0]).to("cuda")
x.tolist()
read, write = os.pipe()
child = os.fork()
if child == 0:
    failure = said(lambda: crt.zeros(2, device="cuda").tolist())
    os.write(write, json.dumps([failure, (crt.ones(2) + 1).tolist()]).encode())
    os._exit(0)
os.waitpid(child, 0)
answer = json.loads(os.read(read, 10000)) + [(x + 1).tolist()]
""")
    assert answer[0][1] == "UNAVAILABLE"
    assert "spawn" in answer[0][2]
    assert answer[1:] == [[2.0, 2.0], [2.0]]


def test_threads_share_a_device(machine):
    answer = machine.ask("""
from concurrent.futures import ThreadPoolExecutor
def work(seed):
    x = crt.full((257,), float(seed), device="cuda")
    for i in range(30):
        x = x * 1.0 + 1
    return x.tolist() == [seed + 30.0] * 257
work(0)
with ThreadPoolExecutor(4) as pool:
    answer = all(pool.map(work, range(16)))
""")
    assert answer is True


def test_a_plan_runs_on_the_device(machine):
    """Memory of a plan lies where its values do; branches and loops read their conditions there."""
    answer = machine.ask("""
def run(function, *examples):
    graph = crt.trace(function, example_inputs=examples)
    graph.graph.finalize()
    return lambda *given: graph.run(list(given))[0]

def step(x):
    y = crt.relu(x) * 2
    return y + x.to("cpu").to("cuda")
there = lambda *values: crt.tensor(values[0] if len(values) == 1 else list(values)).to("cuda")
out = run(step, there(-1.0, 2.0))(there(-3.0, 4.0))
answer = [str(out.device), out.tolist()]

def loop(x):
    return crt.graph.loop(3, None, lambda i, going, x: (going, x * 2), [x])[0]
out = run(loop, there(1.0, 2.0))(there(1.0, 5.0))
answer += [str(out.device), out.tolist()]

def choose(p, x):
    return crt.graph.cond(p, lambda x: x + 1, lambda x: x - 1, (x,))
branch = run(choose, there(True), there(1.0, 1.0))
answer += [branch(there(flag), there(1.0, 1.0)).tolist() for flag in (True, False)]
""")
    assert answer == ["cuda:0", [-3.0, 12.0], "cuda:0", [8.0, 40.0], [2.0, 2.0], [0.0, 0.0]]


def test_packed_weight_moves_as_bytes(machine):
    answer = machine.ask("""
import numpy as np
raw = bytes(range(36)) * 2
w = crt.Tensor.from_buffer(raw, (1, 128), crt.float32, scheme=3)
there = w.to("cuda")
answer = [there.bytes() == w.bytes(), str(there.device), there.cpu().bytes() == w.bytes()]
""")
    assert answer == [True, "cuda:0", True]


@pytest.mark.parametrize("name", ["cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuStreamCreate"])
def test_driver_that_fails_while_opening(machine, name):
    kind, code, text = machine.ask(f"""
fake.fake_fail(b"{name}", 0, 304)
answer = said(lambda: crt.zeros(2, device="cuda").tolist())
""")
    assert kind in ("InternalError", "OutOfMemoryError")
    assert "cuda:0" in text and code


def test_numpy_refuses_device_memory(machine):
    kind, _, text = machine.ask('answer = said(crt.ones(2, device="cuda").numpy)')
    assert kind == "TypeError" and ".to('cpu')" in text
    assert np.float32(1) == 1
