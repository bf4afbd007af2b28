"""Caches in every form of rows: written as their format says, and read exactly, so that attention
over them gives the bits of attention over the float32 numbers that they stand for."""

import gguf
import numpy as np
import pytest
import torch
from harness import KernelError, Kernels, usable_levels
from test_attention_bits import Case, pieces, same_bits

from clika_runtime.testing._numpy import q8_0_rows, q8_0_values

FORMS = ["bfloat16", "float16", "fp8", "q8_0"]
FLOATS = {"bfloat16": torch.bfloat16, "float16": torch.float16, "fp8": torch.float8_e4m3fn}


@pytest.fixture(params=usable_levels(), scope="module")
def level(request):
    return request.param


def encoded(rows, form):
    if form == "q8_0":
        return torch.from_numpy(q8_0_rows(rows.numpy()))
    return rows.to(FLOATS[form])


def decoded(rows, form):
    if form == "q8_0":
        return torch.from_numpy(q8_0_values(rows.numpy())).float()
    return rows.float()


class Plain(Case):
    """A case whose keys and values are numbers that a form of rows holds."""

    def __init__(self, form, *given, **more):
        super().__init__(*given, **more)
        self.form = form
        self.k = [decoded(encoded(rows, form), form) for rows in self.k]
        self.v = [decoded(encoded(rows, form), form) for rows in self.v]


class Held(Plain):
    """The same with pools in that form; what no token wrote is NaN."""

    def pools(self, page=None):
        keys, values, table = super().pools(page)
        return encoded(keys, self.form), encoded(values, self.form), table


OPTIONS = [
    {},
    {"window": 7},
    {"window": 100, "softcap": 4.0},
    {"causal": False, "window": 50},
    {"window": 90, "softcap": 5.0, "sinks": torch.linspace(-3, 6, 6)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_the_bits_of_the_numbers_held(level, form, options):
    lengths = [1, 70, 200]
    cpu = Kernels(level)
    want = Plain(form, lengths).whole(cpu, **options)
    held = Held(form, lengths)
    assert same_bits(held.whole(cpu, **options), want)
    steps = [[(n - 1, n) for n in lengths]]
    decoding = held.run(cpu, steps, **options)
    if options.get("causal", True):
        assert same_bits([rows[-1] for rows in decoding], [rows[-1] for rows in want])
    for b in range(3):
        torch.testing.assert_close(
            want[b].double(), held.reference(b, **options), rtol=2e-5, atol=2e-6
        )


@pytest.mark.parametrize("form", ["fp8", "q8_0"])
@pytest.mark.parametrize("shape", [(1, 1, 32, 32), (2, 4, 96, 160), (1, 7, 256, 64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_head_sizes(level, form, shape, dtype):
    heads, group, size, value_size = shape
    given = [5, 67], heads, group, size, value_size
    cpu = Kernels(level, threads=2)
    want = Plain(form, *given, dtype=dtype).whole(cpu)
    assert same_bits(Held(form, *given, dtype=dtype).whole(cpu), want)


@pytest.mark.parametrize("size, value_size", [(80, 80), (20, 12), (1, 3)])
def test_odd_head_sizes_of_float8(level, size, value_size):
    given = [5, 67], 3, 2, size, value_size
    cpu = Kernels(level)
    assert same_bits(Held("fp8", *given).whole(cpu), Plain("fp8", *given).whole(cpu))


@pytest.mark.parametrize("form", ["fp8", "q8_0"])
def test_chunks_pages_and_threads_change_no_bit(level, form):
    case = Held(form, [203, 40], heads=1)
    cpu = Kernels(level)
    whole = case.whole(cpu, window=90)
    for chunk in (1, 5, 64):
        steps = [[part, None] for part in pieces(203, chunk)]
        assert same_bits(case.run(cpu, steps, window=90)[:1], whole[:1])
    for page in (1, 3, 64):
        assert same_bits(case.whole(cpu, page=page, window=90), whole)
    assert same_bits(case.whole(Kernels(level, threads=3), window=90), whole)


@pytest.mark.parametrize("form", ["fp8", "q8_0"])
def test_every_code_is_read(level, form):
    """One head whose values are each code in turn: the weight of the one key is 1."""
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    if form == "fp8":
        values, keys = codes.view(torch.float8_e4m3fn), torch.zeros(256).to(torch.float8_e4m3fn)
    else:
        blocks = np.zeros((8, 34), np.uint8)
        blocks[:, :2] = np.array([0.5, 6e-8, 65504, -2, 1e-3, 1, 0, np.nan], np.float16)[
            :, None
        ].view(np.uint8)
        blocks[:, 2:] = codes.numpy().reshape(8, 32)
        values, keys = torch.from_numpy(blocks.reshape(-1)), torch.zeros(8 * 34, dtype=torch.uint8)
    out = torch.zeros(1, 1, 256)
    counts = [torch.tensor(x, dtype=torch.int32) for x in ([[0]], [0, 1], [1])]
    pools = [keys.view(1, 1, 1, -1), values.view(1, 1, 1, -1)]
    Kernels(level)(
        "paged_attention",
        [torch.ones(1, 1, 256), *pools, *counts, None],
        [out],
        attrs=[True, 0],
        scalars=[1.0, 0.0],
    )
    want = decoded(values.view(1, -1), form)
    torch.testing.assert_close(out[0], want, rtol=0, atol=0, equal_nan=True)
    # As keys: the scores of 256 queries, each of which asks for one element. NaN would be in all.
    raw = values.view(torch.uint8).clone()
    raw[[127, 255] if form == "fp8" else slice(7 * 34, 8 * 34)] = 0
    keys = raw.view(values.dtype).view(1, 1, 1, -1)
    asked = torch.eye(256)[:, None]
    values = torch.cat([torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1)], 1)
    both = torch.cat([keys, torch.zeros_like(keys.view(torch.uint8)).view(keys.dtype)], 1)
    out = torch.zeros(256, 1, 1)
    counts = [torch.zeros(256, 1, dtype=torch.int32), torch.arange(257, dtype=torch.int32)]
    counts.append(torch.full((256,), 2, dtype=torch.int32))
    Kernels(level)(
        "paged_attention",
        [asked, both, values, *counts, None],
        [out],
        attrs=[True, 0],
        scalars=[1.0, 0.0],
    )
    score = decoded(keys.view(1, -1), form)[0].double()
    torch.testing.assert_close(out[:, 0, 0].double(), torch.sigmoid(-score), rtol=1e-5, atol=1e-7)


# ---------------------------------------------------------------- writing
def append(level, pool, value, slots):
    cpu = Kernels(level)
    cpu("kv_append", [pool, value, torch.tensor(slots, dtype=torch.int32)], [pool])
    return pool


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_q8_0_is_that_of_gguf(level, dtype):
    scale = torch.logspace(-6, 4, 7 * 3)[:, None].reshape(7, 3, 1)
    value = (torch.randn(7, 6, 64)[:, ::2] * scale).to(dtype)
    slots = [11, 0, 7, 3, 4, 5, 10]
    pool = append(level, torch.zeros(3, 4, 3, 68, dtype=torch.uint8), value, slots)
    want = gguf.quants.quantize(
        value.float().reshape(-1, 64).numpy(), gguf.GGMLQuantizationType.Q8_0
    )
    got = pool.view(12, 3, 68)[slots].reshape(-1, 68).numpy()
    assert (got == want).all()
    rest = [slot for slot in range(12) if slot not in slots]
    assert not pool.view(12, 3, 68)[rest].any()


def test_float8_is_that_of_torch_and_saturates(level):
    bits = torch.arange(0, 1 << 16, dtype=torch.int32).to(torch.int16)
    value = torch.cat([bits.view(torch.bfloat16).float(), bits.view(torch.float16).float()])
    value = value[torch.isfinite(value)]
    value = value[: len(value) // 16 * 16].view(-1, 1, 16)
    pool = torch.zeros(len(value), 1, 1, 16).to(torch.float8_e4m3fn)
    append(level, pool, value, list(range(len(value))))
    want = value.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    assert torch.equal(pool.view(torch.uint8).view(want.shape), want)
    odd = torch.tensor([float("inf"), -float("inf"), float("nan"), 1e30, -449.0]).view(1, 1, 5)
    pool = append(level, torch.zeros(1, 1, 1, 5).to(torch.float8_e4m3fn), odd, [0]).float()
    assert pool[0, 0, 0, [0, 1, 3, 4]].tolist() == [448, -448, 448, -448]
    assert pool[0, 0, 0, 2].isnan()


def test_odd_numbers_in_blocks(level):
    value = torch.randn(1, 5, 64)
    value[0, 0, 3] = float("nan")
    value[0, 1, 40] = float("inf")
    value[0, 2] = 0.0
    value[0, 3, 7] = 3e38
    value[0, 4] *= 1e-42
    pool = append(level, torch.zeros(1, 1, 5, 68, dtype=torch.uint8), value, [0])
    held = decoded(pool, "q8_0")[0, 0]
    assert held[0, :32].isnan().all() and held[0, 32:].isfinite().all()
    assert held[1, :32].isfinite().all() and held[1, 32:].isnan().all()
    assert (held[2] == 0).all() and (held[4] == 0).all()
    assert held[3, 7] == 127 * 65504 and held[3].isfinite().all()


@pytest.mark.parametrize("form", ["fp8", "q8_0"])
def test_rows_depend_on_themselves_alone(level, form):
    value = torch.randn(9, 4, 64)
    width = 68 if form == "q8_0" else 64
    dtype = torch.uint8 if form == "q8_0" else torch.float8_e4m3fn

    def empty():
        return torch.zeros(3, 4, 4, width, dtype=torch.uint8).view(dtype)

    whole = append(level, empty(), value, list(range(9)))
    single = empty()
    for t in (3, 8, 0, 1, 7, 2, 4, 6, 5):
        append(level, single, value[t : t + 1], [t])
    assert torch.equal(single.view(torch.uint8), whole.view(torch.uint8))


def test_bytes_that_do_not_lie_side_by_side_are_refused(level):
    wide = torch.zeros(1, 4, 1, 68, dtype=torch.uint8)
    with pytest.raises(KernelError, match="side by side"):
        append(level, wide[..., ::2], torch.zeros(1, 1, 32), [0])
    counts = [torch.tensor(x, dtype=torch.int32) for x in ([[0]], [0, 1], [1])]
    dense = torch.zeros(1, 4, 1, 32)
    for pools in ([wide[..., ::2], dense], [dense, wide[..., ::2]]):
        with pytest.raises(KernelError, match="side by side"):
            Kernels(level)(
                "paged_attention",
                [torch.zeros(1, 1, 32), *pools, *counts, None],
                [torch.zeros(1, 1, 32)],
                attrs=[True, 0],
                scalars=[1.0, 0.0],
            )
