"""Runs mutations of one target: ``python -m tests.fuzz.worker TARGET SEEDS FIRST COUNT``.

Prints a line per mutation: its number and ``ok``, ``refused CLASS`` or ``FAILED what``. The test
reads them, so a line that does not come (a crash, a hang) belongs to the next number.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import random
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from clika_runtime.errors import ClikaRTError
from tests.fuzz.mutate import damage_bytes, damage_template, damage_text

MEMORY = 1 << 30  # bytes of address space over what the imports take
SLOW = 8.0  # seconds of CPU that one file may cost
TEXT = "hello wörld <|im_end|> 12\n"
MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "wörld"}]


def read_views(file: object) -> None:
    for name, info in file.tensors.items():  # type: ignore[attr-defined]
        view = file.view(name)  # type: ignore[attr-defined]
        assert view.nbytes == info.nbytes
        bytes(view[:8]), bytes(view[-8:])


def use_tokenizer(tokenizer: object) -> None:
    ids = tokenizer.encode(TEXT)  # type: ignore[attr-defined]
    text = tokenizer.decode(ids)  # type: ignore[attr-defined]
    stream = tokenizer.streaming_decoder()  # type: ignore[attr-defined]
    pieces = "".join(stream.push(index) for index in ids) + stream.finish()
    if tokenizer._byte_level:  # type: ignore[attr-defined]
        assert pieces == text, "the stream and decode differ"
    tokenizer.tokenize(TEXT)  # type: ignore[attr-defined]
    if tokenizer.has_chat_template:  # type: ignore[attr-defined]
        tokenizer.apply_chat_template(MESSAGES)  # type: ignore[attr-defined]


def all_of(*steps: Callable[[], None]) -> None:
    """Run every step; the first refusal is raised at the end, so that one does not hide the
    others."""
    refusal: ClikaRTError | None = None
    for step in steps:
        try:
            step()
        except ClikaRTError as error:
            refusal = refusal or error
    if refusal is not None:
        raise refusal


def load(path: Path, run: bool) -> None:
    """The model loader over a checkpoint, and (when it loads) a few tokens through the model."""
    from clika_runtime.modelverse.loader import load_model

    loaded = load_model(path)
    if run:
        from clika_runtime.modelverse.cache import CacheConfig, KVCache
        from clika_runtime.modelverse.engine import Engine

        config = CacheConfig(max_tokens=32, max_sequences=1, block_size=16)
        cache = KVCache(loaded.model.cache_specs(), config)
        Engine(loaded.model, cache).extend([cache.add()], [[1, 2, 3]])


def gguf_reader(folder: Path, rng: random.Random) -> None:
    from clika_runtime.io import open_gguf
    from clika_runtime.tokenizer import Tokenizer

    path = folder / "model.gguf"
    data = path.read_bytes()
    structure = data.rfind(b"output_norm.weight") + 64
    path.write_bytes(damage_bytes(data, rng, structure))
    file = open_gguf(path)
    all_of(
        lambda: read_views(file),
        lambda: str(file.architecture).strip() and None,
        lambda: file.metadata_json() and None,
        lambda: use_tokenizer(Tokenizer.from_gguf(file)),
    )


def safetensors_reader(folder: Path, rng: random.Random) -> None:
    from clika_runtime.io import open_safetensors

    path = folder / "single" / "model.safetensors"
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    if rng.random() < 0.5:
        path.write_bytes(damage_bytes(data, rng, 8 + size))
    else:
        header = damage_text(data[8 : 8 + size], rng)
        path.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size :])
    read_views(open_safetensors(path))


def shard_index(folder: Path, rng: random.Random) -> None:
    from clika_runtime.io import open_safetensors

    path = folder / "sharded" / "model.safetensors.index.json"
    path.write_bytes(damage_text(path.read_bytes(), rng))
    read_views(open_safetensors(path.parent))


def tokenizer_json(folder: Path, rng: random.Random) -> None:
    from clika_runtime.tokenizer import Tokenizer

    path = folder / "single" / "tokenizer.json"
    path.write_bytes(damage_text(path.read_bytes(), rng))
    use_tokenizer(Tokenizer.from_file(path))


def tokenizer_config(folder: Path, rng: random.Random) -> None:
    from clika_runtime.tokenizer import Tokenizer

    path = folder / "single" / "tokenizer_config.json"
    path.write_bytes(damage_text(path.read_bytes(), rng))
    use_tokenizer(Tokenizer.from_huggingface(path.parent))


def chat_template(folder: Path, rng: random.Random) -> None:
    from clika_runtime.tokenizer import ChatTemplate
    from tests.fuzz.template import TEMPLATE

    source = damage_template(TEMPLATE, rng)
    ChatTemplate(source, time_limit=1.0).render(MESSAGES, tools=[{"a": [1, {"b": None}]}])


def model_gguf(folder: Path, rng: random.Random) -> None:
    path = folder / "model.gguf"
    data = path.read_bytes()
    tokens = data.find(b"tokenizer.ggml.model")
    if rng.random() < 0.5:  # the hyperparameters, which come first
        path.write_bytes(damage_bytes(data[:tokens], rng, tokens) + data[tokens:])
    else:  # the tensors' names, shapes, types and places
        begin = data.find(b"token_embd.weight") - 8
        end = data.rfind(b"output_norm.weight") + 64
        path.write_bytes(data[:begin] + damage_bytes(data[begin:end], rng, end) + data[end:])
    load(path, True)


def model_config(folder: Path, rng: random.Random) -> None:
    path = folder / "single" / "config.json"
    path.write_bytes(damage_text(path.read_bytes(), rng))
    load(path.parent, True)


def sentencepiece_model(folder: Path, rng: random.Random) -> None:
    from clika_runtime.tokenizer import Tokenizer

    path = folder / "tokenizers" / rng.choice(("bpe.model", "unigram.model"))
    data = path.read_bytes()
    path.write_bytes(damage_bytes(data, rng, len(data)))
    use_tokenizer(Tokenizer.from_file(path))


def rank_file(folder: Path, rng: random.Random) -> None:
    from clika_runtime.tokenizer import Tokenizer

    path = folder / "tokenizers" / "qwen.tiktoken"
    data = path.read_bytes()
    if rng.random() < 0.5:
        path.write_bytes(damage_bytes(data, rng, len(data)))
    else:  # other tokens at the same ranks
        lines = data.splitlines(True)
        for _ in range(rng.choice((1, 2, 20))):
            token = rng.randbytes(rng.choice((0, 1, 2, 3, 40, 512, 513, 100_000)))
            place = rng.randrange(256, len(lines))
            lines[place] = base64.b64encode(token) + b" %d\n" % place
        path.write_bytes(b"".join(lines))
    use_tokenizer(Tokenizer.from_file(path))


def quantized(folder: Path, rng: random.Random) -> None:
    """Damage to the quantization's configuration, to the header, or to codes and scales."""
    place = folder / "quantized"
    place /= rng.choice(sorted(os.listdir(place)))
    path = place / "model.safetensors"
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header, values = data[8 : 8 + size], data[8 + size :]
    kind = rng.random()
    if kind < 0.45:
        config = json.loads((place / "config.json").read_bytes())
        (key,) = config.keys() & {"quantization_config", "compression_config"}
        section = damage_text(json.dumps(config.pop(key)).encode(), rng)
        if rng.random() < 0.2:  # in Model Optimizer's own file
            (place / "hf_quant_config.json").write_bytes(b'{"quantization": %s}' % section)
            (place / "config.json").write_text(json.dumps(config))
        else:
            text = json.dumps(config)[:-1].encode() + b', "%s": %s}' % (key.encode(), section)
            (place / "config.json").write_bytes(text)
    elif kind < 0.75:
        header = damage_text(header, rng)
    else:
        values = damage_bytes(values, rng, len(values))
    path.write_bytes(struct.pack("<Q", len(header)) + header + values)
    load(place, True)


def saved_graph(folder: Path, rng: random.Random) -> None:
    """Damage to the document, to the header or to the constants; what loads is run."""
    import clika_runtime as crt
    from clika_runtime.graph import ModelGraph
    from clika_runtime.graph.saving import FORMAT

    path = folder / "graph.safetensors"
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header, values = json.loads(data[8 : 8 + size]), data[8 + size :]
    kind = rng.random()
    if kind < 0.8:
        metadata = header["__metadata__"]
        document = damage_text(metadata[FORMAT].encode(), rng)
        metadata[FORMAT] = document.decode("utf-8", "replace")
    text = json.dumps(header).encode()
    if kind >= 0.9:
        text = damage_text(text, rng)
    elif kind >= 0.8:
        values = damage_bytes(values, rng, len(values))
    path.write_bytes(struct.pack("<Q", len(text)) + text + values)
    graph = ModelGraph.load(path)
    graph.finalize()
    sizes = [(dtype, [3 if n < 0 else n for n in dims]) for _, dtype, dims in graph.inputs()]
    graph.run([crt.ones(dims, dtype=dtype) for dtype, dims in sizes])


TARGETS: dict[str, Callable[[Path, random.Random], None]] = {
    "gguf": gguf_reader,
    "safetensors": safetensors_reader,
    "index": shard_index,
    "tokenizer_json": tokenizer_json,
    "tokenizer_config": tokenizer_config,
    "chat_template": chat_template,
    "model_gguf": model_gguf,
    "model_config": model_config,
    "sentencepiece": sentencepiece_model,
    "ranks": rank_file,
    "quantized": quantized,
    "graph": saved_graph,
}


def one(target: str, seeds: Path, folder: Path, number: int) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(seeds, folder)
    before = time.process_time()
    try:
        TARGETS[target](folder, random.Random(f"{target} {number}"))
        outcome = "ok"
    except ClikaRTError as error:
        outcome = f"refused {type(error).__name__}"
        if len(str(error)) > 6000:
            outcome = f"FAILED a message of {len(str(error))} characters"
    except BaseException as error:
        text = " ".join(str(error).split())[:300]
        outcome = f"FAILED {type(error).__module__}.{type(error).__name__}: {text}"
    spent = time.process_time() - before
    return outcome if spent < SLOW else f"FAILED {spent:.1f} seconds of CPU, then {outcome}"


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    target, seeds, first, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        shutil.copytree(seeds, work)
        warm_up(target, work)
        if "CLIKA_FUZZ_NO_LIMIT" not in os.environ:  # sanitizers reserve terabytes
            limit_memory()
        for number in range(first, first + count):
            print(number, one(target, seeds, work, number), flush=True)


def warm_up(target: str, folder: Path) -> None:
    """Import and initialize what the target needs, with files that are whole."""
    if target.startswith("model"):
        load(folder / "model.gguf", True)
    elif target == "graph":
        from clika_runtime.graph import ModelGraph

        ModelGraph.load(folder / "graph.safetensors").finalize()
    elif target == "quantized":
        for name in os.listdir(folder / "quantized"):
            load(folder / "quantized" / name, True)
    else:
        from clika_runtime.tokenizer import Tokenizer

        use_tokenizer(Tokenizer.from_huggingface(folder / "single"))


if __name__ == "__main__":
    main()
