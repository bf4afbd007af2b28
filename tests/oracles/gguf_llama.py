"""A GGUF file of the llama architecture as transformers' own float32 model over the `gguf`
package's dequantized weights: the reference for whole-model comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def _field(reader: Any, key: str, default: Any = None) -> Any:
    field = reader.fields.get(key)
    return default if field is None else field.contents()


def _unpermute(weight: Any, heads: int) -> Any:
    """Undoes the row order in which GGUF stores q and k (pairs of rotary dims side by side)."""
    rows, columns = weight.shape
    return (
        weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


def reference_model(path: str | Path) -> Any:
    """``LlamaForCausalLM`` in float32 and eval mode."""
    import gguf
    import numpy as np
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    reader = gguf.GGUFReader(str(path))
    heads = int(_field(reader, "llama.attention.head_count"))
    kv_heads = int(_field(reader, "llama.attention.head_count_kv", heads))
    tensors = {
        t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        for t in reader.tensors
    }
    vocabulary, hidden = tensors["token_embd.weight"].shape
    theta = float(_field(reader, "llama.rope.freq_base", 10000.0))
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=int(_field(reader, "llama.feed_forward_length")),
        num_hidden_layers=int(_field(reader, "llama.block_count")),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=int(_field(reader, "llama.context_length")),
        rms_norm_eps=float(_field(reader, "llama.attention.layer_norm_rms_epsilon")),
        tie_word_embeddings="output.weight" not in tensors,
        rope_theta=theta,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        attn_implementation="eager",
    )
    renames = {
        "attn_q.weight": "self_attn.q_proj.weight",
        "attn_k.weight": "self_attn.k_proj.weight",
        "attn_v.weight": "self_attn.v_proj.weight",
        "attn_output.weight": "self_attn.o_proj.weight",
        "ffn_gate.weight": "mlp.gate_proj.weight",
        "ffn_up.weight": "mlp.up_proj.weight",
        "ffn_down.weight": "mlp.down_proj.weight",
        "attn_norm.weight": "input_layernorm.weight",
        "ffn_norm.weight": "post_attention_layernorm.weight",
    }
    state = {}
    for name, array in tensors.items():
        if name == "token_embd.weight":
            key = "model.embed_tokens.weight"
        elif name == "output_norm.weight":
            key = "model.norm.weight"
        elif name == "output.weight":
            key = "lm_head.weight"
        else:
            _, block, rest = name.split(".", 2)
            key = f"model.layers.{block}.{renames[rest]}"
            if rest == "attn_q.weight":
                array = _unpermute(array, heads)
            elif rest == "attn_k.weight":
                array = _unpermute(array, kv_heads)
        state[key] = torch.from_numpy(np.ascontiguousarray(array))
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to_empty(device="cpu")
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    # Buffers made on the meta device hold nothing: rebuild the rotary table.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model.float().eval()


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
    top-1 flips."""
    import numpy as np

    p, q = log_softmax(reference), log_softmax(ours)
    kl = (np.exp(p) * (p - q)).sum(-1)
    best = p.argmax(-1)
    flips = best != q.argmax(-1)
    ordered = np.sort(p, -1)
    gaps = ordered[:, -1] - ordered[:, -2]
    return {
        "positions": len(kl),
        "kl": float(kl.mean()),
        "top1": float((~flips).mean()),
        "largest_flipped_gap": float(gaps[flips].max()) if flips.any() else 0.0,
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
