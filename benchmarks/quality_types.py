"""Every block type that llama.cpp's quantizer writes: divergence from the float32 model over the
dequantized weights, ours on both paths beside llama.cpp's.

    python -m benchmarks.quality_types SMOLLM2.gguf [--types Q4_0,Q4_K] [--json OUT]

SmolLM2 is re-quantized to the types whose blocks its 576 columns allow. The others are compared on
a random llama of width 1,024 (2 layers, SmolLM2's tokenizer), quantized ``pure`` with an importance
matrix of ones, since a row there is whole blocks of 256. The table says how many tensors really
hold the type, and the exit status is 1 where a path's divergence is over 1.1 times llama.cpp's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.checkpoints import convert, quantize, random_model
from benchmarks.quality import greedy_ids, hush, llama_cpp_logits
from tests.oracles.gguf_decoder import (
    PASSAGES,
    PROMPTS,
    compare,
    greedy_agreement,
    reference_logits,
    reference_model,
)

SMOL = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "F16", "BF16")
# The quantizer's name for a whole file where it is not the type's own.
WIDE = {
    "Q2_K": "Q2_K",
    "Q3_K": "Q3_K_M",
    "Q4_K": "Q4_K_M",
    "Q5_K": "Q5_K_M",
    "Q6_K": "Q6_K",
    "IQ1_S": "IQ1_S",
    "IQ1_M": "IQ1_M",
    "IQ2_XXS": "IQ2_XXS",
    "IQ2_XS": "IQ2_XS",
    "IQ2_S": "IQ2_M",
    "IQ3_XXS": "IQ3_XXS",
    "IQ3_S": "IQ3_S",
    "IQ4_XS": "IQ4_XS",
    "TQ1_0": "TQ1_0",
    "TQ2_0": "TQ2_0",
}
WIDTH, INTERMEDIATE = 1024, 2048  # of the random model
POSITIONS = 200  # of the random model
BAR = 1.1  # times llama.cpp's divergence


def measure(path: Path, texts: list[str], greedy: bool) -> dict[str, Any]:
    import gguf
    import numpy as np

    from clika_runtime.modelverse.generation import load_generative

    held = Counter(t.tensor_type.name for t in gguf.GGUFReader(str(path)).tensors)
    result: dict[str, Any] = {"tensors": dict(held)}
    reference = reference_model(path)
    ids: list[list[int]] = []
    wanted: Any = None
    for mode, gap in (("exact", 1e-3), ("fast", 0.3)):
        model = load_generative(str(path), mode=mode, max_seq=1024)
        if not ids:
            ids = [model.tokenizer.encode(text) for text in texts]
            if not greedy:
                ids = [ids[0][:POSITIONS]]
            wanted = np.concatenate([reference_logits(reference, row) for row in ids])
        result[mode] = compare(wanted, np.concatenate([model.logits(row) for row in ids]))
        if greedy:
            prompts = [model.tokenizer.encode(prompt) for prompt in PROMPTS]
            result[mode]["greedy"] = all(
                greedy_agreement(reference, prompt, greedy_ids(model, prompt, 24), gap)["equal"]
                for prompt in prompts
            )
    result["llama.cpp"] = compare(wanted, np.concatenate(llama_cpp_logits(str(path), ids)))
    return result


def line(name: str, row: dict[str, Any]) -> str:
    cells = [f"{name:8}", f"{row['tensors'].get(name, 0):4} tensors"]
    for path in ("exact", "fast", "llama.cpp"):
        found = row[path]
        cells.append(
            f"{path} KL {found['kl']:.2e} top-1 {100 * found['top1']:6.2f} % "
            f"flip {found['largest_flipped_gap']:.3f}"
            + ("" if found.get("greedy", True) else " GREEDY DIFFERS")
        )
    if missed(row):
        cells.append("OVER THE BAR")
    return "  ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--types", default=",".join((*SMOL, *WIDE)))
    parser.add_argument("--json")
    options = parser.parse_args()
    hush()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        dense: dict[bool, Path] = {}
        for name in options.types.split(","):
            wide = name in WIDE
            if wide not in dense:
                dense[wide] = folder / f"dense-{wide}.gguf"
                if wide:
                    random_model(options.model, dense[wide], WIDTH, INTERMEDIATE)
                else:
                    convert(options.model, dense[wide])
            target = folder / f"{name}.gguf"
            quantize(dense[wide], target, WIDE.get(name, name), pure=wide)
            results[name] = measure(target, PASSAGES, greedy=not wide)
            print(line(name, results[name]), flush=True)
            target.unlink()
            if options.json:
                Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return int(any(missed(row) for row in results.values()))


def missed(row: dict[str, Any]) -> bool:
    """Whether a path is further from the reference than the bar allows."""
    return any(row[path]["kl"] > BAR * row["llama.cpp"]["kl"] for path in ("exact", "fast"))


if __name__ == "__main__":
    sys.exit(main())
