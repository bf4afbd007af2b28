"""GGUF files for benchmarks: a model in other types, random models of a given shape."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK = 1 << 24  # weights that are made at a time

# Random blocks: where the float16 scales of a block stand, and those of minima.
SCALES: Mapping[str, tuple[int, ...]] = {
    "Q4_0": (0,),
    "Q8_0": (0,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_XS": (0,),
}
BLOCK_TYPES = tuple(SCALES)
# A minimum that puts the middle of 4- and 5-bit codes near zero, as a part of the scale.
MINIMUM = {"Q4_K": 7.5, "Q5_K": 15.5}


@dataclass(frozen=True)
class Shape:
    """Sizes of a llama."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int

    def matrices(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """(name, rows and columns) of the layers' matrices, in their order."""
        keys = self.hidden // self.heads * self.kv_heads
        for layer in range(self.layers):
            block = f"blk.{layer}"
            yield f"{block}.attn_q.weight", (self.hidden, self.hidden)
            yield f"{block}.attn_k.weight", (keys, self.hidden)
            yield f"{block}.attn_v.weight", (keys, self.hidden)
            yield f"{block}.attn_output.weight", (self.hidden, self.hidden)
            yield f"{block}.ffn_gate.weight", (self.intermediate, self.hidden)
            yield f"{block}.ffn_up.weight", (self.intermediate, self.hidden)
            yield f"{block}.ffn_down.weight", (self.hidden, self.intermediate)


LLAMA3_8B_LAYERS = Shape(4096, 14336, 2, 32, 8, 1024)


# ---------------------------------------------------------------- what a file holds
@dataclass(frozen=True)
class Facts:
    """``name`` and ``kind`` (the type of most bytes) of a model, the bytes that decoding a token
    reads, and the products that a token of a prompt takes in the layers."""

    name: str
    kind: str
    decode_bytes: int
    layer_products: int

    @property
    def subject(self) -> str:
        return f"{self.name} {self.kind}"


# Known models by architecture, layers and width: files carry all kinds of names.
_NAMES = {
    ("llama", 30, 576): "SmolLM2-135M",
    ("gemma3", 18, 640): "Gemma-3-270M",
    ("qwen2", 24, 896): "Qwen2.5-Coder-0.5B",
    ("llama", 2, 4096): "Llama-3-8B layers",
}


def facts(path: Path) -> Facts:
    """A table that is only gathered from does not count; one that is the head too does."""
    import gguf

    reader = gguf.GGUFReader(str(path))
    architecture = reader.fields["general.architecture"].contents()
    sizes = [
        int(reader.fields[f"{architecture}.{key}"].contents())
        for key in ("block_count", "embedding_length")
    ]
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    table = tensors["token_embd.weight"]
    gathered = "output.weight" in tensors
    held: Counter[str] = Counter()
    for tensor in tensors.values():
        held[tensor.tensor_type.name] += int(tensor.n_bytes)
    products = sum(
        int(tensor.n_elements)
        for name, tensor in tensors.items()
        if name.startswith("blk.") and len(tensor.shape) == 2
    )
    read = sum(held.values()) - (int(table.n_bytes) if gathered else 0)
    name = _NAMES.get((architecture, *sizes), path.stem)
    return Facts(name, held.most_common(1)[0][0], read, products)


# ---------------------------------------------------------------- writing
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


@contextmanager
def _writing(target: Path, architecture: str = "llama") -> Iterator[Any]:
    """A writer of a file that appears under its name when it is complete."""
    import gguf

    part = target.with_suffix(".part")
    writer = gguf.GGUFWriter(str(part), architecture)
    yield writer
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(target)


_ABOUT_TYPES = ("general.file_type", "general.quantization_version")


def convert(source: Path, target: Path, kind: str = "F32") -> None:
    """The same model with every matrix in a type that the `gguf` package writes, vectors as
    float32."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(str(source))
    wanted = gguf.GGMLQuantizationType[kind]
    architecture = reader.fields["general.architecture"].contents()
    with _writing(target, architecture) as writer:
        copy_metadata(reader, writer, _ABOUT_TYPES)
        for tensor in reader.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            if kind == "F32" or len(tensor.shape) == 1:
                writer.add_tensor(tensor.name, values)
            else:
                writer.add_tensor(
                    tensor.name, gguf.quants.quantize(values, wanted), raw_dtype=wanted
                )


def converted(source: Path, folder: Path, kind: str) -> Path:
    """The file that `convert` makes, made once in a folder."""
    stat = source.stat()
    target = folder / f"{source.stem}-{stat.st_size}-{int(stat.st_mtime)}-{kind}.gguf"
    if not target.is_file():
        print(f"  writing {target}", flush=True)
        convert(source, target, kind)
    return target


def write_llama(
    target: Path,
    shape: Shape,
    tokenizer: Callable[[Any], None],
    tensors: Callable[[Any], None],
) -> None:
    """A llama's file: the sizes, what ``tokenizer`` and ``tensors`` add to the writer, and norms of
    ones."""
    import numpy as np

    with _writing(target) as writer:
        tokenizer(writer)
        writer.add_context_length(2048)
        writer.add_embedding_length(shape.hidden)
        writer.add_block_count(shape.layers)
        writer.add_feed_forward_length(shape.intermediate)
        writer.add_head_count(shape.heads)
        writer.add_head_count_kv(shape.kv_heads)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(shape.hidden // shape.heads)
        writer.add_vocab_size(shape.vocabulary)
        tensors(writer)
        norms = [
            f"blk.{i}.{part}" for i in range(shape.layers) for part in ("attn_norm", "ffn_norm")
        ]
        for norm in (*norms, "output_norm"):
            writer.add_tensor(f"{norm}.weight", np.ones(shape.hidden, np.float32))


def random_model(source: Path, target: Path, hidden: int, intermediate: int) -> None:
    """A llama of two layers with random weights and the source's tokenizer."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(str(source))
    vocabulary = len(reader.fields["tokenizer.ggml.tokens"].contents())
    shape = Shape(hidden, intermediate, 2, 16, 4, vocabulary)
    random = np.random.default_rng(7)

    def tensors(writer: Any) -> None:
        # A peaked distribution, like a trained model's.
        matrices = [("token_embd.weight", (vocabulary, hidden)), *shape.matrices()]
        for name, sizes in matrices:
            scale = 4.0 if name.startswith("token") else 2.0 if ".ffn_" in name else 1.0
            values = random.standard_normal(sizes, dtype=np.float32) * scale
            writer.add_tensor(name, (values / np.sqrt(sizes[-1])).astype(np.float32))

    without = (*_ABOUT_TYPES, "llama.")
    write_llama(target, shape, lambda writer: copy_metadata(reader, writer, without), tensors)


# ---------------------------------------------------------------- random blocks
def random_blocks(kind: str, rows: int, columns: int, random: Any) -> Any:
    """Random codes under scales that give numbers of deviation ``columns ** -0.5``: uint8 [rows,
    bytes of a row]. Nobody has to quantize: the package does not write all of these types."""
    import gguf
    import numpy as np

    wanted = gguf.GGMLQuantizationType[kind]
    block, nbytes = gguf.GGML_QUANT_SIZES[wanted]

    def codes(count: int, scale: float) -> Any:
        data = random.integers(0, 256, (count, nbytes), np.uint8)
        for place, at in enumerate(SCALES[kind]):
            value = np.float16(scale * MINIMUM[kind] if place else scale)
            data[:, at : at + 2] = np.frombuffer(value.tobytes(), np.uint8)
        return data

    sample = gguf.quants.dequantize(codes(4096, 1.0), wanted)
    scale = columns**-0.5 / float(sample.std())
    parts = []
    step = max(1, _CHUNK // columns)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        parts.append(codes(count * columns // block, scale).reshape(count, -1))
    return np.concatenate(parts)


def letters(writer: Any, vocabulary: int) -> None:
    """A byte-level tokenizer of some size: 256 bytes, pairs of letters, words that no text has."""
    from tests.cli.tiny import byte_alphabet

    small = "abcdefghijklmnopqrstuvwxyz"
    pairs = [(a, b) for a in small for b in small][: max(0, vocabulary - 257)]
    tokens = ["<|end|>", *byte_alphabet().values(), *(a + b for a, b in pairs)]
    tokens += [f"<|{number}|>" for number in range(vocabulary - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges([f"{a} {b}" for a, b in pairs])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


def random_layers(target: Path, shape: Shape, kind: str) -> None:
    """A llama with random blocks of one type."""
    import gguf
    import numpy as np

    random = np.random.default_rng(7)
    table = ("token_embd.weight", (shape.vocabulary, shape.hidden))

    def tensors(writer: Any) -> None:
        for name, (rows, columns) in (table, *shape.matrices()):
            data = random_blocks(kind, rows, columns, random)
            writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])

    write_llama(target, shape, lambda writer: letters(writer, shape.vocabulary), tensors)


# ---------------------------------------------------------------- llama.cpp's quantizer
def quantize(source: Path, target: Path, file_type: str, pure: bool) -> None:
    """llama.cpp's own quantizer, with an importance matrix of ones where it is ``pure``."""
    import gguf
    import llama_cpp as lib

    params = lib.llama_model_quantize_default_params()
    params.nthread = 2
    params.ftype = getattr(lib, f"LLAMA_FTYPE_MOSTLY_{file_type}")
    params.pure = pure
    kept: list[Any] = []
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
