"""The packages under ``examples/plugins``: built, installed and used, as a stranger's are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.plugins.dists import Site
from tests.unit.tokenizer.small import write_gguf

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
NAMES = (
    "backend-abacus",
    "family-otter",
    "format-pebble",
    "model-otter-pup",
    "transform-census",
)
REPLY = " hold hands while they sleep\n"


def build(project: Path, folder: Path) -> Path:
    """The wheel of a project, by the build backend that its pyproject.toml names."""
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "wheel"]
    command += ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(folder)]
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", "")))
    done = subprocess.run(
        [*command, str(project)], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob(f"{read_name(project).replace('-', '_')}-*.whl")
    return wheel


def read_name(project: Path) -> str:
    lines = (project / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    (name,) = (line.split('"')[1] for line in lines if line.startswith("name = "))
    return name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """All packages, installed by pip into a folder of their own."""
    root = tmp_path_factory.mktemp("examples")
    made = Site(root)
    sources = root / "sources"
    clean = shutil.ignore_patterns("weights", "__pycache__", "dist", "*.egg-info")
    shutil.copytree(EXAMPLES, sources, ignore=clean)
    subprocess.run([sys.executable, str(sources / "model-otter-pup" / "make_model.py")], check=True)
    made.pip_install_wheels(*(build(sources / name, made.wheels) for name in NAMES))
    return made


def cli(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys\nfrom clika_runtime.modelverse.cli import main\nsys.exit(main({words!r}))"
    return site.run(code)


def test_examples_are_small() -> None:
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()) == sorted(NAMES)
    for name in NAMES:
        files = list((EXAMPLES / name).rglob("*.py"))
        lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
        assert 0 < len([line for line in lines if line.strip()]) <= 120, name
        assert (EXAMPLES / name / "README.md").is_file()


def test_all_are_listed(site: Site) -> None:
    answer = site.ask(
        """
        from clika_runtime import plugins
        tables = (plugins.backends, plugins.families, plugins.models, plugins.transforms,
                  plugins.tool_parsers)
        rows = [row for table in tables for row in table().values()]
        answer = [{row.name: [row.distribution, row.version] for row in rows},
                  [str(item) for item in plugins.broken()]]
        """
    )
    expected = {
        "abacus": ["clika-runtime-abacus", "1.0.0"],
        "otter": ["clika-family-otter", "1.0.0"],
        "otter-pup": ["otter-pup", "1.0.0"],
        "census": ["clika-transform-census", "1.0.0"],
        "pebble": ["clika-format-pebble", "1.0.0"],
    }
    assert expected.items() <= answer[0].items()
    assert answer[1] == []
    catalog = json.loads(cli(site, "list", "--json").stdout)
    (otter,) = (row for row in catalog["families"] if row["family"] == "otter")
    assert (otter["runnable"], otter["verbs"]) == (True, ["prompt"])
    devices = json.loads(cli(site, "devices", "--json").stdout)
    (abacus,) = (row for row in devices["backends"] if row["kind"] == "abacus")
    assert (abacus["status"], abacus["distribution"]) == ("available", "clika-runtime-abacus")


# ---------------------------------------------------------------- model package and family
def test_package_source_answers(site: Site) -> None:
    done = cli(site, "pkg:otter-pup", "prompt", "otters")
    assert (done.returncode, done.stdout) == (0, REPLY), done.stderr
    other = cli(site, "pkg:otter-pup==1.0.0", "prompt", "so a pup", "-q")
    assert (other.returncode, other.stdout) == (0, " floats on its mother's belly\n"), other.stderr


def test_package_source_is_described(site: Site) -> None:
    done = cli(site, "info", "pkg:otter-pup", "--json")
    (facts,) = json.loads(done.stdout)["models"]
    assert (facts["family"], facts["license"]) == ("otter", "Apache-2.0")
    expected = {
        "kind": "package",
        "package": "otter-pup",
        "version": "1.0.0",
        "found": "registered",
    }
    assert expected.items() <= facts["origin"].items()


def test_model_on_the_backend_of_another_package(site: Site) -> None:
    done = cli(site, "pkg:otter-pup", "prompt", "otters", "--device", "abacus", "-v")
    assert (done.returncode, done.stdout) == (0, REPLY), done.stderr
    assert "device" in done.stderr and "abacus:0 (flag)" in done.stderr


SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "rope_theta": 100.0,
    "rms_norm_eps": 1e-5,
}
CONFORMANCE = """
import json, sys
import numpy as np
from clika_runtime.modelverse.cache import CacheConfig, KVCache
from clika_runtime.modelverse.engine import Engine
from clika_runtime.modelverse.loader import LoadOptions, load_model
from clika_runtime.testing import families
folder, ids = FOLDER, IDS
loaded = load_model(folder, LoadOptions())
cache = KVCache(loaded.model.cache_specs(), CacheConfig(max_tokens=64, max_sequences=8,
                                                        block_size=16))
engine = Engine(loaded.model, cache)
families.check_same_bits(engine, ids, chunks=(1, 5))
families.check_cache_edits(engine, ids)
np.save(folder + "/logits.npy", engine.logits(ids))
answer = True
"""


def write_random(folder: Path) -> dict[str, Any]:
    """An otter checkpoint with large random weights; norms away from 1."""
    from clika_runtime.io import write_safetensors

    draw = np.random.default_rng(7)
    hidden, wide, vocab = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden)}
    shapes["model.norm.weight"] = (hidden,)
    for layer in range(int(SIZES["num_hidden_layers"])):
        name = f"model.layers.{layer}."
        shapes[name + "input_layernorm.weight"] = (hidden,)
        shapes[name + "mlp.up_proj.weight"] = (wide, hidden)
        shapes[name + "mlp.down_proj.weight"] = (hidden, wide)
        for part in "qkvo":
            shapes[f"{name}self_attn.{part}_proj.weight"] = (hidden, hidden)
    weights = {
        name: (draw.uniform(0.5, 1.5, shape) if len(shape) == 1 else draw.normal(0, 0.3, shape))
        for name, shape in shapes.items()
    }
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    rows = {name: ("float32", value.shape, value) for name, value in weights.items()}
    write_safetensors(folder / "model.safetensors", rows)
    (folder / "config.json").write_text(json.dumps({"model_type": "otter", **SIZES}))
    return weights


def otter_logits(
    weights: dict[str, Any], ids: Sequence[int], *, rope: bool = True, parallel: bool = True
) -> Any:
    """The otter model written out with PyTorch's own functions, float64."""
    import torch
    from torch.nn.functional import embedding, linear, relu, rms_norm, scaled_dot_product_attention

    w = {name: torch.tensor(value).double() for name, value in weights.items()}
    heads, hidden = int(SIZES["num_attention_heads"]), int(SIZES["hidden_size"])
    size = hidden // heads
    angles = torch.arange(len(ids))[:, None] / SIZES["rope_theta"] ** (
        torch.arange(0, size, 2).double() / size
    )

    def norm(x: Any, name: str) -> Any:
        return rms_norm(x, (hidden,), w[name], SIZES["rms_norm_eps"])

    def rotate(x: Any) -> Any:  # [heads, tokens, size]; pairs are halves
        if not rope:
            return x
        pairs = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([pairs.real, pairs.imag], -1)

    h = embedding(torch.tensor(list(ids)), w["model.embed_tokens.weight"])
    for layer in range(int(SIZES["num_hidden_layers"])):
        name = f"model.layers.{layer}."
        x = norm(h, name + "input_layernorm.weight")
        q, k, v = (
            linear(x, w[f"{name}self_attn.{part}_proj.weight"])
            .view(-1, heads, size)
            .transpose(0, 1)
            for part in "qkv"
        )
        mixed = scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        mixed = mixed.transpose(0, 1).reshape(-1, hidden)
        attended = linear(mixed, w[name + "self_attn.o_proj.weight"])
        if not parallel:
            x = norm(h + attended, name + "input_layernorm.weight")
        wide = relu(linear(x, w[name + "mlp.up_proj.weight"])) ** 2
        h = h + attended + linear(wide, w[name + "mlp.down_proj.weight"])
    return linear(norm(h, "model.norm.weight"), w["model.embed_tokens.weight"]).numpy()


def test_family_conforms(site: Site, tmp_path: Path) -> None:
    weights = write_random(tmp_path)
    ids = [int(i) for i in np.random.default_rng(3).integers(0, SIZES["vocab_size"], 40)]
    code = CONFORMANCE.replace("FOLDER", repr(str(tmp_path))).replace("IDS", repr(ids))
    assert site.ask(code) is True
    got = np.load(tmp_path / "logits.npy")
    want = otter_logits(weights, ids)
    # float32 against float64: the bar of every family, a ten-thousandth of the largest logit.
    bar = 1e-4 * np.abs(want).max()
    assert np.abs(got - want).max() <= bar
    for other in ({"rope": False}, {"parallel": False}):
        assert np.abs(got - otter_logits(weights, ids, **other)).max() > 50 * bar, other


def test_damaged_config_is_refused_by_name(site: Site, tmp_path: Path) -> None:
    write_random(tmp_path)
    config = {"model_type": "otter", **SIZES, "num_attention_heads": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = cli(site, str(tmp_path), "prompt", "otters")
    assert done.returncode == 1
    assert "'hidden_size' is 32, no even multiple of 3 heads" in done.stderr


# ---------------------------------------------------------------- backend
def test_backend_passes_the_operator_cases(site: Site, tmp_path: Path) -> None:
    """The shipped cases through the pytest option; what the backend leaves out is skipped."""
    operators = "add,embedding,linear,matmul,paged_attention,rms_norm,rotary,sample,softmax,swiglu"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
    command += ["--clika-backend", "abacus", "--clika-ops", operators]
    environ = {**os.environ, "PYTHONPATH": str(site.path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stdout[-4000:]
    summary = done.stdout.splitlines()[-1]
    assert "failed" not in summary and int(summary.split(" passed")[0]) > 100, summary


def test_backend_composes_and_declines(site: Site) -> None:
    """float64 is no dtype of the abacus, and it has no kernel of softmax."""
    answer = site.ask(
        """
        import clika_runtime as crt
        x = crt.tensor([[1.0, 2.0, 4.0]], device="abacus")
        refused = []
        for dtype in (crt.float64, crt.bfloat16):
            try:
                x.to("cpu").to(dtype).to("abacus").exp()
            except crt.UnsupportedError as error:
                refused.append([error.code_name, str(error)])
        answer = [crt.softmax(x, -1).cpu().tolist(), str(x.device), refused]
        """
    )
    weights = np.exp([1.0, 2.0, 4.0])
    np.testing.assert_allclose(answer[0], [weights / weights.sum()], rtol=1e-6)
    assert answer[1] == "abacus:0"
    for code, text in answer[2]:
        assert code == "NOT_IMPLEMENTED_FOR_DTYPE"
        assert "exp" in text and "abacus" in text


# ---------------------------------------------------------------- transform
def test_transform_reads_a_graph(site: Site) -> None:
    answer = site.ask(
        """
        import logging
        import clika_runtime as crt
        from clika_runtime.graph import transforms
        lines = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record.getMessage())
        logger = logging.getLogger("clika_transform_census")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        def model(x):
            return crt.exp(crt.exp(x)) + 1.0
        graph = crt.trace(model, example_inputs=(crt.ones(2, 3),)).graph
        census = transforms.plugin("census")
        before = graph.nodes()
        (row,) = graph.optimize([census]).transforms
        unknown = "other"
        try:
            transforms.plugin(unknown)
        except crt.NotFoundError as error:
            unknown = str(error)
        same = row.transform is transforms.plugin("census") and graph.nodes() == before
        answer = [row.transform.name, row.applications, same, lines, unknown]
        """
    )
    assert answer == [
        "census",
        0,
        True,
        ["3 operators: 2 Exp, 1 Add"],
        "transforms: no installed package registers a transform 'other'; registered: census",
    ]


# ---------------------------------------------------------------- format of tool calls
def test_format_reads_and_forces_calls(site: Site, tmp_path: Path) -> None:
    """A stranger's format, whole and cut at every place, and its grammar."""
    vocabulary = tmp_path / "tiny.gguf"
    write_gguf(vocabulary)
    answer = site.ask(
        f"""
        import sys
        from clika_runtime import plugins
        from clika_runtime.modelverse.constraints import compile_constraint
        from clika_runtime.modelverse.tools import (
            OutputParser, collect, forced_call, parse_reply, tool_format)
        from clika_runtime.tokenizer import Tokenizer

        plugins.tool_parsers()
        late = "clika_format_pebble.pebble" not in sys.modules
        text = 'Look: <@now {{"zone": "UTC"}}@> and <@ nothing'
        whole = parse_reply(text, "pebble")
        same = True
        for at in range(len(text) + 1):
            parser = OutputParser("pebble")
            events = parser.push(text[:at]) + parser.push(text[at:]) + parser.finish()
            same = same and collect(events) == whole
        tokenizer = Tokenizer.from_gguf({str(vocabulary)!r})
        tools = [{{"name": "now", "parameters": {{"type": "object", "properties": {{}},
                                                "additionalProperties": False}}}}]
        spec = forced_call(tokenizer, tool_format("pebble"), tools)
        state = compile_constraint(tokenizer, spec).start()
        for token in tokenizer.encode("<@now {{}}@>", add_special_tokens=False):
            state.accept(token)
        answer = [late, same, whole.text, [[c.name, c.arguments] for c in whole.calls],
                  state.finished]
        """
    )
    assert answer == [
        True,
        True,
        "Look:and <@ nothing",
        [["now", '{"zone": "UTC"}']],
        True,
    ]


def test_format_without_code_is_named(site: Site) -> None:
    done = site.run(
        """
        from clika_runtime import plugins
        from clika_runtime.modelverse.tools import tool_format
        import clika_format_pebble.pebble as code
        code.Pebble = 3
        try:
            tool_format("pebble")
        except Exception as error:
            print(type(error).__name__, error.code_name, error)
        """
    )
    assert done.stdout.startswith(
        "InternalError PLUGIN_FAILED plugin 'pebble' of clika-format-pebble"
    )
    assert "is no subclass of ToolFormat" in done.stdout
