"""The programs of the documentation's pages, with the output that the pages state.

``CLIKA_ACCEPTANCE_DIR`` names a folder of them: ``run.py`` and one folder for each page. Without it
the tests are skipped. Programs that need a real model get SmolLM2-135M as Q8_0, made from the Q4_1
file that its package carries, and those that need tokenizer files get the ones that transformers
makes of it; where there is no network and no such file, they are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("CLIKA_ACCEPTANCE_DIR") or "absent").absolute()

#: The pages whose programs run today. A page is added when its programs do.
PAGES = (
    "CompiledFunction",
    "author-a-model-in-python",
    "coming-from-pytorch",
    "control-async-execution",
    "edit-a-graph",
    "first-model-use-it-from-code",
    "first-program-devices-and-async",
    "first-program-serve-it",
    "first-program-tensors-and-operators",
    "first-program-your-first-pipeline",
    "first-program-your-first-program",
    "handle-errors-by-code",
    "license-the-runtime",
    "load-quantized-weights",
    "merge-and-split",
    "modelverse-overview",
    "optimize-and-finalize",
    "overview",
    "pytrees",
    "query-a-graph",
    "tokenize-and-chat-templates",
    "trace-eager-code-to-graphs",
    "use-clikart-from-python",
    "wrap-existing-memory",
    "write-a-custom-operator",
    "write-a-transform",
)
#: Programs of these pages that need what is not there yet: models read from ONNX files.
NOT_YET = {
    "optimize-and-finalize/channels_last.py",
    "query-a-graph/compile_a_model.py",
}
#: What a program may lack. Anything else that is missing is a failure.
MAY_LACK = ("CLIKA_ACCEPT_ACCELERATOR is not 1", "CLIKA_ACCEPT_LICENSE_CHECK is not 1")

pytestmark = pytest.mark.skipif(
    not (FOLDER / "run.py").is_file(), reason="CLIKA_ACCEPTANCE_DIR names no folder with run.py"
)


@cache
def quantized() -> Path | str:
    """SmolLM2 with every matrix as Q8_0, in the user's cache folder; or why there is none."""
    from clika_runtime.errors import ClikaRTError
    from clika_runtime.modelverse.sources import resolve
    from clika_runtime.modelverse.sources.cache import cache_root, lock
    from tests.conftest import SMOLLM2

    folder = cache_root() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "smollm2-135m-instruct-q8_0.gguf"
    with lock(folder / f"{path.name}.lock"):
        if path.is_file():
            return path
        named = os.environ.get("CLIKA_TEST_SMOLLM2")
        try:
            source = Path(named) if named else resolve(SMOLLM2, quiet=True).entry
        except ClikaRTError as error:
            return f"SmolLM2 cannot be had: {error}"
        part = path.with_suffix(".part")
        requantize(source, part)
        os.replace(part, path)
    return path


def tokenizer_files(model: Path, folder: Path) -> None:
    """The tokenizer of a GGUF file as a hub repository has it, by transformers' conversion."""
    import transformers

    found = transformers.AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
    found.save_pretrained(folder)


def requantize(source: Path, target: Path) -> None:
    """The same checkpoint with what is quantized as Q8_0."""
    import gguf

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    kinds = gguf.GGUFValueType
    for field in reader.fields.values():
        name, kind = field.name, field.types[0] if field.types else None
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        if kind == kinds.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), kind)
    number = gguf.GGMLQuantizationType.Q8_0
    for tensor in reader.tensors:
        if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, tensor.data)
            continue
        dense = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, gguf.quants.quantize(dense, number), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path) -> None:
    folder = FOLDER / page
    assert folder.is_dir(), f"{FOLDER} has no page {page}"
    environment: dict[str, Any] = dict(os.environ)
    text = "".join(program.read_text() for program in folder.glob("*.py"))
    if any(need in text for need in ("smollm2-gguf", "smollm2-tokenizer", "hub-model")):
        model = quantized()
        if isinstance(model, str):
            pytest.skip(model)
        environment["CLIKA_ACCEPT_GGUF"] = str(model)
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / model.name).symlink_to(model)
        environment["CLIKA_ACCEPT_MODEL_DIR"] = str(tmp_path / "model")
        if "smollm2-tokenizer" in text:
            tokenizer_files(model, tmp_path / "tokenizer")
            environment["CLIKA_ACCEPT_TOKENIZER_DIR"] = str(tmp_path / "tokenizer")
    report = tmp_path / "report.json"
    command = [sys.executable, str(FOLDER / "run.py"), "--only", page, "--show"]
    done = subprocess.run(
        [*command, "--json", str(report), "--python", sys.executable],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert report.is_file(), done.stdout + done.stderr
    programs = json.loads(report.read_text())["programs"]
    assert programs, f"{page} has no programs"
    for program in programs:
        if program["name"] in NOT_YET:
            assert program["status"] == "FAIL", f"{program['name']} passes: take it off NOT_YET"
            continue
        assert program["status"] != "FAIL", done.stdout
        if program["status"] == "SKIP":
            lacking = set(program["reason"].split("; "))
            assert lacking <= set(MAY_LACK), f"{program['name']}: {program['reason']}"
