"""Plans as graphs of the device: recorded once per class, launched as a whole from then on.

The pretended driver records what is put on a stream and runs it at each launch, and spoils a
recording by what the real one does not record: memory, waiting, copies of ordinary memory."""

START = """
def finalized(function, *examples, **options):
    graph = crt.trace(function, example_inputs=examples, **options).graph
    graph.finalize()
    return graph
def there(values):
    return crt.tensor(values).to("cuda")
def counts(graph):
    stats = graph.stats()
    return stats["recordings"], stats["replays"]
def called(name):
    return fake.fake_calls(name.encode())
def step(x, y):
    z = crt.matmul(x, y)
    return crt.softmax(crt.relu(z) * 2 + x, -1)
"""


def test_a_class_is_recorded_once_and_gives_the_same_bits(machine):
    """Two runs are issued call by call, the third is recorded; then a run is one launch."""
    rows, launches, counted = machine.ask(
        START
        + """
x, y = there([[1.0, 2.0], [3.0, -4.0]]), there([[0.5, 1.0], [-1.0, 0.25]])
graph = finalized(step, x, y)
with crt.synchronous():
    want = graph.run([x, y])[0].tolist()
rows = []
for _ in range(6):
    before = called("cuLaunchKernelEx")
    same = graph.run([x, y])[0].tolist() == want
    rows.append([same, *counts(graph), called("cuLaunchKernelEx") - before > 0])
x.mul_(2.0)  # the same place, another value
with crt.synchronous():
    want = graph.run([x, y])[0].tolist()
rows.append([graph.run([x, y])[0].tolist() == want, *counts(graph)])
answer = [rows, [called("cuGraphLaunch"), called("cuGraphInstantiate")], fake.fake_graphs()]
"""
    )
    assert rows[:3] == [[True, 0, 0, True], [True, 0, 0, True], [True, 1, 1, True]]
    assert rows[3:6] == [[True, 1, 2, False], [True, 1, 3, False], [True, 1, 4, False]]
    assert rows[6] == [True, 1, 5]
    assert (launches, counted) == ([5, 1], 1)


def test_one_graph_per_class(machine):
    answer = machine.ask(
        START
        + """
spec = crt.TensorSpec("x", crt.float32, (-1, 3), dim_names=("rows", None))
graph = crt.trace(lambda given: [crt.softmax(given[0] * 2, -1)], [spec], output_names=["y"],
                  dim_bounds={"rows": (1, 64)}, device="cuda").graph
graph.finalize()
inputs = [there([[float(i + k) for k in range(3)] for i in range(n)]) for n in range(1, 21)]
answer = []
for n in (1, 5, 3):
    for _ in range(5):
        graph.run([inputs[n - 1]])
answer.append(counts(graph))
for given in inputs:               # more classes than are kept
    for _ in range(4):
        found = graph.run([given])[0]
    with crt.synchronous():
        assert graph.run([given])[0].tolist() == found.tolist()
del found
answer += [counts(graph)[0], fake.fake_graphs()]
del graph
import gc
gc.collect()
answer.append(fake.fake_graphs())
"""
    )
    assert answer == [[3, 9], 20, 16, 0]


def test_results_that_somebody_holds_do_not_change(machine):
    answer = machine.ask(
        START
        + """
x = there([1.0, 2.0])
graph = finalized(lambda x: crt.exp(x) + 1, x)
for _ in range(3):
    graph.run([x])
held = graph.run([x])[0]
want = held.tolist()
x.copy_(there([5.0, 6.0]))
other = graph.run([x])[0]
answer = [held.tolist() == want, other.tolist() != want, counts(graph)]
del held, other
graph.run([x])
answer.append(counts(graph))
"""
    )
    assert answer == [True, True, [1, 2], [1, 3]]


def test_other_places_are_issued(machine):
    """Inputs that lie elsewhere are served call by call, and recorded anew once they rest there;
    who changes places all the time is not recorded forever."""
    answer = machine.ask(
        START
        + """
places = [there([float(i), 2.0]) for i in range(40)]
graph = finalized(lambda x: crt.exp(x) + 1, places[0])
import math
right = True
for x in places:
    for _ in range(4):
        right = right and abs(graph.run([x])[0].tolist()[1] - (math.exp(2) + 1)) < 1e-5
answer = [right, counts(graph), fake.fake_graphs()]
"""
    )
    assert answer == [True, [8, 16], 1]


def test_state_is_written_in_place_by_every_launch(machine):
    answer = machine.ask(
        START
        + """
total = there([0.0, 0.0])
x = there([1.0, 2.0])
def add(x):
    total.add_(x)
    return total * 1.0
graph = finalized(add, x)
answer = [[graph.run([x])[0].tolist() for _ in range(6)], counts(graph), total.tolist()]
"""
    )
    assert answer == [[[n, 2.0 * n] for n in range(1, 7)], [1, 4], [6.0, 12.0]]


def test_scratch_belongs_to_the_graph(machine):
    """What kernels took as scratch is not given to tensors that are made between launches."""
    answer = machine.ask(
        START
        + """
import numpy as np
rng = np.random.default_rng(1)
x = crt.tensor(rng.normal(size=(300, 40)).astype(np.float32)).to("cuda")
graph = finalized(lambda x: [crt.sum(crt.exp(x)), crt.matmul(x.t(), x)], x)
with crt.synchronous():
    want = [one.tolist() for one in graph.run([x])]
for _ in range(4):
    graph.run([x])
kept = [crt.full((size,), 7.0, device="cuda") for size in (1, 4, 64, 256, 1024, 4096) * 4]
same = [one.tolist() for one in graph.run([x])] == want
answer = [same, all(set(one.tolist()) == {7.0} for one in kept), counts(graph)]
"""
    )
    assert answer == [True, True, [1, 3]]


def test_memory_goes_back(machine):
    before, after, graphs = machine.ask(
        START
        + """
import gc
x = there([[1.0, 2.0], [3.0, -4.0]])
x.tolist()
crt.empty_cache("cuda")
before = fake.fake_used(0)
graph = finalized(step, x, x)
for _ in range(5):
    graph.run([x, x])
del graph
gc.collect()
crt.cuda.synchronize()
crt.empty_cache("cuda")
answer = [before, fake.fake_used(0), fake.fake_graphs()]
"""
    )
    assert before == after
    assert graphs == 0


FAILURES = {
    "cuStreamBeginCapture": 2,
    "cuStreamEndCapture": 901,
    "cuGraphInstantiate": 2,
}


def test_a_recording_that_fails_is_no_error(machine):
    """Out of memory among others: the class is issued call by call from then on."""
    for name, result in FAILURES.items():
        answer = machine.ask(
            START
            + f"""
x = there([1.0, 2.0])
graph = finalized(lambda x: crt.exp(x) * 0 + 3, x)
graph.run([x]); graph.run([x])
fake.fake_fail(b"{name}", 1, {result})
answer = [[graph.run([x])[0].tolist() for _ in range(4)], counts(graph), fake.fake_graphs(),
          called("{name}")]
"""
        )
        assert answer == [[[3.0, 3.0]] * 4, [0, 0], 0, 1], name


def test_what_cannot_be_recorded_is_issued(machine):
    """A move to the host, a branch on a value of the device: such plans have no graph."""
    answer = machine.ask(
        START
        + """
x = there([1.0, 2.0])
moves = finalized(lambda x: crt.exp(x.to("cpu").to("cuda")) * 0, x)
branches = finalized(lambda p, x: crt.graph.cond(p, lambda x: x + 1, lambda x: x - 1, (x,)),
                     there(True), x)
flag = there(True)
answer = []
for _ in range(4):
    answer.append([moves.run([x])[0].tolist(), branches.run([flag, x])[0].tolist()])
answer = [answer, counts(moves), counts(branches), called("cuStreamBeginCapture")]
"""
    )
    assert answer == [[[[0.0, 0.0], [2.0, 3.0]]] * 4, [0, 0], [0, 0], 0]


def test_a_fault_inside_a_graph_names_its_operators(machine):
    text, again = machine.ask(
        START
        + """
x = there([1.0, 2.0])
graph = finalized(lambda x: crt.exp(crt.relu(x) * 2), x)
for _ in range(4):
    graph.run([x])[0].tolist()
fake.fake_fail(b"kernel", 2, 700)
y = graph.run([x])[0]
answer = [said(y.tolist)[2], said(lambda: graph.run([x]))[1]]
"""
    )
    assert text.startswith("a graph of relu, mul, exp failed with CUDA_ERROR_ILLEGAL_ADDRESS")
    assert again == "BACKEND_UNAVAILABLE"


def test_synchronous_runs_name_the_operator_of_a_fault(machine):
    text = machine.ask(
        START
        + """
x = there([1.0, 2.0])
graph = finalized(lambda x: crt.exp(crt.relu(x) * 2), x)
for _ in range(4):
    graph.run([x])[0].tolist()
fake.fake_fail(b"kernel", 2, 700)
with crt.synchronous():
    answer = said(lambda: graph.run([x]))[2]
"""
    )
    assert text.startswith("mul failed with CUDA_ERROR_ILLEGAL_ADDRESS")


def test_values_that_a_kernel_refuses_inside_a_graph(machine):
    answer = machine.ask(
        START
        + """
x, y = there([4, 6]), there([2, 3])
graph = finalized(lambda x, y: (x // y) + 1, x, y)
for _ in range(4):
    graph.run([x, y])
y.copy_(there([2, 0]))
failure = said(lambda: graph.run([x, y])[0].tolist())
y.copy_(there([4, 6]))
answer = [failure[2], graph.run([x, y])[0].tolist(), counts(graph)]
"""
    )
    assert answer[0].startswith("floor_divide: integer division by zero")
    assert answer[1:] == [[2, 2], [1, 4]]


def test_other_threads_are_no_part_of_a_recording(machine):
    answer = machine.ask(
        START
        + """
import threading
x = there([1.0, 2.0])
graphs = [finalized(lambda x, k=k: crt.exp(x) * 0 + float(k), x) for k in range(6)]
stop, begun = threading.Event(), threading.Event()
right = []
y = there([1.0])
(y + 1).tolist()
def others():
    begun.set()
    while not stop.is_set():
        right.append((y + 1).tolist() == [2.0])
thread = threading.Thread(target=others)
thread.start()
begun.wait()
got = [[graph.run([x])[0].tolist() for _ in range(6)] for graph in graphs]
stop.set()
thread.join()
answer = [got == [[[float(k)] * 2] * 6 for k in range(6)], all(right), len(right) > 0,
          [list(counts(graph)) for graph in graphs]]
"""
    )
    assert answer == [True, True, True, [[1, 4]] * 6]


def test_attention_over_splits_is_recorded_as_it_runs(machine):
    """What the splits of a long text leave is joined in the same launch, recorded or not: the
    counters that this takes are in order where graphs are launched."""
    answer = machine.ask(
        START
        + """
import numpy as np
rng = np.random.default_rng(3)
draw = lambda *shape: there(rng.normal(size=shape).astype(np.float32))
keys, values, q = draw(16, 64, 2, 32), draw(16, 64, 2, 32), draw(1, 4, 32)
table = there(np.arange(16, dtype=np.int32)[None])
cu, lens = there(np.array([0, 1], np.int32)), there(np.array([900], np.int32))
def attend(q, table, cu, lens):
    return crt.paged_attention(q, keys, values, table, cu, lens, causal=True, scale=0.3)
graph = finalized(attend, q, table, cu, lens)
answer = []
for length in (900, 1000, 70):
    lens.copy_(there(np.array([length], np.int32)))
    for _ in range(4):
        before = called("cuLaunchKernelEx")
        found = graph.run([q, table, cu, lens])[0].bytes()
        launched = called("cuLaunchKernelEx") - before
    with crt.synchronous():
        answer.append([found == graph.run([q, table, cu, lens])[0].bytes(), launched])
answer.append(counts(graph))
"""
    )
    assert answer == [[True, 0]] * 3 + [[1, 10]]
