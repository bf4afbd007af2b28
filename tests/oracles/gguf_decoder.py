"""A GGUF file of a decoder as transformers' own float32 model over the `gguf` package's dequantized
weights: the reference for whole-model comparisons."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CLASSES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM"),
    "gemma": ("GemmaConfig", "GemmaForCausalLM"),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM"),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
}


def _unpermute(weight: Any, heads: int) -> Any:
    """Undoes the row order in which llama's files store q and k (pairs of rotary dims side by
    side)."""
    rows, columns = weight.shape
    return (
        weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


def _dequantized(tensor: Any, rows: int = 8192) -> Any:
    """The tensor's numbers in float32, some rows at a time: the package's copies take several times
    their size."""
    import gguf
    import numpy as np

    shape = tuple(int(size) for size in reversed(tensor.shape))
    if len(shape) == 1:
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    array = np.empty(shape, np.float32)
    for start in range(0, shape[0], rows):
        part = tensor.data[start : start + rows]
        array[start : start + rows] = gguf.quants.dequantize(part, tensor.tensor_type)
    return array


def _config(config_class: Any, reader: Any, architecture: str, tied: bool, vocabulary: int) -> Any:
    def field(key: str, default: Any = None) -> Any:
        found = reader.fields.get(f"{architecture}.{key}")
        return default if found is None else found.contents()

    hidden, heads = int(field("embedding_length")), int(field("attention.head_count"))
    head_dim = int(field("attention.key_length", hidden // heads))
    theta = float(field("rope.freq_base", 10000.0))
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": theta}
    more: dict[str, Any] = {}
    if architecture in ("gemma2", "gemma3"):
        more["query_pre_attn_scalar"] = head_dim
        more["sliding_window"] = int(field("attention.sliding_window"))
    if architecture == "gemma3":
        local = {"rope_type": "default", "rope_theta": 10000.0}
        rope = {"full_attention": rope, "sliding_attention": local}
    return config_class(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=int(field("feed_forward_length")),
        num_hidden_layers=int(field("block_count")),
        num_attention_heads=heads,
        num_key_value_heads=int(field("attention.head_count_kv", heads)),
        head_dim=head_dim,
        max_position_embeddings=int(field("context_length")),
        rms_norm_eps=float(field("attention.layer_norm_rms_epsilon")),
        tie_word_embeddings=tied,
        rope_parameters=rope,
        attn_implementation="eager",
        **more,
    )


def reference_model(path: str | Path) -> Any:
    """The architecture's class of transformers in float32 and eval mode."""
    import gguf
    import numpy as np
    import torch
    import transformers

    reader = gguf.GGUFReader(str(path))
    architecture = reader.fields["general.architecture"].contents()
    config_class, model_class = (getattr(transformers, name) for name in CLASSES[architecture])
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    vocabulary = int(tensors["token_embd.weight"].shape[1])
    tied = "output.weight" not in tensors
    config = _config(config_class, reader, architecture, tied, vocabulary)
    reader.fields.clear()  # the vocabulary takes some 2 kB a token there
    with torch.device("meta"):
        model = model_class(config)
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    table = gguf.get_tensor_name_map(numbers[architecture], config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    state = {}
    for name in model.state_dict():
        if name == "lm_head.weight" and tied:
            continue
        found = tensors.pop(table.get_name(name, try_suffixes=(".weight", ".bias")))
        array = _dequantized(found)
        part = name.split(".")[-2]
        if architecture == "llama" and part in heads:
            array = _unpermute(array, heads[part])
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            array = array - 1.0  # the files store what the model adds
        state[name] = torch.from_numpy(np.ascontiguousarray(array))
        if hasattr(mmap, "MADV_DONTNEED"):  # the pages that were read count as the process's own
            reader.data._mmap.madvise(mmap.MADV_DONTNEED)
    assert not tensors, f"tensors that the model does not take: {list(tensors)}"
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    # Buffers made on the meta device hold nothing: rebuild them.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    scale = getattr(model.model.embed_tokens, "scalar_embed_scale", None)
    if scale is not None:
        model.model.embed_tokens.embed_scale = torch.tensor(scale)
    return model.eval()


def reference_logits(model: Any, ids: list[int]) -> Any:
    """Float32 logits after each token, as a NumPy array."""
    import torch

    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def log_softmax(logits: Any) -> Any:
    import numpy as np

    rows = logits.astype(np.float64)
    rows = rows - rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def compare(reference: Any, ours: Any) -> dict[str, float]:
    """Mean KL(reference || ours) in nats, top-1 agreement, and the largest reference gap at which
    top-1 flips; both are logits ``[positions, vocabulary]``."""
    return compare_texts([(reference, ours)])


def compare_texts(texts: Iterable[tuple[Any, Any]], chunk: int = 16) -> dict[str, float]:
    """The same over several texts, pairs of such logits; ``chunk`` rows are expanded at a time."""
    import numpy as np

    divergence, gaps, flips = [], [], []
    pieces = (
        (reference[start : start + chunk], ours[start : start + chunk])
        for reference, ours in texts
        for start in range(0, len(reference), chunk)
    )
    for expected, found in pieces:
        p, q = log_softmax(expected), log_softmax(found)
        divergence.append((np.exp(p) * (p - q)).sum(-1))
        flips.append(p.argmax(-1) != q.argmax(-1))
        best = np.partition(p, -2, axis=-1)[:, -2:]
        gaps.append(best[:, 1] - best[:, 0])
    kl, flipped = np.concatenate(divergence), np.concatenate(flips)
    return {
        "positions": len(kl),
        "kl": float(kl.mean()),
        "top1": float((~flipped).mean()),
        "largest_flipped_gap": float(np.concatenate(gaps)[flipped].max(initial=0.0)),
    }


def greedy_agreement(
    reference: Any, prompt: list[int], reply: list[int], gap: float
) -> dict[str, Any]:
    """Whether a greedy reply is the reference's, up to the first place where the reference's two
    best log-probabilities are closer than ``gap``. The reference sees the reply's own tokens."""
    rows = log_softmax(reference_logits(reference, prompt + reply)[len(prompt) - 1 : -1])
    for step, (row, token) in enumerate(zip(rows, reply, strict=True)):
        order = row.argsort()
        if row[order[-1]] - row[order[-2]] < gap:
            return {"equal": True, "steps": step, "ended": "near-tie"}
        if int(order[-1]) != token:
            return {"equal": False, "steps": step, "ended": "difference"}
    return {"equal": True, "steps": len(reply), "ended": "length"}


PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a small robot who",
    "Water boils at a temperature of",
    "def fibonacci(n):",
    "The three primary colours are",
]

# Our own sentences, so that nothing is quoted: 5 passages of plain English.
PASSAGES = [
    "The harbour was quiet before sunrise. A single boat moved along the wall, its engine turned "
    "low, while the keeper of the light wrote the hour into a thick book. He had kept that book "
    "for thirty years, and no page was without its small drawing of the sky. On clear days he "
    "drew a line; on cloudy days he drew a wave; when fog came in from the west, he left the page"
    " empty and went outside to listen. People in the town said that he could tell a ship by the "
    "sound of its wake, and children were sent to him to learn how to read the wind.",
    "To bake a simple loaf, mix flour, water, salt and yeast in a large bowl until no dry patches"
    " remain. Cover the bowl and wait for an hour. Fold the dough over itself four times, turn "
    "the bowl, and fold it again. After another hour, shape the dough into a ball, place it on "
    "paper, and let it rise until it has almost doubled. Heat the oven with a heavy pot inside. "
    "Put the loaf into the hot pot, close the lid, and bake it for thirty minutes. Remove the lid"
    " and bake until the crust is dark brown. Let it cool before you cut it.",
    "A computer stores every number as a row of bits. With eight bits it can tell two hundred and"
    " fifty six values apart, and with sixteen it can tell many more. Programs that work with "
    "images often use eight bits for each colour, because the eye does not see a finer "
    "difference. Programs that work with sound use at least sixteen. When a value does not fit "
    "into the bits that are given, it must be rounded, and the error of that rounding is called "
    "noise. Good engineers know where their noise comes from and how large it is.",
    "In the north of the country there is a valley where the river divides into two arms. Between"
    " them lies a long island with meadows, a mill, and a school with a single room. In winter "
    "the ice is thick enough to carry a horse, and the children walk across it. In spring the "
    "water rises and the island becomes smaller every day, until only the mill and the school are"
    " dry. The teacher rings a bell when the last boat leaves, and whoever has missed it stays "
    "for the night and sleeps between the benches.",
    "The committee met on Tuesday to discuss the new library. The first question was where it "
    "should stand. Some members preferred the old market, because it is close to the station, "
    "while others thought that a quiet street would be better for reading. The second question "
    "was money. The mayor explained that the city could pay for the building, but not for the "
    "books, and that the books would have to be collected from the citizens. After three hours of"
    " debate the committee agreed to meet again, which surprised nobody who had been there "
    "before.",
]
