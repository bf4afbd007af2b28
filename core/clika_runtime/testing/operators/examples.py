"""One example per operator, for the reference page. The last line is an expression whose value the
page shows; the tests run all of them. A group may state its examples with its references instead:
``operator(..., example=...)``."""

from __future__ import annotations

EXAMPLES: dict[str, str] = {
    "neg": "crt.neg(crt.tensor([1.0, -2.0]))",
    "abs": "crt.abs(crt.tensor([1.0, -2.0]))",
    "exp": "crt.exp(crt.tensor([0.0, 1.0]))",
    "log": "crt.log(crt.tensor([1.0, 10.0]))",
    "sqrt": "crt.sqrt(crt.tensor([4, 9]))",
    "rsqrt": "crt.rsqrt(crt.tensor([4.0, 16.0]))",
    "sin": "crt.sin(crt.tensor([0.0, 1.5]))",
    "cos": "crt.cos(crt.tensor([0.0, 1.5]))",
    "tanh": "crt.tanh(crt.tensor([0.0, 1.0]))",
    "sigmoid": "crt.sigmoid(crt.tensor([0.0, 2.0]))",
    "silu": "crt.silu(crt.tensor([-1.0, 2.0]))",
    "gelu": 'crt.gelu(crt.tensor([-1.0, 2.0]), approximate="tanh")',
    "relu": "crt.relu(crt.tensor([-1.0, 2.0]))",
    "erf": "crt.erf(crt.tensor([0.0, 1.0]))",
    "reciprocal": "crt.reciprocal(crt.tensor([2.0, 4.0]))",
    "square": "crt.square(crt.tensor([2, -3]))",
    "floor": "crt.floor(crt.tensor([1.5, -1.5]))",
    "ceil": "crt.ceil(crt.tensor([1.5, -1.5]))",
    "round": "crt.round(crt.tensor([0.5, 1.5, 2.6]))",
    "sign": "crt.sign(crt.tensor([-3, 0, 7]))",
    "add": "crt.add(crt.tensor([1.0, 2.0]), crt.tensor([10.0, 20.0]), alpha=0.5)",
    "sub": "crt.sub(5, crt.tensor([1, 2]))",
    "mul": "crt.mul(crt.tensor([[1.0], [2.0]]), crt.tensor([3.0, 4.0]))",
    "div": 'crt.div(crt.tensor([7, -7]), 2, rounding_mode="floor")',
    "pow": "crt.pow(crt.tensor([2.0, 3.0]), 2)",
    "maximum": "crt.maximum(crt.tensor([1.0, 4.0]), 2.0)",
    "minimum": "crt.minimum(crt.tensor([1.0, 4.0]), 2.0)",
    "remainder": "crt.remainder(crt.tensor([7, -7]), 3)",
    "floor_divide": "crt.floor_divide(crt.tensor([7, -7]), 3)",
    "eq": "crt.eq(crt.tensor([1, 2]), 2)",
    "ne": "crt.ne(crt.tensor([1, 2]), 2)",
    "lt": "crt.lt(crt.tensor([1, 2]), 2)",
    "le": "crt.le(crt.tensor([1, 2]), 2)",
    "gt": "crt.gt(crt.tensor([1, 2]), 1)",
    "ge": "crt.ge(crt.tensor([1, 2]), 2)",
    "isnan": 'crt.isnan(crt.tensor([1.0, float("nan")]))',
    "isinf": 'crt.isinf(crt.tensor([1.0, float("-inf")]))',
    "logical_not": "crt.logical_not(crt.tensor([0, 3]))",
    "logical_and": "crt.logical_and(crt.tensor([0, 3]), crt.tensor([True, True]))",
    "logical_or": "crt.logical_or(crt.tensor([0, 3]), crt.tensor([False, False]))",
    "logical_xor": "crt.logical_xor(crt.tensor([0, 3]), crt.tensor([True, True]))",
    "bitwise_not": "crt.bitwise_not(crt.tensor([0, 5]))",
    "bitwise_and": "crt.bitwise_and(crt.tensor([6, 5]), 3)",
    "bitwise_or": "crt.bitwise_or(crt.tensor([6, 5]), 3)",
    "bitwise_xor": "crt.bitwise_xor(crt.tensor([6, 5]), 3)",
    "where": "crt.where(crt.tensor([True, False]), crt.tensor([1.0, 2.0]), 0.0)",
    "clamp": "crt.clamp(crt.tensor([-2.0, 0.5, 3.0]), -1.0, max=1.0)",
    "cast": "crt.cast(crt.tensor([1.7, -1.7]), crt.int32)",
    "copy": "crt.copy(crt.arange(6).reshape(2, 3).transpose(0, 1)).is_contiguous()",
    "copy_": "x = crt.zeros(2, 2)\nx.select(0, 1).copy_(crt.tensor([1.0, 2.0]))\nx",
    "reshape": "crt.arange(6).reshape(2, -1)",
    "permute": "crt.zeros(2, 3, 4).permute(2, 0, 1).shape",
    "transpose": "crt.arange(6).reshape(2, 3).transpose(0, 1)",
    "squeeze": "crt.zeros(1, 3, 1).squeeze(-1).shape",
    "unsqueeze": "crt.zeros(3).unsqueeze(0).shape",
    "expand": "crt.tensor([[1], [2]]).expand(-1, 3)",
    "narrow": "crt.arange(6).narrow(0, 2, 3)",
    "select": "crt.arange(6).reshape(2, 3).select(1, -1)",
    "flatten": "crt.zeros(2, 3, 4).flatten(1).shape",
    "cat": "crt.cat([crt.tensor([[1, 2]]), crt.tensor([[3, 4]])], dim=0)",
    "stack": "crt.stack([crt.tensor([1, 2]), crt.tensor([3, 4])], dim=1)",
    "index_select": "crt.index_select(crt.tensor([10, 20, 30]), 0, crt.tensor([2, 0]))",
    "gather": "crt.gather(crt.tensor([[1, 2], [3, 4]]), 1, crt.tensor([[1], [0]]))",
    "sort": "crt.sort(crt.tensor([3, 1, 2]), descending=True)",
    "topk": "crt.topk(crt.tensor([3.0, 1.0, 2.0]), 2)",
    "sum": "crt.sum(crt.tensor([[1, 2], [3, 4]]), 1, keepdim=True)",
    "mean": "crt.mean(crt.tensor([[1.0, 2.0], [3.0, 4.0]]), dims=[0])",
    "prod": "crt.prod(crt.tensor([2.0, 3.0]))",
    "amax": "crt.amax(crt.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)",
    "amin": "crt.amin(crt.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)",
    "any": "crt.any(crt.tensor([[0, 2], [0, 0]]), 1)",
    "all": "crt.all(crt.tensor([[1, 2], [0, 4]]), 1)",
    "argmax": "crt.argmax(crt.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)",
    "argmin": "crt.argmin(crt.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)",
    "softmax": "crt.softmax(crt.tensor([0.0, 1.0, 2.0]), dim=-1)",
    "log_softmax": "crt.log_softmax(crt.tensor([0.0, 1.0, 2.0]))",
    "matmul": "crt.matmul(crt.tensor([[1.0, 2.0]]), crt.tensor([[3.0], [4.0]]))",
    "full": "crt.full((2, 2), 1.5)",
    "zeros": "crt.zeros(2, 2)",
    "ones": "crt.ones(2, dtype=crt.int64)",
    "arange": "crt.arange(0.0, 1.0, 0.25)",
    "rand": "crt.rand(3, seed=7)",
    "randn": "crt.randn(3, seed=7)",
    "linear": "crt.linear(crt.tensor([[1.0, 2.0]]), crt.tensor([[3.0, 4.0], [5.0, 6.0]]))",
    "embedding": "crt.embedding(crt.tensor([[1.0, 2.0], [3.0, 4.0]]), crt.tensor([1, 0]))",
    "dequantize": "crt.dequantize(crt.ones(1, 3, dtype=crt.bfloat16))",
    "rms_norm": "crt.rms_norm(crt.tensor([[3.0, 4.0]]), 2, crt.tensor([1.0, 2.0]))",
    "add_rms_norm": (
        "normed, total = crt.add_rms_norm(crt.tensor([[1.0, 2.0]]), crt.tensor([[2.0, 2.0]]))\n"
        "total"
    ),
    "layer_norm": "crt.layer_norm(crt.tensor([[1.0, 2.0, 3.0]]), 3)",
    "rotary": (
        "x = crt.tensor([1.0, 2.0, 0.0, 0.0]).reshape(1, 1, 4)\n"
        "crt.rotary(x, crt.tensor([1]), crt.tensor([1.0, 0.01]))"
    ),
    "kv_append": (
        "pool = crt.zeros(2, 2, 1, 2)\n"
        "crt.kv_append(pool, crt.ones(1, 1, 2), crt.tensor([3]).to(crt.int32))\n"
        "pool.flatten()"
    ),
    "rotary_append": (
        "keys, values = crt.zeros(1, 2, 1, 2), crt.zeros(1, 2, 1, 2)\n"
        "rows = crt.tensor([1.0, 0.0]).reshape(1, 1, 2)\n"
        "slots = crt.tensor([1]).to(crt.int32)\n"
        "where = crt.tensor([1]), crt.tensor([1.0])\n"
        "turned, _, _ = crt.rotary_append(rows, rows, rows, *where, keys, values, slots)\n"
        "turned.flatten(), keys.flatten(), values.flatten()"
    ),
    "paged_attention": (
        "keys = values = crt.arange(4, dtype=crt.float32).reshape(1, 2, 1, 2)\n"
        "query = crt.ones(1, 1, 2)\n"
        "table, starts, lengths = (\n"
        "    crt.tensor(x).to(crt.int32) for x in ([[0]], [0, 1], [2])\n"
        ")\n"
        "crt.paged_attention(query, keys, values, table, starts, lengths, scale=0.5)"
    ),
    "sample": (
        "row = [crt.tensor([x]) for x in (0.0, 1.0, 0.0)]\n"
        "ids = [crt.zeros(1, dtype=kind) for kind in (crt.int32, crt.int64, crt.int64)]\n"
        "crt.sample(crt.tensor([[0.1, 2.0, 0.3]]), *row, *ids)"
    ),
    "mirostat": (
        "ids = crt.tensor([1]).to(crt.int32)\n"
        "columns = [crt.tensor([x]) for x in (1.0, 3.0, 0.1, 1.0)]\n"
        "draw = crt.tensor([7]), crt.tensor([0]), crt.tensor([2]).to(crt.int32)\n"
        "token, mu = crt.mirostat(crt.tensor([[0.1, 5.0, 0.3]]), ids, *columns, *draw)\n"
        "token, mu"
    ),
    "bias_logits": (
        "ids, spans = crt.tensor([2, 0]).to(crt.int32), crt.tensor([[0, 2]]).to(crt.int32)\n"
        "crt.bias_logits(crt.zeros(1, 3), ids, crt.tensor([1.5, float('-inf')]), spans)"
    ),
    "mask_logits": ("crt.mask_logits(crt.zeros(1, 3), crt.tensor([[0b101]]).to(crt.int32))"),
    "penalize_logits": (
        "history = crt.tensor([2, 0, 0]).to(crt.int32)\n"
        "spans = crt.tensor([[0, 1, 3]]).to(crt.int32)\n"
        "columns = [crt.tensor([x]) for x in (2.0, 0.5, 0.25, 0.0, 1.75)]\n"
        "dry = [crt.tensor([x]).to(crt.int32) for x in (2, 3)]\n"
        "crt.penalize_logits(crt.ones(1, 3), history, spans, *columns, *dry)"
    ),
    "top_logprobs": (
        "chosen, best, ids = crt.top_logprobs(\n"
        "    crt.tensor([[0.0, 2.0, 1.0]]), crt.tensor([2]).to(crt.int32), 2\n"
        ")\n"
        "chosen, best, ids"
    ),
}


def examples() -> dict[str, str]:
    """The examples of all operators."""
    from .. import _kit

    _kit._load()
    return EXAMPLES


def run(name: str) -> object:
    """Runs an example; the value of its last line."""
    import clika_runtime as crt

    *before, last = examples()[name].split("\n")
    space = {"crt": crt}
    exec("\n".join(before), space)
    return eval(last, space)
