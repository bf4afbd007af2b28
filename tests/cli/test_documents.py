"""Every JSON document of the command line against its schema under ``docs/schemas``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from clika_runtime import plugins
from tests.cli.harness import call, environment, install_family, install_plugin
from tests.cli.tiny import COUNTING, write_model

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
NAMES = (
    "check",
    "devices",
    "doctor",
    "embed",
    "list",
    "memory-stages",
    "prompt",
    "score",
    "similar",
)


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def validated(name: str, text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(schema(name)).validate(document)
    return document


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A good family, a hidden one, a broken one and a broken backend beside ours."""
    site = tmp_path / "site"
    install_family(site, "plover", verbs=("prompt",), load="plover_model:FAMILY", license_page="x")
    install_family(site, "dunlin", hidden=True)
    broken = "import no_such_module_here"
    install_plugin(site, "clika-family-dipper", "1", "clika_runtime.families", "dipper", broken)
    install_plugin(site, "clika-runtime-reed", "1", "clika_runtime.backends", "reed", broken)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(plugins, "_registry", None)


def test_list(site: None) -> None:
    document = validated("list", call("list", "--json").out)
    assert {"plover", "dunlin", "llama"} <= {row["family"] for row in document["families"]}
    assert [row["plugin"] for row in document["broken"]] == ["dipper"]


def test_devices(site: None) -> None:
    document = validated("devices", call("devices", "--json").out)
    assert document["devices"][0]["device"] == "CPU:0"
    assert {row["kind"] for row in document["backends"]} >= {"cpu", "reed"}


def test_doctor(site: None) -> None:
    result = call("doctor", "--json")
    document = validated("doctor", result.out)
    assert (result.status, document["healthy"]) == (1, False)


def test_check(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", COUNTING)
    result = call("check", model, "--json", "--assume-device", "phone=8G")
    assert len(validated("check", result.out)["devices"]) >= 2


def test_score_embed_and_similar(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", COUNTING)
    text = tmp_path / "t.txt"
    text.write_text("0123456789" * 5)
    document = validated("score", call(model, "score", text, "--json", "--max-seq", "32").out)
    assert (document["window"], document["stride"], document["scored"]) == (32, 16, 49)
    words = ("one", "two", "three")
    document = validated("similar", call(model, "similar", *words, "--json").out)
    assert [len(row) for row in document["scores"]] == [3, 3, 3]
    document = validated("similar", call(model, "similar", *words, "--json", "--top-k", "1").out)
    assert [len(row) for row in document["nearest"]] == [1, 1, 1]
    result = call(model, "embed", *words, "--json", "--output", tmp_path / "v")
    document = validated("embed", result.out)
    assert [len(row["vector"]) for row in document["vectors"]] == [document["dimensions"]] * 3
    assert (tmp_path / "v.json").read_text() == result.out
    lines = (tmp_path / "v.csv").read_text().splitlines()
    assert len(lines) == 4 and lines[0].startswith("index,text,v0,v1,")


def test_memory_stages(tmp_path: Path) -> None:
    """A line at each stage, appended; the pool holds the cache and the plans by then."""
    model = write_model(tmp_path / "m", COUNTING, template=None)
    path = tmp_path / "stages.json"
    for count in (1, 2):
        result = call(model, "prompt", "12", "--memory-stages", path, "--max-new-tokens", "3")
        assert (result.status, result.out) == (0, "345\n")
        lines = [validated("memory-stages", line) for line in path.read_text().splitlines()]
        assert [line["stage"] for line in lines] == ["weights", "forward", "generation"] * count
    (device,) = lines[-1]["devices"]
    assert device["device"] == "CPU:0" and device["peak_bytes"] > 0
    weights = (model / "model.safetensors").stat().st_size
    assert {line["checkpoint_bytes"] for line in lines} == {weights}
    result = call(model, "prompt", "12", "--memory-stages", tmp_path / "absent" / "f")
    assert (result.status, result.out) == (2, "")
    assert "argument --memory-stages" in result.err


def test_the_reference_page_is_current() -> None:
    script = SCHEMAS.parents[1] / "scripts" / "generate_command_line.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_schema_tells_documents_apart() -> None:
    with pytest.raises(jsonschema.ValidationError):
        validated("list", call("devices", "--json").out)


def test_prompt(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", COUNTING, template=None)
    words = (model, "prompt", "3", "--max-new-tokens", "3", "-q", "--json")
    assert validated("prompt", call(*words).out)["text"] == "456"
    told = validated("prompt", call(*words, "--top-logprobs", "3").out)
    assert [len(item["top"]) for item in told["logprobs"]] == [3, 3, 3]
