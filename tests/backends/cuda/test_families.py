"""Model families on a pretended device: the same greedy replies as on the CPU, each decode step one
copy, one graph and one read, and no kernel of the host anywhere in it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

COMPARE = """
import numpy as np
from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine, Sampling, Work
from clika_runtime.modelverse.loader import LoadOptions, load_model
from clika_runtime._native._core import dispatch_counters

rng = np.random.default_rng(11)
PROMPTS = [rng.integers(3, 190, size).tolist() for size in (9, 35)]
GREEDY = Sampling()

def engine_on(device):
    loaded = load_model(FOLDER, LoadOptions(device=device, dtype=DTYPE))
    config = CacheConfig(max_tokens=128, max_sequences=4, block_size=16, dtype=loaded.dtype,
                         device=device)
    return Engine(loaded.model, KVCache(loaded.model.cache_specs(), config))

def reply(engine, steps, told=None):
    sequences = [engine.cache.add() for _ in PROMPTS]
    ids = engine.step([Work(s, p, GREEDY) for s, p in zip(sequences, PROMPTS)])
    rows = [ids]
    for index in range(1, steps):
        before = told and told()
        ids = engine.step([Work(s, [t], GREEDY, index) for s, t in zip(sequences, ids)])
        rows.append(ids)
        if told:
            told(before)
    for sequence in sequences:
        engine.cache.free(sequence)
    return np.array(rows).T.tolist()

host, there = engine_on("cpu"), engine_on("cuda:0")
"""
FAMILIES = ["llama", "qwen", "gemma"]


def tiny(family: str, dtype: str, folder: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    module = importlib.import_module(f"tests.families.{family}.tiny")
    return Path(module.make(folder / "model", VARIANTS[family], dtype).folder)


VARIANTS = {"llama": "plain", "qwen": "qwen2", "gemma": "gemma3"}


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_replies_are_those_of_the_host(machine, tmp_path, family):
    """float32: the same ids. The last steps are launches of one recorded graph, in which every
    instruction is a kernel of the device; outside of it no kernel is called at all."""
    folder = tiny(family, "float32", tmp_path)
    answer = machine.ask(
        f"FOLDER, DTYPE = {str(folder)!r}, 'float32'"
        + COMPARE
        + """
want = reply(host, 12)
steps = []
def told(before=None):
    names = ("cuMemcpyHtoDAsync", "cuGraphLaunch", "cuLaunchKernelEx", "cuMemcpyDtoHAsync",
             "cuMemAllocFromPoolAsync")
    now = [fake.fake_calls(name.encode()) for name in names]
    now.append(dispatch_counters()["kernel_calls"])
    if before is None:
        return now
    steps.append([b - a for a, b in zip(before, now)])
got = reply(there, 12, told)
decode = [plan for plan in there.plans if plan.name == "decode step"]
answer = [got == want, got, want, steps[3:], [plan.stats()["recordings"] for plan in decode],
          [str(w.device) for w in there.model.state_dict().values()],
          [str(pool.device) for pair in there.cache.pools for pool in pair],
          np.abs(np.asarray(there.logits(PROMPTS[0])) - host.logits(PROMPTS[0])).max().item(),
          np.abs(host.logits(PROMPTS[0])).max().item()]
"""
    )
    assert answer[0], answer[1:3]
    assert answer[3] == [[1, 1, 0, 1, 0, 0]] * 8
    assert answer[4] == [1]
    assert set(answer[5]) == set(answer[6]) == {"cuda:0"}
    assert answer[7] <= 1e-4 * answer[8]


QUANTIZED = ["Q8_0", "Q4_0"]


@pytest.mark.parametrize("kind", QUANTIZED)
def test_packed_weights_stay_packed(machine, tmp_path, kind):
    """A GGUF file on the device: weights in their scheme, packed there where the backend has a
    layout; the logits are those of the host within float32's rounding of the exact products."""
    pytest.importorskip("gguf")
    pytest.importorskip("torch")
    from tests.families.llama import tiny as llama

    checkpoint = llama.make(tmp_path / "model", "plain", "float32")
    path = tmp_path / "model.gguf"
    llama.write_gguf(checkpoint, path, lambda name: kind if "norm" not in name else "F32")
    answer = machine.ask(
        f"FOLDER, DTYPE = {str(path)!r}, 'float32'"
        + COMPARE.replace("dtype=DTYPE", "dtype=DTYPE, mode='exact'")
        + """
schemes = {w.scheme for name, w in there.model.state_dict().items() if "_proj" in name}
one, other = np.asarray(there.logits(PROMPTS[1])), np.asarray(host.logits(PROMPTS[1]))
rows = reply(there, 8)
stats = [plan.stats() for plan in there.plans if plan.name == "decode step"]
answer = [len(schemes), 0 not in schemes, float(np.abs(one - other).max() / np.abs(other).max()),
          rows == reply(there, 8), [one["recordings"] for one in stats]]
"""
    )
    assert answer[:2] == [1, True]
    assert answer[2] <= 1e-4
    assert answer[3:] == [True, [1]]


def test_a_prompt_on_the_command_line(machine, tmp_path):
    """`clikart-cli MODEL prompt --device cuda:0` and `AutoModel`, from a checkpoint with a
    tokenizer."""
    from tests.cli.tiny import REPLY, write_model

    folder = write_model(tmp_path / "model", REPLY)
    answer = machine.ask(
        f"""
import contextlib, io
from clika_runtime.modelverse.cli import main
from clika_runtime.modelverse import load_generative
FOLDER = {str(folder)!r}
out = io.StringIO()
with contextlib.redirect_stdout(out):
    status = main([FOLDER, "prompt", "Which city?", "--device", "cuda:0", "--max-new-tokens", "9",
                   "--temperature", "0"])
model = load_generative(FOLDER, device="cuda:0", max_seq=64)
host = load_generative(FOLDER, device="cpu", max_seq=64)
text = [m.generate("\\n", max_new_tokens=9, temperature=0.0) for m in (model, host)]
answer = [status, out.getvalue(), text, model.report["device"],
          said(load_generative, FOLDER, device="cuda:0", max_sequences=4096)]
""",
        FAKE_CUDA_MEMORY=str(64 << 20),
    )
    assert answer[0] == 0
    assert answer[1].strip() == "Paris!"
    assert answer[2] == ["Paris!"] * 2
    assert answer[3] == "cuda:0"
    # What does not fit in what is free is refused with the window that does.
    assert answer[4][1] == "OUT_OF_MEMORY"


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_is_as_close_as_the_host(machine, tmp_path, family):
    """Both round where they round: logits within twice what bfloat16 moves the host's. Replies are
    the same in every run."""
    folder = tiny(family, "bfloat16", tmp_path)
    answer = machine.ask(
        f"FOLDER, DTYPE = {str(folder)!r}, 'bfloat16'"
        + COMPARE
        + """
DTYPE = "float32"
exact = engine_on("cpu")
ids = PROMPTS[1]
true = exact.logits(ids)
one, other = there.logits(ids), host.logits(ids)
answer = [float(np.abs(one - true).max()), float(np.abs(other - true).max()),
          reply(there, 6) == reply(there, 6), np.array_equal(there.logits(ids), one)]
"""
    )
    assert answer[0] <= 2 * answer[1]
    assert answer[2:] == [True, True]
