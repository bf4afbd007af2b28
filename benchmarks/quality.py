"""How far a quantized model's distributions are from the float32 model over its dequantized
weights: ours on both paths, and llama.cpp on the same file.

    python -m benchmarks.quality MODEL.gguf [--json OUT]

With ``--caches`` it sets the exact path with a short cache beside the exact path with a float32
one instead: what the form of the cache alone costs.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.oracles.gguf_decoder import (
    PASSAGES,
    PROMPTS,
    compare,
    greedy_agreement,
    reference_logits,
    reference_model,
)


@functools.cache
def hush() -> Any:
    """Silences llama.cpp. The callback has to live as long as the library: the cache keeps it."""
    import llama_cpp as lib

    callback = lib.llama_log_callback(lambda *_: None)
    lib.llama_log_set(callback, None)
    return callback


def llama_cpp_logits(path: str, texts: list[list[int]]) -> list[Any]:
    """Logits after each token from llama.cpp, flash attention off."""
    import llama_cpp as lib
    import numpy as np

    hush()
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 1024
    params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = lib.llama_init_from_model(model, params)
    width = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    out = []
    for ids in texts:
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        batch = lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if lib.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        rows = [
            np.ctypeslib.as_array(lib.llama_get_logits_ith(context, i), (width,)).copy()
            for i in range(len(ids))
        ]
        out.append(np.stack(rows))
    return out


def greedy_ids(model: Any, ids: list[int], count: int) -> list[int]:
    from clika_runtime.modelverse.engine import Sampling, Work

    engine = model.engine
    sequence = engine.cache.add()
    tokens = [engine.step([Work(sequence, ids, Sampling())])[0]]
    while len(tokens) < count:
        tokens.append(engine.step([Work(sequence, tokens[-1:], Sampling(), len(tokens))])[0])
    engine.cache.free(sequence)
    return tokens


def cache_rows(path: str) -> dict[str, Any]:
    """Each short form of the cache against a float32 cache, over the passages."""
    import numpy as np

    from clika_runtime.modelverse.generation import load_generative
    from clika_runtime.modelverse.knobs import CACHE_DTYPES

    result: dict[str, Any] = {}
    wanted: Any = None
    for form in CACHE_DTYPES:
        model = load_generative(path, mode="exact", max_seq=1024, kv_dtype=form)
        texts = [model.tokenizer.encode(text) for text in PASSAGES]
        ours = np.concatenate([model.logits(ids) for ids in texts])
        if form == "float32":
            wanted = ours
            continue
        result[form] = compare(wanted, ours)
        result[form]["bytes_per_token"] = model.report["cache_bytes_per_token"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--greedy-tokens", type=int, default=40)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--caches", action="store_true", help="compare forms of the cache")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.caches:
        show(cache_rows(options.model), options.json)
    else:
        show(quality(options), options.json)


def quality(options: argparse.Namespace) -> dict[str, Any]:
    """Both paths, and llama.cpp, against the reference."""
    import numpy as np

    from clika_runtime.modelverse.generation import load_generative

    reference = reference_model(options.model)
    result: dict[str, Any] = {}
    texts: list[list[int]] = []
    wanted: Any = None
    for mode, gap in (("exact", 1e-3), ("fast", 0.3)):
        model = load_generative(options.model, mode=mode, max_seq=1024)
        if not texts:
            texts = [model.tokenizer.encode(text) for text in PASSAGES]
            wanted = np.concatenate([reference_logits(reference, ids) for ids in texts])
        ours = np.concatenate([model.logits(ids) for ids in texts])
        result[mode] = compare(wanted, ours)
        prompts = [model.tokenizer.encode(prompt) for prompt in PROMPTS]
        result[mode]["greedy"] = [
            greedy_agreement(reference, ids, greedy_ids(model, ids, options.greedy_tokens), gap)
            for ids in prompts
        ]
    if not options.no_peer:
        result["llama.cpp"] = compare(
            wanted, np.concatenate(llama_cpp_logits(options.model, texts))
        )
    return result


def show(result: dict[str, Any], path: str | None) -> None:
    for name, row in result.items():
        print(
            f"{name:10} positions {row['positions']}  KL {row['kl']:.3e}  "
            f"top-1 {100 * row['top1']:.2f} %  largest "
            f"flipped gap {row['largest_flipped_gap']:.3f}  greedy {row.get('greedy', '')}"
        )
    if path:
        Path(path).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
