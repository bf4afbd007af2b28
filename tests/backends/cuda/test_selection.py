"""Tokens, orders and places beyond what a block takes at once, against the CPU and NumPy."""

TOKENS = """
import numpy as np
rng = np.random.default_rng(11)
rows, size = 4, 4501
logits = (rng.normal(size=(rows, size)) * 3).astype(np.float32)
logits[1, ::2] = -np.inf                       # as a constraint leaves them
logits[2] = np.round(logits[2])                # many equal ones
def column(values, dtype):
    return crt.tensor(values, dtype=getattr(crt, dtype))
given = [column([0.8, 1.0, 1.3, 0.0], "float32"), column([0.9, 1.0, 0.6, 1.0], "float32"),
         column([0.0, 0.05, 0.0, 0.0], "float32"), column([0, 40, 300, 0], "int32"),
         column(rng.integers(0, 2**40, rows).tolist(), "int64"), column([5, 6, 7, 8], "int64")]
more = [column([0.0, 2.0, 0.0, 0.0], "float32"), column([1.0, 0.9, 0.7, 1.0], "float32"),
        column([1.0, 0.0, 0.5, 0.0], "float32"), column([0.1, 1.0, 0.05, 1.0], "float32")]
answer = []
for extra in ([], more):
    for dtype in ("float32", "bfloat16"):
        x = crt.tensor(logits).to(getattr(crt, dtype))
        here = crt.sample(x, *given, *extra).tolist()
        there = [crt.sample(x.to("cuda"), *[c.to("cuda") for c in (*given, *extra)]).tolist()
                 for _ in range(2)]
        answer.append(here == there[0] == there[1])
"""


def test_the_same_tokens_as_on_the_cpu(machine):
    assert machine.ask(TOKENS) == [True] * 4


def test_orders_sums_and_places_of_several_blocks(machine):
    answer = machine.ask("""
import numpy as np
rng = np.random.default_rng(5)
x = rng.normal(size=(2, 5000)).astype(np.float32)
x[0, 7] = np.nan
there = crt.tensor(x).to("cuda")
values, indices = crt.sort(there, -1)
order = np.argsort(x, -1, kind="stable")
answer = [indices.tolist() == order.tolist()]
top = crt.topk(there, 3, -1)[1].tolist()
answer.append(top[1] == np.argsort(-x[1], kind="stable")[:3].tolist() and top[0][0] == 7)
sums = crt.cumsum(there[1], 0).cpu().numpy()
answer.append(bool(np.allclose(sums, np.cumsum(x[1], dtype=np.float64), rtol=1e-6, atol=1e-5)))
mask = x[1] > 1
answer.append(crt.nonzero(crt.tensor(mask).to("cuda")).tolist() == np.argwhere(mask).tolist())
picked = crt.masked_select(there[1], crt.tensor(mask).to("cuda")).tolist()
answer.append(picked == x[1][mask].tolist())
index = rng.integers(0, 50, 5000)
totals = [crt.index_add(crt.zeros(50, device="cuda"), 0, crt.tensor(index).to("cuda"), there[1])
          for _ in range(2)]
want = np.zeros(50, np.float32)
np.add.at(want, index, x[1])
answer.append(totals[0].tolist() == totals[1].tolist() == want.tolist())
whole = rng.integers(0, 700, 5000)
found, inverse, counts = crt.unique(crt.tensor(whole).to("cuda"), return_inverse=True,
                                    return_counts=True)
expected = np.unique(whole, return_inverse=True, return_counts=True)
answer.append([found.tolist(), inverse.tolist(), counts.tolist()] ==
              [part.tolist() for part in expected])
""")
    assert answer == [True] * 7


def test_random_numbers_are_those_of_the_cpu(machine):
    answer = machine.ask("""
answer = []
for draw in (lambda d: crt.rand(4000, seed=3, device=d),
             lambda d: crt.randint(-5, 2**40, (3000,), seed=4, device=d),
             lambda d: crt.randperm(3000, seed=5, device=d),
             lambda d: crt.bernoulli(crt.rand(500, seed=6, device=d), seed=7),
             lambda d: crt.multinomial(crt.rand(2, 300, seed=8, device=d), 20, seed=9),
             lambda d: crt.multinomial(crt.rand(2, 300, seed=8, device=d), 20, True, seed=9)):
    answer.append(draw("cpu").tolist() == draw("cuda").tolist())
""")
    assert answer == [True] * 6


def test_a_value_that_is_not_taken_is_reported(machine):
    answer = machine.ask("""
import math
chances = crt.tensor([0.5, 1.5]).to("cuda")
answer = [said(crt.bernoulli(chances, seed=1).tolist)[2],
          said(crt.bincount, crt.tensor([1, -2]).to("cuda"))[2],
          said(crt.index_add(crt.zeros(3, device="cuda"), 0, crt.tensor([5]).to("cuda"),
                             crt.ones(1, device="cuda")).tolist)[2],
          crt.bincount(crt.tensor([1, 1]).to("cuda")).tolist()]
""")
    assert answer[0].startswith("bernoulli: an operand holds a value")
    assert answer[1].startswith("bincount: input holds -2")
    assert answer[2] == "index_add: index 5 is outside 0 .. 2"
    assert answer[3] == [0, 2]
