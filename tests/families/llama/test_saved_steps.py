"""Steps of a model with quantized weights, as graphs in files: what another process loads and runs
gives the same bits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine, Sampling, Work
from clika_runtime.modelverse.loader import LoadOptions, load_model
from clika_runtime.testing import _numpy as kit
from tests.families.llama import tiny

KINDS = {  # by the tensor's name in the file
    "token_embd.weight": "Q4_K",
    "output.weight": "Q4_1",
    "attn_q.weight": "Q4_K",
    "attn_k.weight": "Q8_0",
    "attn_v.weight": "Q4_1",
    "attn_output.weight": "Q8_0",
    "ffn_gate.weight": "Q4_1",
    "ffn_up.weight": "Q4_K",
    "ffn_down.weight": "Q8_0",
}
RUN = """
import sys
import numpy as np
import clika_runtime as crt

path, given, found = sys.argv[1:]
graph = crt.graph.ModelGraph.load(path)
graph.finalize()
inputs = {name: crt.from_numpy(array) for name, array in np.load(given).items()}
packed = sum(tensor.layout != 0 for tensor in graph._constants.values())
np.savez(found, packed=packed, *[result.numpy() for result in graph.run(inputs)])
"""


def kind_of(name: str) -> str:
    return next(kind for ending, kind in KINDS.items() if name.endswith(ending))


def with_k_quants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `gguf` package has no encoder for these: random blocks of small scales."""
    import gguf

    encode = gguf.quants.quantize

    def quantize(array: Any, kind: Any) -> Any:
        if kind != gguf.GGMLQuantizationType.Q4_K:
            return encode(array, kind)
        rng = np.random.default_rng(array.shape)
        blocks = kit.random_blocks(rng, "Q4_K", *array.shape).reshape(-1, 144)
        blocks[:, :4] = np.array([3e-4, 2e-3], np.float16).view(np.uint8)  # d, dmin
        return blocks.reshape(array.shape[0], -1)

    monkeypatch.setattr(gguf.quants, "quantize", quantize)


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_another_process_gives_the_same_bits(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_k_quants(monkeypatch)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
    checkpoint = tiny.make(tmp_path / "hf", **sizes)
    path = tiny.write_gguf(checkpoint, tmp_path / "model.gguf", kind_of)
    model = load_model(path, LoadOptions(mode=mode)).model
    weights = [weight for weight in model.state_dict().values() if weight.scheme]
    assert {weight.scheme for weight in weights} == {4, 9, 13}
    engine = Engine(
        model, KVCache(model.cache_specs(), CacheConfig(max_tokens=64, max_sequences=2)), chunk=16
    )
    steps: list[tuple[str, Any]] = []
    plan = engine.plan

    class Step:
        """A graph that is saved as it is before each run."""

        def __init__(self, graph: Any, kind: str) -> None:
            self.graph, self.kind = graph, kind
            self.input_names = graph.input_names

        def run(self, inputs: Any) -> Any:
            name = f"{len(steps)}"
            if not isinstance(inputs, dict):
                inputs = dict(zip(self.graph.input_names(), inputs, strict=True))
            self.graph.save(tmp_path / f"{name}.safetensors")
            np.savez(tmp_path / f"{name}.npz", **{k: v.numpy() for k, v in inputs.items()})
            results = self.graph.run(inputs)
            steps.append((self.kind, [result.numpy().copy() for result in results]))
            return results

    monkeypatch.setattr(engine, "plan", lambda kind, *sizes: Step(plan(kind, *sizes), kind))
    sequence = engine.cache.add()
    token = engine.step([Work(sequence, tiny.ids(9), Sampling())])
    engine.step([Work(sequence, token, Sampling(temperature=0.8, seed=3), 1)])
    engine.logits(tiny.ids(7))
    assert [kind for kind, _ in steps] == ["sample", "decode", "logits"]
    assert all(np.isfinite(array).all() for _, results in steps for array in results)
    for at, (_, wanted) in enumerate(steps):
        files = [tmp_path / f"{at}{end}" for end in (".safetensors", ".npz", ".out.npz")]
        subprocess.run([sys.executable, "-c", RUN, *map(str, files)], check=True, timeout=120)
        found = np.load(files[2])
        assert found["packed"] == sum(weight.layout != 0 for weight in weights) > 0
        for k, array in enumerate(wanted):
            assert found[f"arr_{k}"].tobytes() == array.tobytes()


def test_files_hold_the_published_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every weight of the checkpoint lies in the file as it lies in the GGUF file."""
    import gguf
    import safetensors.numpy

    with_k_quants(monkeypatch)
    checkpoint = tiny.make(tmp_path / "hf", hidden_size=256, intermediate_size=512)
    path = tiny.write_gguf(checkpoint, tmp_path / "model.gguf", kind_of)
    model = load_model(path).model
    engine = Engine(model, KVCache(model.cache_specs(), CacheConfig(max_tokens=64)), chunk=16)
    engine.plan("logits", 8, 1).save(tmp_path / "step.safetensors")
    stored = safetensors.numpy.load_file(tmp_path / "step.safetensors")
    held = {array.tobytes() for array in stored.values()}
    published = [tensor for tensor in gguf.GGUFReader(path).tensors if tensor.data.ndim == 2]
    quantized = [tensor for tensor in published if tensor.data.dtype == np.uint8]
    assert len(quantized) == 2 + 7 * 3
    assert all(tensor.data.tobytes() in held for tensor in quantized)
    loaded = crt.graph.ModelGraph.load(tmp_path / "step.safetensors")
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (
        tmp_path / "step.safetensors"
    ).read_bytes()
