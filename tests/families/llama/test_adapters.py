"""LoRA adapters on tiny llamas, against transformers with the weights merged by hand and, where it
is installed, against PEFT."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.modelverse.adapters import adapted
from clika_runtime.modelverse.loader import LoadOptions, load_model
from clika_runtime.testing.families import relative_error
from tests.families import lora
from tests.families.conftest import MakeEngine, engine_over
from tests.families.llama import tiny
from tests.families.tiny import Tiny

# Of the largest logit, in float32 on the exact path: sums in another order, as without adapters.
TOLERANCE = 1e-4
IDS = tiny.ids(40)
GGUF_NAMES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}

TinyOf = Callable[..., Tiny]


def named_as_gguf(values: lora.Matrices, config: Any) -> lora.Matrices:
    """The same adapter under a GGUF's names, with rows of B in its order."""
    found = {}
    for name, (down, up) in values.items():
        layer, module = name.split(".")[2], name.rpartition(".")[2]
        rows = tiny.permuted(f"{name}.weight", up, config)
        found[f"blk.{layer}.{GGUF_NAMES[module]}.weight"] = (down, rows)
    return found


def written(kind: str, checkpoint: Tiny, values: lora.Matrices, folder: Path) -> Path:
    if kind == "peft":
        return lora.write_peft(folder / "adapter", values, lora_alpha=8)
    return lora.write_gguf(folder / "a.gguf", named_as_gguf(values, checkpoint.config), alpha=8.0)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("adapter", ["peft", "gguf"])
@pytest.mark.parametrize("base", ["safetensors", "gguf"])
def test_adapters_of_both_forms_on_bases_of_both_forms(
    base: str,
    adapter: str,
    merge: bool,
    tiny_of: TinyOf,
    make_engine: MakeEngine,
    tmp_path: Path,
) -> None:
    """Files of the other form than the base's have their query and key rows put in its order."""
    checkpoint = tiny_of("plain")
    path = checkpoint.folder
    if base == "gguf":
        path = tiny.write_gguf(checkpoint, tmp_path / "m.gguf")
    values = lora.matrices(checkpoint.model)
    where = written(adapter, checkpoint, values, tmp_path)
    engine = make_engine(path, adapters=[str(where)], merge_adapters=merge)
    want = Tiny(path, lora.merged(checkpoint.model, (values, 8 / 4))).reference(IDS)
    assert relative_error(engine.logits(IDS), want) < TOLERANCE
    assert relative_error(checkpoint.reference(IDS), want) > 100 * TOLERANCE  # it does something


def test_merged_and_unmerged_agree(
    tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of("plain")
    where = lora.write_peft(tmp_path / "adapter", lora.matrices(checkpoint.model))
    beside = make_engine(checkpoint.folder, adapters=[where]).logits(IDS)
    inside = make_engine(checkpoint.folder, adapters=[where], merge_adapters=True).logits(IDS)
    # Float32 throughout; the sums W x + B (A x) and (W + B A) x differ by rounding alone.
    assert relative_error(beside, inside) < 2e-5
    # In bfloat16 the merged weights are rounded once more than the sums: both stay as near to
    # float32 as the model without adapters does in bfloat16, within a factor of 3.
    base = make_engine(checkpoint.folder, dtype="bfloat16").logits(IDS)
    limit = 3 * relative_error(base, checkpoint.reference(IDS))
    for merge in (False, True):
        short = make_engine(
            checkpoint.folder, dtype="bfloat16", adapters=[where], merge_adapters=merge
        )
        assert relative_error(short.logits(IDS), inside) < limit


def test_ranks_scales_and_patterns_of_peft(
    tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of("plain")
    queries = lora.matrices(checkpoint.model, rank=3, seed=1, targets=("q_proj",))
    others = lora.matrices(checkpoint.model, rank=5, seed=2, targets=("down_proj", "lm_head"))
    where = lora.write_peft(
        tmp_path / "adapter",
        queries | others,
        r=5,
        lora_alpha=6,
        use_rslora=True,
        rank_pattern={"q_proj": 3},
        alpha_pattern={"q_proj": 2.5},
    )
    engine = make_engine(checkpoint.folder, adapters=[f"{where}:0.5"])
    model = lora.merged(
        checkpoint.model,
        (queries, 0.5 * 2.5 / math.sqrt(3)),
        (others, 0.5 * 6 / math.sqrt(5)),
    )
    want = Tiny(checkpoint.folder, model).reference(IDS)
    assert relative_error(engine.logits(IDS), want) < TOLERANCE


def test_several_adapters_add_up(tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path) -> None:
    checkpoint = tiny_of("biases")
    one = lora.matrices(checkpoint.model, rank=2, seed=1)
    two = lora.matrices(checkpoint.model, rank=6, seed=2, targets=("q_proj", "up_proj"))
    first = lora.write_peft(tmp_path / "one", one, lora_alpha=2)
    second = lora.write_peft(tmp_path / "two", two, lora_alpha=6)
    want = Tiny(
        checkpoint.folder, lora.merged(checkpoint.model, (one, 1.0), (two, -0.25))
    ).reference(IDS)
    for merge in (False, True):
        engine = make_engine(
            checkpoint.folder, adapters=[first, f"{second}:-0.25"], merge_adapters=merge
        )
        assert relative_error(engine.logits(IDS), want) < TOLERANCE


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_packed_weights(
    kind: str, tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    """Beside weights that stay packed; the matrices may be packed themselves."""
    checkpoint = tiny_of("plain")
    path = tiny.write_gguf(
        checkpoint, tmp_path / "m.gguf", lambda name: kind if "norm" not in name else "F32"
    )
    values = lora.matrices(checkpoint.model)
    where = written("gguf", checkpoint, values, tmp_path)
    base = tiny.dequantized(checkpoint, path)
    want = Tiny(path, lora.merged(base.model, (values, 2.0))).reference(IDS)
    engine = make_engine(path, mode="exact", adapters=[where])
    assert relative_error(engine.logits(IDS), want) < TOLERANCE


def test_decode_and_batches_have_the_bits_of_prefill(
    tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path
) -> None:
    checkpoint = tiny_of("plain")
    where = lora.write_peft(tmp_path / "adapter", lora.matrices(checkpoint.model))
    engine = make_engine(checkpoint.folder, adapters=[where])
    whole = engine.logits(IDS)
    first, second = engine.cache.add(), engine.cache.add()
    engine.extend([first, second], [IDS[:30], IDS[:5]])
    for place in range(30, len(IDS)):
        row = engine.extend([first], [IDS[place : place + 1]])[0]
        assert np.array_equal(row[0], whole[place])


def test_other_adapters_over_the_same_weights(tiny_of: TinyOf, tmp_path: Path) -> None:
    checkpoint = tiny_of("plain")
    one, two = (lora.matrices(checkpoint.model, seed=seed) for seed in (1, 2))
    first = lora.write_peft(tmp_path / "one", one, lora_alpha=4)
    second = lora.write_peft(tmp_path / "two", two, lora_alpha=4)
    loaded = load_model(checkpoint.folder, LoadOptions(adapters=[first]))
    views = {
        (1.0, 0.0): loaded,
        (0.0, 1.0): adapted(loaded, [second]),
        (0.0, 0.0): adapted(loaded, []),
        (0.5, 2.0): adapted(loaded, [f"{first}:0.5", f"{second}:2"]),
    }
    engines = {scales: engine_over(view.model) for scales, view in views.items()}
    for (a, b), engine in engines.items():
        want = Tiny(checkpoint.folder, lora.merged(checkpoint.model, (one, a), (two, b)))
        assert relative_error(engine.logits(IDS), want.reference(IDS)) < TOLERANCE
    weights = {id(value) for value in loaded.model.parameters()}
    for view in views.values():
        assert {id(value) for value in view.model.parameters()} == weights


@pytest.mark.filterwarnings("ignore")  # PEFT's use of names that transformers gives up
def test_peft_computes_the_same(tiny_of: TinyOf, make_engine: MakeEngine, tmp_path: Path) -> None:
    """An adapter that PEFT itself made, saved and runs."""
    peft = pytest.importorskip("peft")
    import torch

    checkpoint = tiny_of("plain")
    config = peft.LoraConfig(
        r=4,
        lora_alpha=6,
        use_rslora=True,
        target_modules=["q_proj", "o_proj", "gate_proj"],
        task_type="CAUSAL_LM",
        init_lora_weights=False,
    )
    torch.manual_seed(3)
    model = peft.get_peft_model(copy.deepcopy(checkpoint.model), config).eval()
    model.save_pretrained(tmp_path / "adapter")
    want = Tiny(checkpoint.folder, model).reference(IDS)
    engine = make_engine(checkpoint.folder, adapters=[tmp_path / "adapter"])
    assert relative_error(engine.logits(IDS), want) < TOLERANCE
    assert relative_error(checkpoint.reference(IDS), want) > 10 * TOLERANCE
