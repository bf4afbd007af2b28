"""The operator cases on the kernels themselves, compiled for the host.

Each run takes a part of the operators, and every fourth of them as plans too."""

import pytest

PARTS = 12
RUN = """
from clika_runtime.testing import _kit, run_cases
from clika_runtime_cuda import _backend
_kit._load()
names = sorted(set(_backend.operators()) & set(_kit.OPERATORS))
answer = []
for i, name in enumerate(names[PART::PARTS]):
    for planned in (False, True)[: 1 + (i % 4 == 0)]:
        for outcome in run_cases("cuda", ops=[name], planned=planned).outcomes:
            if outcome.status != "passed":
                answer.append([name, outcome.status, outcome.reason])
"""
# Of plans: results whose shape depends on values cannot be recorded, on any backend. Nothing else
# is refused.
OF_VALUES = "a recording has no values"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_cases(machine, part):
    answer = machine.ask(RUN.replace("PARTS", str(PARTS)).replace("PART", str(part)))
    wrong = [row for row in answer if row[1] != "refused" or OF_VALUES not in row[2]]
    assert wrong == []


def test_every_operator_with_a_kernel_has_cases(machine):
    missing = machine.ask("""
from clika_runtime.testing import _kit
from clika_runtime_cuda import _backend
_kit._load()
answer = sorted(set(_backend.operators()) - set(_kit.OPERATORS))
""")
    assert missing == []


def test_folds_that_several_blocks_share(machine):
    """Sums over more elements than a block takes, along either dim; the same bits in every run."""
    answer = machine.ask("""
import numpy as np
rng = np.random.default_rng(7)
answer = []
for shape, dim in (((70001,), None), ((3, 40000), 1), ((40000, 3), 0), ((40, 2, 5000), (0, 2))):
    values = rng.normal(size=shape).astype(np.float32)
    there = crt.tensor(values).to("cuda")
    axis = dim
    for name, want in (("sum", values.sum(axis, dtype=np.float64)),
                       ("var", values.var(axis, ddof=1, dtype=np.float64)),
                       ("amax", values.max(axis)), ("prod", np.float64(0))):
        if name == "prod":
            got = crt.argmax(there.reshape(-1)).item()
            answer.append(got == int(values.reshape(-1).argmax()))
            continue
        fold = getattr(crt, name)
        got, again = [fold(there) if dim is None else fold(there, dim) for _ in range(2)]
        close = np.allclose(got.cpu().numpy(), want, rtol=2e-6, atol=1e-5)
        answer.append(bool(close))
        answer.append(got.bytes() == again.bytes())
""")
    assert all(answer)


def test_long_lines(machine):
    """Rows beyond what one pass of a block covers: softmax and norms against NumPy."""
    answer = machine.ask("""
import numpy as np
rng = np.random.default_rng(3)
x = rng.normal(size=(2, 9000)).astype(np.float32) * 4
there = crt.tensor(x).to("cuda")
e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
soft = crt.softmax(there, -1).cpu().numpy()
rms = crt.rms_norm(there, (9000,)).cpu().numpy()
want = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 2.0**-23)
answer = [bool(np.allclose(soft, e / e.sum(1, keepdims=True), rtol=1e-5, atol=0)),
          bool(np.allclose(rms, want, rtol=1e-5, atol=1e-6))]
""")
    assert answer == [True, True]


# Dtype, elements of a row, dtype of the weight. The pretended GPU has few multiprocessors, so 40
# rows are many: 1, 2 and 4 pieces a thread, a warp's and a block's rows, and rows of neither.
NORMS = [
    ("bfloat16", 896, "bfloat16"),
    ("bfloat16", 128, "bfloat16"),
    ("bfloat16", 512, "float32"),
    ("float16", 1344, "float16"),
    ("float16", 4096, "float32"),
    ("float32", 256, "float32"),
    ("float32", 1000, "float16"),
    ("float32", 2052, None),
    ("bfloat16", 9000, "bfloat16"),
    ("bfloat16", 301, "bfloat16"),
]


@pytest.mark.parametrize(("dtype", "size", "weight"), NORMS)
def test_norms_of_few_and_many_rows(machine, dtype, size, weight):
    """Against NumPy, and a row has the same bits among few rows and many."""
    answer = machine.ask(f"""
import numpy as np
dtype, size, weight = {dtype!r}, {size}, {weight!r}
rng = np.random.default_rng(size)
def draw(kind, *shape):
    there = crt.tensor(rng.normal(size=shape).astype(np.float32)).to(getattr(crt, kind))
    return there.to("cuda"), there.to(crt.float32).numpy().astype(np.float64)
x, x_values = draw(dtype, 40, size)
y, y_values = draw(dtype, 40, size)
w, w_values = draw(weight, size) if weight else (None, 1.0)
def norm(x):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * (w_values + 0.5 if weight else 1.0)
def values(x):
    return x.to("cpu").to(crt.float32).numpy().astype(np.float64)
def near(got, want):
    eps = {{"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-20}}[dtype]
    return bool((np.abs(values(got) - want) <= eps * np.abs(want) * 1.01 + 1e-7).all())
more = {{"eps": 1e-5, "offset": 0.5 if weight else 0.0}}
got = crt.rms_norm(x, (size,), w, **more)
normed, total = crt.add_rms_norm(x, y, weight=w, **more)
answer = [near(got, norm(x_values)), near(total, x_values + y_values),
          near(normed, norm(values(total)))]
few, (few_normed, few_total) = (
    crt.rms_norm(x[:3], (size,), w, **more), crt.add_rms_norm(x[:3], y[:3], weight=w, **more))
for some, every in ((few, got), (few_normed, normed), (few_total, total)):
    answer.append(some.bytes() == every[:3].contiguous().bytes())
""")
    assert answer == [True] * 6


PRODUCTS = """
import numpy as np
rng = np.random.default_rng(5)
def draw(*shape):
    return rng.normal(size=shape).astype(np.float32)
pairs = [(draw(5, 7), draw(7, 3)), (draw(7), draw(7, 3)), (draw(5, 7), draw(7)),
         (draw(7), draw(7)), (draw(7, 5).T, draw(3, 7).T), (draw(2, 4, 5, 7), draw(4, 7, 3)),
         (draw(6, 5, 7), draw(7, 3)), (draw(2, 3, 5, 7).swapaxes(0, 1), draw(3, 1, 7, 4)),
         (draw(1, 7), draw(7, 1)), (draw(3, 5, 1), draw(3, 1, 4)),
         (draw(5, 14)[:, ::2], draw(7, 3)), (draw(40, 70), draw(70, 35))]
def on_device(x):
    base = x
    while base.base is not None:
        base = base.base
    there = crt.tensor(np.ascontiguousarray(base)).to("cuda")
    steps = [s // 4 for s in x.strides]
    return there.as_strided(x.shape, steps)
answer = []
for left, right in pairs:
    got = crt.matmul(on_device(left), on_device(right)).cpu()
    want = left.astype(np.float64) @ right.astype(np.float64)
    close = np.allclose(got.tolist(), want, rtol=1e-5, atol=1e-5)
    answer.append(got.shape == want.shape and bool(close))
"""


def test_products_through_the_library(machine):
    """Every arrangement of strides and batches is told to the library as it is."""
    right, served = machine.ask(
        PRODUCTS
        + """
lt = ctypes.CDLL(os.environ["CLIKA_RT_CUDA_CUBLASLT"])
answer = [answer, lt.fake_products() >= len(pairs) - 1]
"""
    )
    assert all(right) and served


def test_products_without_the_library(machine, tmp_path):
    right = machine.ask(PRODUCTS, CLIKA_RT_CUDA_CUBLASLT=str(tmp_path / "none.so"))
    assert all(right)


def test_index_outside_is_reported_and_harms_nothing(machine):
    answer = machine.ask("""
table = crt.tensor([[1.0, 2.0], [3.0, 4.0]]).to("cuda")
ids = crt.tensor([0, 5], device="cuda")
rows = crt.embedding(table, ids)
answer = [said(rows.tolist)[2], crt.embedding(table, crt.tensor([1], device="cuda")).tolist(),
          said(crt.gather(table, 0, crt.tensor([[7, 0]], device="cuda")).tolist)[2],
          said(table[crt.tensor([2], device="cuda")].tolist)[2]]
""")
    assert answer == [
        "embedding: index 5 is outside 0 .. 1",
        [[3.0, 4.0]],
        "gather: index 7 is outside 0 .. 1",
        "index: index 2 is outside 0 .. 1",
    ]


def test_last_of_equal_indices_stays(machine):
    answer = machine.ask("""
x = crt.zeros(3, device="cuda")
x[crt.tensor([1, 1, 1, 0], device="cuda")] = crt.tensor([1.0, 2.0, 3.0, 4.0]).to("cuda")
mask = crt.tensor([True, False, True], device="cuda")
y = x[mask]
x[mask] = 9.0
answer = [y.tolist(), x.tolist()]
""")
    assert answer == [[4.0, 0.0], [9.0, 3.0, 9.0]]


def test_a_number_is_written_to_the_places(machine):
    """A number lies in memory of the host, which no kernel may read: it rides in the launch."""
    answer = machine.ask("""
answer = []
for dtype in ("float32", "bfloat16", "int64", "int8", "bool"):
    x = crt.zeros(2, 3, dtype=getattr(crt, dtype), device="cuda")
    x[crt.tensor([1], device="cuda"), crt.tensor([0, 2], device="cuda")] = 1
    answer.append([[int(v) for v in row] for row in x.tolist()])
""")
    assert answer == [[[0, 0, 0], [1, 0, 1]]] * 5


def test_the_driver_refuses_memory_of_the_host(machine):
    """The pretended driver faults as a GPU does: on addresses of the host."""
    answer = machine.ask("""
import numpy as np
class Pretended:  # says that its memory is the device's
    def __init__(self):
        self.memory = np.ones(1 << 16, np.float32)
        self.device = crt.zeros(1, device="cuda")
    def __dlpack_device__(self):
        return (2, 0)
    def __dlpack__(self, **_):
        capsule = self.device.__dlpack__()
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        at = get(capsule, name(capsule))
        ctypes.c_void_p.from_address(at).value = self.memory.ctypes.data
        return capsule
given = Pretended()
wrong = crt.from_dlpack(given)
crt.cuda.synchronize()
answer = said((wrong + 1).tolist)
""")
    assert answer[0] == "InternalError"
    assert "add failed with CUDA_ERROR_ILLEGAL_ADDRESS" in answer[2]


def test_what_has_no_kernel_is_refused(machine):
    kind, code, text = machine.ask('answer = said(crt.det, crt.eye(2, device="cuda"))')
    assert (kind, code) == ("UnsupportedError", "NOT_IMPLEMENTED")
    assert "not served on cuda:0" in text
