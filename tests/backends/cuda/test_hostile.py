"""Values, files and settings that nobody should give, and calls of the driver that fail."""

import os
import subprocess
import sys

import pytest

ATTEND = """
import numpy as np
def there(values, *shape):
    return crt.tensor(np.array(values, np.int32).reshape(shape)).to("cuda")
def attend(tokens, bounds, lengths, dtype, fill=1.0, pages=8, **options):
    batch = len(lengths)
    drawn = lambda *shape: crt.full(shape, fill, dtype=dtype).to("cuda")
    pool = drawn(8, 128, 2, 8)
    table = there([0] * (batch * pages), batch, pages)
    out = crt.ops.paged_attention(
        drawn(tokens, 4, 8), pool, pool, table, there(bounds, len(bounds)),
        there(lengths, batch), scale=1.0, **options)
    return out.cpu().float().numpy()[:, 0, 0].tolist()
DTYPES = (crt.bfloat16, crt.float32)
OPTIONS = [dict(causal=c, window=w) for c in (True, False) for w in (0, 100)]
"""


def test_bounds_of_sequences_that_do_not_ascend(machine):
    """Whatever cu_seqlens says, nothing outside the operands is read or written."""
    answer = machine.ask(
        ATTEND
        + """
answer = []
least, most = -2**31, 2**31 - 1
for bounds in ([0, 2, 1], [0, most, 2], [least, 0, 2], [5, 6, 7], [2, 1, 0], [1, 1, 2],
               [0, 0, most], [0, 0, least], [0, -1, 2]):
    for tokens in (2, 5, 1):
        for dtype in DTYPES:
            for options in OPTIONS:
                failure = said(attend, tokens, bounds, [600, 900], dtype, **options)
                if not failure or failure[1] != "INVALID_ARGUMENT":
                    answer.append([bounds, tokens, str(dtype), str(options), failure])
answer.append(attend(2, [0, 1, 2], [600, 900], DTYPES[0]))
"""
    )
    assert answer == [[1.0, 1.0]]


def test_lengths_that_do_not_hold_the_new_tokens(machine):
    answer = machine.ask(
        ATTEND
        + """
answer = [[said(attend, tokens, [0, tokens - 1, tokens], lengths, dtype)[1:] for dtype in DTYPES]
          for tokens, lengths in ((5, [3, 1]), (2, [0, 1]), (5, [-1, 1]), (2, [1025, 1]))]
"""
    )
    for code, text in (fault for faults in answer for fault in faults):
        assert code == "INVALID_ARGUMENT"
        assert text.startswith("paged_attention: ")


def test_tokens_of_no_sequence_get_zeros(machine):
    """No sequence at all, and tokens behind the last one, on each kernel."""
    answer = machine.ask(
        ATTEND
        + """
answer = [[attend(tokens, bounds, lengths, dtype) for dtype in DTYPES]
          for tokens, bounds, lengths in ((3, [0], []), (300, [0], []), (5, [0, 1, 3], [4, 9]),
                                          (2, [0, 1, 1], [4, 0]), (5, [0, 0, 0], [0, 0]))]
"""
    )
    wanted = [[0.0] * 3, [0.0] * 300, [1.0, 1.0, 1.0, 0.0, 0.0], [1.0, 0.0], [0.0] * 5]
    assert answer == [[one, one] for one in wanted]


def test_window_of_tokens_that_look_ahead(machine):
    """Without `causal` a token sees up to the end of its sequence, however small the window is: its
    results of splits are as many."""
    answer = machine.ask(
        ATTEND
        + """
rng = np.random.default_rng(5)
def drawn(*shape):
    return crt.tensor(rng.normal(size=shape).astype(np.float32))
tokens = 400
query, pool = drawn(tokens, 2, 8), drawn(8, 128, 1, 8)
table = np.arange(8, dtype=np.int32)[None].repeat(tokens, 0)
bounds = np.full(tokens + 1, tokens, np.int32)
bounds[0] = 0
lengths = np.full(tokens, 900, np.int32)
def run(device, dtype):
    operands = [query.to(dtype), pool.to(dtype), pool.to(dtype)]
    operands += [crt.tensor(x) for x in (table, bounds, lengths)]
    out = crt.ops.paged_attention(*[x.to(device) for x in operands], scale=0.5, causal=False,
                                  window=8)
    return out.cpu().float().numpy()
answer = [float(np.abs(run("cuda", d) - run("cpu", d)).max()) for d in (crt.float32, crt.bfloat16)]
"""
    )
    # Sums of 8 products in float32, weights of sums up to 1; bfloat16 rounds weights and results.
    assert answer[0] < 1e-5
    assert answer[1] < 2e-2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_inputs_too_large_for_packed_weights(machine, dtype):
    """From 2^64 on: right, infinite or NaN, never another number; other tokens are unharmed."""
    answer = machine.ask(f"""
import numpy as np
from clika_runtime._native._core import Tensor, pack_weight
from clika_runtime.testing._numpy import block_size, decode_blocks, random_blocks, scheme_number
rng = np.random.default_rng(3)
answer = []
for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"):
    columns = 512
    data = random_blocks(rng, name, 37, columns)
    values = decode_blocks(data, name).astype(np.float64)
    packed = pack_weight(Tensor.from_buffer(data.tobytes(), values.shape, crt.float32,
                                            scheme=scheme_number(name), mapped=False).to("cuda"))
    most = np.abs(values).max(1)
    for large in (2.0**63.9, 2.0**64, -2.0**67.5, 2.0**90, 3e38, np.inf, np.nan):
        x = rng.normal(size=(3, columns)).astype(np.float32)
        x[0, rng.integers(0, columns, 2)] = large
        x = crt.tensor(x).to(crt.{dtype})
        got = crt.linear(x.to("cuda"), packed).cpu().float().numpy().astype(np.float64)
        x = x.float().numpy().astype(np.float64)
        with np.errstate(all="ignore"):
            wrong = np.abs(got - x @ values.T) > 2.0**-7 * np.abs(x).sum(1)[:, None] * most
        number = np.isfinite(got)
        if (abs(large) < 2.0**64 and not number.all() or (wrong & number).any()
                or not np.isfinite(large) and number[0].any() or not number[1:].all()):
            answer.append([name, large, int(number[0].sum()), int(wrong.sum())])
""")
    assert answer == []


# ---------------------------------------------------------------- calls of the driver that fail
@pytest.mark.parametrize("name", ["cuEventCreate", "cuMemHostAlloc", "cuEventRecord"])
@pytest.mark.parametrize("count", [1, 2])
def test_staging_that_fails_is_made_later(machine, name, count):
    """A chunk or an event that could not be had is asked for again by the next copy."""
    failure, right = machine.ask(f"""
import numpy as np
values = np.arange(3 << 20, dtype=np.float32)
(crt.tensor([1.0]).to("cuda") + 1)
crt.cuda.synchronize()
fake.fake_fail(b"{name}", {count}, 2)
failure = said(crt.tensor(values).to, "cuda")
right = [bool((crt.tensor(values).to("cuda").cpu().numpy() == values).all()) for _ in range(3)]
answer = [failure, all(right)]
""")
    assert failure[:2] == ["OutOfMemoryError", "OUT_OF_MEMORY"]
    if name == "cuMemHostAlloc":
        assert "cannot pin 4194304 bytes of the host's memory for cuda:0" in failure[2]
    assert right is True


# ---------------------------------------------------------------- files and settings
WORK = """
from clika_runtime_cuda import _backend
answer = [crt.relu(crt.tensor([-1.0, 2.0]).to("cuda")).tolist(), _backend.counters()["compiled"]]
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_no_file_in_the_cache(fresh):
    """A pipe, a folder, a link to itself, an endless file: nobody waits for them."""
    machine = fresh()
    machine.ask(WORK)
    (file,) = machine.cache.rglob("*.cubin")

    def endless():
        with file.open("wb") as out:
            out.truncate(1 << 40)

    for put in (lambda: os.mkfifo(file), file.mkdir, lambda: file.symlink_to(file.name), endless):
        if file.is_dir():
            file.rmdir()
        file.unlink(missing_ok=True)
        put()
        process = machine.start(WORK)
        try:
            assert machine.finish(process) == [[0.0, 2.0], 1]
        finally:
            process.kill()


COMPILER = """#!/bin/sh
ulimit -S -f unlimited
c++ "$@" || exit
for next; do
  [ "$before" = -o ] && truncate -s 256K "$next"
  before=$next
done
"""


def test_full_disk(fresh, tmp_path):
    """What cannot be written whole is not kept, and the kernel runs."""
    machine = fresh()
    compiler = tmp_path / "compiler"  # what it makes is larger than any file that may be written
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    large, compiled = machine.ask(
        """
import resource
from clika_runtime_cuda import _backend, start
start._configure()
program = next(one for one in _backend.programs() if one[0] == "where")
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
answer = [len(_backend.compile(*program, "sm_90")) > 1 << 17, _backend.counters()["compiled"]]
""",
        CXX=str(compiler),
    )
    assert (large, compiled) == (True, 1)
    assert [path for path in machine.cache.rglob("*") if path.is_file()] == []


def test_cache_that_is_deleted_while_in_use(fresh):
    machine = fresh()
    answer = machine.ask("""
import shutil
x = crt.tensor([-1.0, 2.0]).to("cuda")
answer = [crt.relu(x).tolist()]
shutil.rmtree(os.environ["CLIKA_RT_CUDA_CACHE"])
answer += [crt.relu(x).tolist(), crt.exp(x * 0).tolist()]
""")
    assert answer == [[0.0, 2.0], [0.0, 2.0], [1.0, 1.0]]
    assert len(list(machine.cache.rglob("*.cubin"))) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="paths are text there")
def test_paths_that_are_no_text(fresh, tmp_path):
    machine = fresh()
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    assert machine.ask(WORK, CLIKA_RT_CUDA_CACHE=strange)[0] == [0.0, 2.0]
    assert len(list((tmp_path / os.fsdecode(b"\xff")).rglob("*.cubin"))) == 1
    reason = machine.ask('answer = plugins.probe("cuda")', CLIKA_RT_CUDA_NVRTC=strange)
    assert "(NVRTC) is missing; install it with: pip install 'clika-runtime[cuda]'" in reason


@pytest.mark.parametrize("path", ["/dev/null", "x" * 5000, "/proc/self/nothing"])
def test_cache_where_none_can_be(fresh, path):
    assert fresh().ask(WORK, CLIKA_RT_CUDA_CACHE=path) == [[0.0, 2.0], 1]


def test_libraries_that_are_others(machine, tmp_path):
    """The text says what to install, or which variable to look at."""
    other = tmp_path / "other.so"
    source = tmp_path / "other.c"
    source.write_text("int nothing;\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(other)], check=True)
    probe = 'answer = plugins.probe("cuda")'
    reason = machine.ask(probe, CLIKA_RT_CUDA_NVRTC=str(other))
    assert "pip install --force-reinstall 'clika-runtime[cuda]'" in reason
    assert "the library lacks nvrtc" in reason
    assert "CLIKA_RT_CUDA_DRIVER" in machine.ask(probe, CLIKA_RT_CUDA_DRIVER=str(other))


def test_compiler_too_old_for_the_device(fresh):
    text = fresh().ask(
        "answer = said((crt.tensor([1.0]).to('cuda') + 1).tolist)[2]", FAKE_CUDA_CAPABILITY="110"
    )
    assert "pip install --upgrade 'clika-runtime[cuda]'" in text


def test_endless_temperature(machine):
    """The limit of high ones, on both backends: tokens that are ruled out stay so."""
    answer = machine.ask("""
import numpy as np
logits = np.random.default_rng(2).normal(size=(64, 300)).astype(np.float32)
logits[:, ::2] = -np.inf
def column(value, dtype):
    return crt.full((64,), value, dtype=dtype)
def drawn(temperature, device):
    given = [crt.tensor(logits), column(temperature, crt.float32), column(1.0, crt.float32),
             column(0.0, crt.float32), column(0, crt.int32), crt.tensor(np.arange(64)),
             column(3, crt.int64)]
    return crt.sample(*[x.to(device) for x in given]).tolist()
hot = [drawn(t, d) for t in (1e30, float("inf"), 3e38) for d in ("cpu", "cuda")]
answer = [all(one == hot[0] for one in hot), all(i % 2 for i in hot[0]), len(set(hot[0])) > 30]
""")
    assert answer == [True, True, True]
