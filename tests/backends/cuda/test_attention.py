"""Attention and caches on the kernels themselves, compiled for the host."""

import pytest

CASES = """
from clika_runtime.testing import run_cases
answer = [[str(o.case), o.status, o.reason] for planned in (False, True)
          for o in run_cases("cuda", ops=[NAME], planned=planned).outcomes if o.status != "passed"]
"""


@pytest.mark.parametrize(
    "name", ["kv_append", "rotary_append", "paged_attention", "scaled_dot_product_attention"]
)
def test_cases(machine, name):
    assert machine.ask(CASES.replace("NAME", repr(name))) == []


# Queries, keys and values are rounded before the reference sees them. Weights are rounded to the
# operands' dtype before they meet the values, sums are float32, the result is rounded: at most half
# an eps of the sum of weight * |value|, and half an eps of the result; the rest is for float32.
SETTING = """
import numpy as np
from clika_runtime.testing import _kit
_kit._load()
reference = _kit.OPERATORS["paged_attention"].reference
EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-20}
def on(values, dtype):
    return crt.tensor(np.ascontiguousarray(values)).to("cuda").to(getattr(crt, dtype))
def setting(seed, new, lengths, heads=(4, 2), sizes=(64, 64), page=16, dtype="bfloat16", extra=0):
    rng = np.random.default_rng(seed)
    per = [-(-n // page) for n in lengths]
    order = rng.permutation(sum(per) + 3)
    table = np.full((len(new), max([*per, 1]) + extra), -1)  # what is not used names no block
    used = 0
    for b, n in enumerate(per):
        table[b, :n] = order[used : used + n]
        used += n
    shapes = [(sum(new), heads[0], sizes[0]), (len(order), page, heads[1], sizes[0]),
              (len(order), page, heads[1], sizes[1])]
    drawn = [rng.normal(size=s) * f for s, f in zip(shapes, (1.5, 1, 1))]
    rounded = [_kit.round_to(x, dtype).astype(np.float64) for x in drawn]
    ints = [table, np.cumsum([0, *new]), np.array(lengths)]
    there = [on(v.astype(np.float32), dtype) for v in rounded]
    there += [on(v.astype(np.int32), "int32") for v in ints]
    return rounded + ints, there, rng
def error(given, there, dtype, sinks=None, causal=True, window=0, scale=0.125, softcap=0.0):
    other = None if sinks is None else on(sinks.astype(np.float32), "float32")
    arguments = (causal, window, "exact")
    got = crt.paged_attention(*there, other, *arguments, scale=scale, softcap=softcap)
    got = got.cpu().to(crt.float32).numpy()
    want = reference(*given, sinks, *arguments, scale, softcap)
    positive = [*given[:2], np.abs(given[2]), *given[3:]]
    sizes = reference(*positive, sinks, *arguments, scale, softcap)
    bound = EPS[dtype] / 2 * (sizes + np.abs(want)) + 2e-6
    return float(np.max(np.abs(got - want) / bound, initial=0))
"""
# Sequences' new tokens, their lengths, and what else is unlike the setting.
CALLS = {
    "splits": ([1, 1, 1], [700, 128, 129], {}, {}),
    "splits-float16": ([1, 1], [1030, 255], {"dtype": "float16", "sizes": (128, 128)}, {}),
    "table-wider-than-needed": ([1, 1], [140, 3], {"extra": 40}, {}),
    "one-head-each": ([1, 1], [300, 77], {"heads": (3, 3)}, {}),
    "group-of-7": ([1, 1], [260, 40], {"heads": (14, 2), "dtype": "float16"}, {}),
    "group-of-8": ([1] * 5, [5, 300, 64, 65, 1], {"heads": (16, 2), "sizes": (128, 128)}, {}),
    "group-of-12": ([1, 1], [200, 20], {"heads": (12, 1), "dtype": "float16"}, {}),
    "group-of-40": ([1, 1], [200, 20], {"heads": (40, 1), "dtype": "float16"}, {}),
    "size-256": ([1, 1], [200, 33], {"sizes": (256, 256), "dtype": "float16"}, {}),
    "size-96": ([1, 1], [200, 33], {"sizes": (96, 96)}, {}),
    "sizes-80-and-136": ([1, 1], [200, 33], {"sizes": (80, 136), "dtype": "float16"}, {}),
    "pages-of-7": ([1, 1], [200, 33], {"page": 7, "dtype": "float16"}, {}),
    "window": ([1, 1, 1], [700, 150, 20], {"dtype": "float16"}, {"window": 140}),
    "window-at-a-border": ([1], [513], {"dtype": "float16"}, {"window": 257}),
    "softcap": ([1, 1], [300, 20], {}, {"softcap": 6.0, "scale": 0.5}),
    "sinks": ([1, 1], [300, 20], {"dtype": "float16"}, {"sinks": True}),
    "scale-below-0": ([1, 1], [300, 20], {"dtype": "float16"}, {"scale": -0.25}),
    "no-scale": ([1, 1], [300, 20], {"dtype": "float16"}, {"scale": 0.0}),
    "not-causal": ([1, 1], [300, 20], {}, {"causal": False}),
    # As many tokens as sequences, of which some have none and some have more.
    "uneven": ([0, 3, 1, 0], [0, 140, 9, 5], {"dtype": "float16"}, {}),
    "float32": ([1, 1], [300, 20], {"dtype": "float32"}, {"window": 250, "sinks": True}),
    "many": ([1] * 131, [n % 40 + 1 for n in range(131)], {"heads": (2, 1)}, {}),
    "prefill": ([150, 3], [150, 3], {}, {}),
    "prefill-float16": ([130], [130], {"dtype": "float16", "sizes": (128, 128)}, {}),
    "prefill-after": ([70, 1, 0, 9], [300, 50, 30, 9], {"dtype": "float16"}, {}),
    "prefill-group-of-7": ([40, 5], [90, 5], {"heads": (14, 2), "dtype": "float16"}, {}),
    "prefill-size-256": ([40], [75], {"sizes": (256, 256), "dtype": "float16"}, {}),
    "prefill-sizes-80-and-136": ([40], [75], {"sizes": (80, 136), "dtype": "float16"}, {}),
    "prefill-window": ([70, 9], [330, 9], {"dtype": "float16"}, {"window": 33}),
    "prefill-softcap": ([40], [75], {}, {"softcap": 6.0, "scale": 0.5}),
    "prefill-sinks": ([40, 2], [75, 2], {"dtype": "float16"}, {"sinks": True}),
    "prefill-scale-below-0": ([40], [75], {"dtype": "float16"}, {"scale": -0.25}),
    "prefill-no-scale": ([40], [75], {"dtype": "float16"}, {"scale": 0.0}),
    "prefill-not-causal": ([40, 20], [75, 200], {"dtype": "float16"}, {"causal": False}),
    "prefill-group-of-130": ([3], [20], {"heads": (130, 1), "dtype": "float16"}, {}),
    "prefill-pages-of-7": ([40], [75], {"page": 7, "dtype": "float16"}, {}),
    "prefill-many": ([1, 0, 2] * 100, [5, 1, 2] * 100, {"heads": (2, 1)}, {}),
    "prefill-float32": ([20, 3], [75, 3], {"dtype": "float32"}, {"window": 33, "sinks": True}),
}


@pytest.mark.parametrize("name", CALLS)
def test_against_the_reference(machine, name):
    new, lengths, given, asked = CALLS[name]
    dtype = given.get("dtype", "bfloat16")
    worst = machine.ask(f"""{SETTING}
given, there, rng = setting(3, {new}, {lengths}, **{given})
asked = {asked}
if asked.get("sinks"):
    asked["sinks"] = rng.normal(size={given.get("heads", (4, 2))[0]}) * 2
answer = error(given, there, {dtype!r}, **asked)
""")
    assert worst <= 1


def test_long_calls_repeat_and_do_not_depend_on_neighbours(machine):
    """The bits of a sequence are the same in every run and in every batch."""
    answer = machine.ask(f"""{SETTING}
given, there, _ = setting(5, [1, 1, 1], [700, 300, 20])
def run(*operands):
    return crt.paged_attention(*operands, scale=0.125)
first = run(*there)
answer = [run(*there).bytes() == first.bytes() for _ in range(3)]
before = fake.fake_launches().decode().count("attention_join")
for b, length in enumerate([700, 300, 20]):
    alone = [there[0][b : b + 1], *there[1:3], there[3][b : b + 1], on([0, 1], "int32"),
             on([length], "int32")]
    answer.append(run(*alone).bytes() == first[b : b + 1].bytes())
crt.cuda.synchronize()
answer.append(before)
""")
    assert answer == [True] * 6 + [0]


def test_more_units_than_can_be_counted(machine):
    """A kernel of its own joins the splits of what has too many tokens and heads."""
    answer = machine.ask(f"""{SETTING}
lengths = [300] + [1] * 128
given, there, _ = setting(5, [1] * 129, lengths, heads=(128, 128), sizes=(4, 4), dtype="float32")
answer = [error(given, there, "float32") <= 1, fake.fake_launches().decode().split()[-1]]
""")
    assert answer == [True, "attention_join"]


def test_a_table_that_names_no_block_is_reported(machine):
    answer = machine.ask(f"""{SETTING}
answer = []
for new in ([1, 1], [5, 1]):
    for dtype in ("bfloat16", "float32"):
        given, there, _ = setting(5, new, [40, 20], dtype=dtype)
        there[3] = on(np.where(given[3] < 0, 0, given[3]) + [[0, 1000, 0]], "int32")
        answer.append(said(crt.paged_attention(*there, scale=1.0).tolist)[2])
given, there, _ = setting(5, [1, 1], [40, 20])
there[5] = on([40, 20000], "int32")
answer.append(said(crt.paged_attention(*there, scale=1.0).tolist)[2])
there[5] = on([40, 20], "int32")
answer.append(said(crt.paged_attention(*there, scale=1.0).tolist))
""")
    assert all(
        "paged_attention: index" in text and "is outside 0 .. 7" in text for text in answer[:4]
    ), answer
    assert answer[4:] == ["paged_attention: index 20000 is outside 0 .. 48", []]


def test_slots_outside_are_reported_and_nothing_is_written_there(machine):
    answer = machine.ask("""
answer = []
for dtype in ("float32", "bfloat16"):
    pool = crt.zeros(2, 2, 1, 4, device="cuda")
    slots = crt.tensor([1, 4, -1]).to(crt.int32).to("cuda")
    value = crt.ones(3, 1, 4, dtype=getattr(crt, dtype), device="cuda")
    answer.append(said(crt.kv_append(pool, value, slots).tolist)[2])
    answer.append(pool.reshape(4, 4)[:, 0].tolist())
""")
    assert answer == ["kv_append: index 4 is outside 0 .. 3", [0.0, 1.0, 0.0, 0.0]] * 2

    answer = machine.ask("""
answer = []
for size in (8, 6):  # 16 bytes at a time, and element by element
    rows = [crt.ones(3, 1, size, device="cuda") for _ in range(3)]
    pools = [crt.zeros(2, 2, 1, size, device="cuda") for _ in range(2)]
    slots = crt.tensor([1, 4, -1]).to(crt.int32).to("cuda")
    turn = crt.tensor([0, 0, 0]).to("cuda"), crt.ones(1 if size == 6 else 4).to("cuda")
    turned, _, _ = crt.rotary_append(*rows, *turn, *pools, slots)
    answer.append(said(turned.tolist)[2])
    answer.append([pool.reshape(4, size)[:, 0].tolist() for pool in pools])
    answer.append(turned.tolist() == rows[0].tolist())
pools[1] = pools[0]
answer.append(said(crt.rotary_append(*rows, *turn, *pools, slots)[0].tolist)[2])
""")
    written = [[0.0, 1.0, 0.0, 0.0]] * 2
    outside = "rotary_append: index 4 is outside 0 .. 3"
    assert answer[:6] == [outside, written, True] * 2
    assert "key_pool and value_pool are the same bytes" in answer[6]


# As blocks: heads and batch with strides, grouped and broadcast; else row by row.
SCALED = """
import numpy as np
rng = np.random.default_rng(2)
reference = None
from clika_runtime.testing import _kit
_kit._load()
reference = _kit.OPERATORS["scaled_dot_product_attention"].reference
def run(q, k, v, dtype="float16", causal=False, grouped=False, turned=False,
        softcap=0.0, kernel=True):
    rounded = [_kit.round_to(rng.normal(size=s), dtype).astype(np.float64) for s in (q, k, v)]
    there = []
    for x in rounded:
        y = np.ascontiguousarray(x.swapaxes(-3, -2) if turned else x, np.float32)
        y = crt.tensor(y).to("cuda").to(getattr(crt, dtype))
        there.append(crt.transpose(y, -3, -2) if turned else y)
    attend = crt.scaled_dot_product_attention
    got = attend(*there, None, 0.0, causal, None, grouped, softcap=softcap)
    got = got.cpu().to(crt.float32).numpy()
    arguments = (None, 0.0, causal, None, grouped, softcap)
    want = reference(*rounded, *arguments)
    sizes = reference(*rounded[:2], np.abs(rounded[2]), *arguments)
    half = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    ran = fake.fake_launches().decode().split()[-1]
    close = np.abs(got - want) <= half * (sizes + np.abs(want)) + 2e-6
    return [bool(close.all()), ran == ("attention_prefill" if kernel else "attention_rows")]
"""


def test_scaled_attention(machine):
    answer = machine.ask(
        SCALED
        + """
answer = [
    run((2, 3, 40, 64), (2, 3, 70, 64), (2, 3, 70, 64)),
    run((2, 3, 150, 64), (2, 3, 150, 64), (2, 3, 150, 64), "bfloat16", causal=True),
    run((2, 3, 40, 64), (2, 3, 30, 64), (2, 3, 30, 128), causal=True, turned=True),
    run((2, 8, 40, 128), (2, 2, 70, 128), (2, 2, 70, 128), causal=True, grouped=True),
    run((8, 20, 80), (1, 70, 80), (1, 70, 80), softcap=2.0),
    run((20, 32), (70, 32), (70, 32)),
    run((1, 3, 20, 72), (2, 1, 70, 72), (2, 3, 70, 72)),
    run((1, 3, 20, 36), (2, 1, 70, 36), (2, 3, 70, 36), kernel=False),
]
"""
    )
    assert answer == [[True, True]] * 8
