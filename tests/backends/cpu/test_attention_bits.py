"""paged_attention: right against torch, and the same bits for every batch, chunk, page size and
split."""

import ctypes
import mmap
from pathlib import Path

import pytest
import torch
from harness import SERVER, KernelError, Kernels, usable_levels

import clika_runtime as crt

LEVELS = usable_levels()


@pytest.fixture(params=LEVELS, scope="module")
def level(request):
    return request.param


class Case:
    """Sequences of keys, values and queries for every position, and the pools that hold them."""

    def __init__(
        self,
        lengths,
        heads=2,
        group=3,
        size=64,
        value_size=None,
        page=16,
        dtype=torch.float32,
        pool=torch.float32,
        mode="exact",
        seed=0,
    ):
        g = torch.Generator().manual_seed(seed)
        self.lengths, self.heads, self.group, self.page = lengths, heads, group, page
        self.size, self.value_size, self.dtype, self.pool = size, value_size or size, dtype, pool
        self.mode = ("exact", "fast").index(mode)
        self.q, self.k, self.v = [], [], []
        for n in lengths:
            self.q.append(torch.randn(n, heads * group, size, generator=g).to(dtype))
            self.k.append(torch.randn(n, heads, size, generator=g).to(pool))
            self.v.append(torch.randn(n, heads, self.value_size, generator=g).to(pool))

    def pools(self, page=None):
        """Fill pages in a scattered order; what no token wrote is NaN."""
        page = page or self.page
        counts = [-(-n // page) for n in self.lengths]
        total = sum(counts) + 3
        order = torch.randperm(total, generator=torch.Generator().manual_seed(1)).tolist()
        keys = torch.full((total, page, self.heads, self.size), float("nan")).to(self.pool)
        values = torch.full((total, page, self.heads, self.value_size), float("nan")).to(self.pool)
        table = torch.full((len(counts), max(counts)), -1, dtype=torch.int32)
        for b, n in enumerate(self.lengths):
            for i in range(counts[b]):
                block = order.pop()
                table[b, i] = block
                part = slice(i * page, min(n, (i + 1) * page))
                keys[block, : part.stop - part.start] = self.k[b][part]
                values[block, : part.stop - part.start] = self.v[b][part]
        return keys, values, table

    def run(
        self, cpu, chunks, page=None, causal=True, window=0, scale=0.125, softcap=0.0, sinks=None
    ):
        """``chunks``: per step, per sequence (begin, end) of the positions that are new in it."""
        keys, values, table = self.pools(page)
        out = [
            torch.zeros(n, self.heads * self.group, self.value_size, dtype=self.dtype)
            for n in self.lengths
        ]
        for step in chunks:
            used = [b for b, part in enumerate(step) if part]
            query = torch.cat([self.q[b][slice(*step[b])] for b in used])
            starts = (
                torch.tensor([0] + [step[b][1] - step[b][0] for b in used])
                .cumsum(0)
                .to(torch.int32)
            )
            lens = torch.tensor([step[b][1] for b in used], dtype=torch.int32)
            result = torch.full(query.shape[:2] + (self.value_size,), 9.0).to(self.dtype)
            cpu(
                "paged_attention",
                [query, keys, values, table[used].contiguous(), starts, lens, sinks],
                [result],
                attrs=[causal, window, self.mode],
                scalars=[scale, softcap],
            )
            for i, b in enumerate(used):
                out[b][slice(*step[b])] = result[starts[i] : starts[i + 1]]
        return out

    def whole(self, cpu, **more):
        return self.run(cpu, [[(0, n) for n in self.lengths]], **more)

    def reference(self, b, causal=True, window=0, scale=0.125, softcap=0.0, sinks=None):
        q = self.q[b].double().transpose(0, 1)
        k = self.k[b].double().repeat_interleave(self.group, 1).transpose(0, 1)
        v = self.v[b].double().repeat_interleave(self.group, 1).transpose(0, 1)
        s = q @ k.transpose(1, 2) * scale
        if softcap:
            s = softcap * torch.tanh(s / softcap)
        i = torch.arange(len(self.q[b]))
        seen = torch.ones(len(i), len(i), dtype=torch.bool)
        if causal:
            seen &= i[None] <= i[:, None]
        if window:
            seen &= i[None] > i[:, None] - window
        s = s.masked_fill(~seen, float("-inf"))
        if sinks is not None:
            s = torch.cat([s, sinks.double()[:, None, None].expand(-1, len(i), 1)], -1)
            return (s.softmax(-1)[..., :-1] @ v).transpose(0, 1)
        return (s.softmax(-1) @ v).transpose(0, 1)


# The ways in which products are made.
FORMS = [
    pytest.param({}, id="float32"),
    pytest.param({"pool": torch.bfloat16}, id="bfloat16"),
    pytest.param({"pool": torch.bfloat16, "mode": "fast"}, id="pairs"),
]


def pieces(n, size):
    return [(i, min(n, i + size)) for i in range(0, n, size)]


def bits(x):
    return x.view(torch.int32 if x.dtype == torch.float32 else torch.int16)


def same_bits(a, b):
    return all(torch.equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True))


OPTIONS = [
    {},
    {"causal": False},
    {"window": 7},
    {"window": 100},
    {"softcap": 5.0},
    {"sinks": torch.linspace(-3, 6, 6)},
    {"causal": False, "window": 50},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_against_torch(level, options):
    case = Case([1, 70, 300])
    got = case.whole(Kernels(level), **options)
    for b in range(3):
        torch.testing.assert_close(
            got[b].double(), case.reference(b, **options), rtol=2e-5, atol=2e-6
        )


@pytest.mark.parametrize("sizes", [(64, 64), (18, 21), (128, 40)], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_pairs_against_torch(level, options, sizes):
    """Queries of bfloat16 lose nothing; a weight is off by at most 2^-9 of itself, a weighted mean
    of values by at most twice that of the mean of their magnitudes, which the largest bounds."""
    case = Case([1, 70, 301], size=sizes[0], value_size=sizes[1], pool=torch.bfloat16, mode="fast")
    case.q = [q.bfloat16().float() for q in case.q]
    got = case.whole(Kernels(level), **options)
    for b in range(3):
        error = (got[b].double() - case.reference(b, **options)).abs()
        assert error.max() <= 2**-8 * case.v[b].double().abs().max()


def test_pairs_are_what_the_machine_multiplies(level):
    """Rounded queries and weights leave their mark where there is an instruction for pairs of
    bfloat16, and only there."""
    flags = Path("/proc/cpuinfo")
    if not flags.exists():
        pytest.skip("the system does not say what the processor has")
    there = level == "avx512" and "avx512_bf16" in flags.read_text()
    cpu = Kernels(level)
    for sizes, pairs in (((64, 64), there), ((18, 21), there), ((17, 20), False)):
        form = {"size": sizes[0], "value_size": sizes[1], "pool": torch.bfloat16}
        exact, fast = (Case([100], mode=mode, **form) for mode in ("exact", "fast"))
        assert same_bits(exact.whole(cpu), fast.whole(cpu)) is not pairs
    for pool in (torch.float32, torch.float16):
        exact, fast = (Case([100], pool=pool, mode=mode) for mode in ("exact", "fast"))
        assert same_bits(exact.whole(cpu), fast.whole(cpu))


@pytest.mark.skipif(bool(SERVER), reason="the kernels run on another machine")
def test_the_isa_says_whether_pairs_are_multiplied():
    """Rows of a cache that were computed with them have other bits (`sessions.fingerprint`)."""
    exact, fast = (Case([100], pool=torch.bfloat16, mode=mode) for mode in ("exact", "fast"))
    alike = same_bits(exact.whole(Kernels()), fast.whole(Kernels()))
    assert crt.get_device_properties("cpu").isa.endswith("_bf16") is not alike


def before_a_wall(x):
    """The elements of ``x`` in its own strides, the last of them before a page that nobody may
    touch: a read behind it ends the process."""
    span = (1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))) * x.itemsize
    size = -(-span // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    everything = torch.frombuffer(memory, dtype=torch.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(everything.data_ptr() + size, mmap.PAGESIZE, 0) == 0
    return everything[size - span : size].view(x.dtype).as_strided(x.shape, x.stride()).copy_(x)


@pytest.mark.skipif(not hasattr(mmap, "MAP_PRIVATE") or bool(SERVER), reason="needs mprotect")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    "shape, room",
    [((1, 1, 4, 256), 256), ((1, 65, 4, 256), 256), ((1, 64, 1, 64), 4096), ((3, 1, 1, 64), 2048)],
    ids=str,
)
def test_nothing_behind_a_pool_is_read(level, shape, room, threads, dtype):
    """Neither behind the last head of the last row nor behind a row that is a part of a wider
    one."""
    pages, page, heads, size = shape
    g = torch.Generator().manual_seed(3)
    pool = torch.randn(*shape[:3], room, generator=g).to(dtype)[..., :size]
    query, table = torch.randn(1, heads, size, generator=g), torch.arange(pages)[None].int()
    starts, lens = torch.tensor([0, 1]).int(), torch.tensor([pages * page]).int()
    found = []
    for held in (pool.clone(memory_format=torch.contiguous_format), before_a_wall(pool)):
        out = torch.zeros(1, heads, size)
        Kernels(level, threads=threads)(
            "paged_attention",
            [query, held, held, table, starts, lens, None],
            [out],
            attrs=[True, 0, 1],
            scalars=[0.125, 0.0],
        )
        found.append(out)
    assert torch.isfinite(found[0]).all() and same_bits(found[:1], found[1:])


@pytest.mark.parametrize("view", ["wide", "heads first", "odd"])
def test_strided_values_change_no_bit(level, view):
    case = Case([100, 5], size=18, value_size=20, pool=torch.bfloat16, mode="fast")
    cpu = Kernels(level)
    want, pools = case.whole(cpu), case.pools

    def strided(page):
        keys, values, table = pools(page)
        if view == "heads first":
            return keys, values.transpose(1, 2).contiguous().transpose(1, 2), table
        room = torch.full((*values.shape[:3], 20 + 16), 7.0).to(values.dtype)
        held = room[..., 3:23] if view == "wide" else room.flatten()[1 : 1 + values.numel()]
        return keys, held.view_as(values).copy_(values), table

    case.pools = strided
    assert same_bits(want, case.whole(cpu))


@pytest.mark.parametrize("pool", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("new", [1, 40])
def test_pages_behind_the_window_are_not_read(level, pool, mode, new):
    case = Case([101], heads=1, pool=pool, mode=mode)
    cpu = Kernels(level)
    want = case.run(cpu, [[(101 - new, 101)]], window=7)
    pools = case.pools

    def without_the_first(page):
        keys, values, table = pools(page)
        table[0, : (101 - new - 7) // case.page] = 10**9
        return keys, values, table

    case.pools = without_the_first
    assert same_bits(want, case.run(cpu, [[(101 - new, 101)]], window=7))


@pytest.mark.parametrize("pool", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 1, 64, 64), (2, 4, 80, 80), (3, 8, 20, 12), (1, 71, 128, 96)], ids=str
)
def test_shapes_and_dtypes(level, shape, dtype, pool):
    heads, group, size, value_size = shape
    case = Case([5, 130], heads, group, size, value_size, dtype=dtype, pool=pool)
    got = case.whole(Kernels(level, threads=2))
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}[dtype]
    for b in range(2):
        torch.testing.assert_close(
            got[b].double(), case.reference(b), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("window", [0, 91])
@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_chunks_give_the_bits_of_one_piece(level, chunk, window, form):
    case = Case([203], heads=1, **form)
    cpu = Kernels(level)
    whole = case.whole(cpu, window=window)
    assert same_bits(whole, case.run(cpu, [[part] for part in pieces(203, chunk)], window=window))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("group", [1, 2, 3, 5, 7, 9])
def test_decode_of_every_group_gives_the_bits_of_prefill(level, group, form):
    case = Case([140], heads=1, group=group, size=36, value_size=20, **form)
    cpu = Kernels(level)
    assert same_bits(case.whole(cpu), case.run(cpu, [[part] for part in pieces(140, 1)]))


@pytest.mark.parametrize("form", FORMS)
def test_batch_of_7_gives_the_bits_of_batches_of_1(level, form):
    case = Case([1, 64, 65, 128, 200, 33, 300], heads=1, **form)
    cpu = Kernels(level)
    together = case.whole(cpu)
    alone = []
    for b in range(7):
        step = [None] * 7
        step[b] = (0, case.lengths[b])
        alone.append(case.run(cpu, [step])[b])
    assert same_bits(together, alone)
    last = [(n - 1, n) for n in case.lengths]
    decoded = case.run(cpu, [last])
    assert same_bits([x[-1] for x in together], [x[-1] for x in decoded])


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("length", [200, 1100])
@pytest.mark.parametrize("form", FORMS)
def test_threads_change_no_bit(level, threads, length, form):
    case = Case([length, 40], heads=1, group=2, **form)
    one, more = Kernels(level), Kernels(level, threads=threads)
    steps = [
        [(length - 70, length - 3), (0, 30)],
        *[[(length - i, length - i + 1), None] for i in (3, 2, 1)],
    ]
    for window in (0, 300):
        assert same_bits(case.run(one, steps, window=window), case.run(more, steps, window=window))


@pytest.mark.parametrize("page", [1, 3, 64, 512])
@pytest.mark.parametrize("form", FORMS)
def test_page_size_changes_no_bit(level, page, form):
    case = Case([200, 77], **form)
    cpu = Kernels(level)
    assert same_bits(case.whole(cpu), case.whole(cpu, page=page))


def test_other_sequences_change_no_bit(level):
    a, b = Case([90, 50], seed=0), Case([90, 50], seed=5)
    b.q[0], b.k[0], b.v[0] = a.q[0], a.k[0], a.v[0]
    cpu = Kernels(level)
    assert same_bits(a.whole(cpu)[:1], b.whole(cpu)[:1])


def test_strided_query_and_padding_tokens(level):
    case = Case([40], heads=1, group=2, size=16)
    cpu = Kernels(level)
    keys, values, table = case.pools()
    fused = torch.randn(43, 2, 48)
    fused[:40, :, 16:32] = case.q[0]
    out = torch.full((43, 2, 16), 5.0)
    lens, starts = torch.tensor([40], dtype=torch.int32), torch.tensor([0, 40], dtype=torch.int32)
    cpu(
        "paged_attention",
        [fused[:, :, 16:32], keys, values, table, starts, lens, None],
        [out],
        attrs=[True, 0],
        scalars=[0.125, 0.0],
    )
    assert same_bits([out[:40]], case.whole(cpu))
    assert torch.equal(out[40:], torch.zeros(3, 2, 16))


@pytest.mark.parametrize("form", FORMS)
def test_nan_stays_visible(level, form):
    case = Case([30], heads=1, group=1, **form)
    case.q[0][7] = float("nan")
    (out,) = case.whole(Kernels(level))
    assert torch.isnan(out[7]).all()
    assert torch.isfinite(out[[6, 8]]).all()


def test_large_scores_and_far_below_the_maximum(level):
    case = Case([100], heads=1, group=1)
    case.k[0] *= 60
    (out,) = case.whole(Kernels(level), scale=1.0)
    torch.testing.assert_close(out.double(), case.reference(0, scale=1.0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "change, text",
    [
        ({"table": 99}, "outside the pool"),
        ({"table": -1}, "outside the pool"),
        ({"lens": 500}, "kv_lens"),
        ({"lens": 10}, "kv_lens"),
        ({"starts": 50}, "cu_seqlens"),
    ],
    ids=str,
)
def test_bad_tables_are_refused(level, change, text):
    case = Case([40], heads=1)
    keys, values, table = case.pools()
    lens, starts = torch.tensor([40], dtype=torch.int32), torch.tensor([0, 40], dtype=torch.int32)
    if "table" in change:
        table[0, 1] = change["table"]
    if "lens" in change:
        lens[0] = change["lens"]
    if "starts" in change:
        starts[1] = change["starts"]
    with pytest.raises(KernelError, match=text):
        Kernels(level)(
            "paged_attention",
            [case.q[0], keys, values, table, starts, lens, None],
            [torch.zeros(40, 3, 64)],
            attrs=[True, 0],
            scalars=[0.1, 0.0],
        )


@pytest.mark.parametrize("pool", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_kv_append(level, pool, dtype):
    cpu = Kernels(level)
    store = torch.zeros(4, 5, 2, 8, dtype=pool)
    value = torch.randn(3, 4, 8).to(dtype)[:, ::2]
    slots = torch.tensor([19, 0, 7], dtype=torch.int32)
    cpu("kv_append", [store, value, slots], [store])
    want = torch.zeros_like(store)
    for t, slot in enumerate(slots.tolist()):
        want[slot // 5, slot % 5] = value[t].to(pool)
    assert torch.equal(store, want)
    for bad in (20, -1):
        slots[1] = bad
        with pytest.raises(KernelError, match="outside the pool"):
            cpu("kv_append", [store, value, slots], [store])
