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
import ctypes
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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
WIDTH, INTERMEDIATE, LAYERS, HEADS, KV_HEADS = 1024, 2048, 2, 16, 4
POSITIONS = 200  # of the random model
BAR = 1.1  # times llama.cpp's divergence


def copy_metadata(reader: Any, writer: Any, without: tuple[str, ...] = ()) -> None:
    import gguf

    for field in reader.fields.values():
        name = field.name
        if name == "general.architecture" or name.startswith(("GGUF.", *without)):
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), kind)


def dense_copy(source: Path, target: Path) -> None:
    """The same model with every tensor as float32."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(target), "llama")
    copy_metadata(reader, writer, ("general.file_type", "general.quantization_version"))
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_model(source: Path, target: Path) -> None:
    """A llama of width 1,024 with random weights and the source's tokenizer."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(target), "llama")
    copy_metadata(reader, writer, ("general.file_type", "general.quantization_version", "llama."))
    vocabulary = len(reader.fields["tokenizer.ggml.tokens"].contents())
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(vocabulary)
    random = np.random.default_rng(7)

    def add(name: str, *shape: int, scale: float = 1.0) -> None:
        values = random.standard_normal(shape, dtype=np.float32) * scale
        writer.add_tensor(name, (values / np.sqrt(shape[-1])).astype(np.float32))

    # A peaked distribution, like a trained model's.
    add("token_embd.weight", vocabulary, WIDTH, scale=4.0)
    keys = WIDTH // HEADS * KV_HEADS
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        add(f"{block}.attn_q.weight", WIDTH, WIDTH)
        add(f"{block}.attn_k.weight", keys, WIDTH)
        add(f"{block}.attn_v.weight", keys, WIDTH)
        add(f"{block}.attn_output.weight", WIDTH, WIDTH)
        add(f"{block}.ffn_gate.weight", INTERMEDIATE, WIDTH, scale=2.0)
        add(f"{block}.ffn_up.weight", INTERMEDIATE, WIDTH, scale=2.0)
        add(f"{block}.ffn_down.weight", WIDTH, INTERMEDIATE, scale=2.0)
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}.{norm}.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize(source: Path, target: Path, file_type: str, pure: bool) -> None:
    """llama.cpp's own quantizer, with an importance matrix of ones where it is ``pure``."""
    import gguf
    import llama_cpp as lib

    params = lib.llama_model_quantize_default_params()
    params.nthread = 2
    params.ftype = getattr(lib, f"LLAMA_FTYPE_MOSTLY_{file_type}")
    params.pure = pure
    kept = []
    if pure:
        reader = gguf.GGUFReader(str(source))
        matrices = [t for t in reader.tensors if len(t.shape) == 2]
        rows = (lib.llama_model_imatrix_data * (len(matrices) + 1))()
        for row, tensor in zip(rows, matrices, strict=False):
            columns = int(tensor.shape[0])
            ones = (ctypes.c_float * columns)(*[1.0] * columns)
            kept.append(ones)
            row.name, row.data, row.size = tensor.name.encode(), ones, columns
        params.imatrix = rows
        kept.append(rows)
    status = lib.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(params)
    )
    if status:
        raise RuntimeError(f"llama_model_quantize to {file_type} failed with {status}")


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
                (random_model if wide else dense_copy)(options.model, dense[wide])
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
