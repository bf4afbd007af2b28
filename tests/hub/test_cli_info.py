"""The command ``info`` on repositories of the hub, and its documents."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from clika_runtime import plugins
from tests.cli.harness import call, install_family
from tests.cli.wheels import tiny_gguf
from tests.hub.content import GGUF, REPO, dense_files, gguf_files
from tests.hub.played import PlayedHub

safetensors = pytest.importorskip("safetensors.numpy")
ROOT = Path(__file__).parents[2]
COMMIT = "7ae557604adf67be50417f59c2c2f167def9a775"


@pytest.fixture(autouse=True)
def otter(tmp_path, monkeypatch):
    """A family of otters alone, as an installed plugin."""
    install_family(
        tmp_path / "site",
        "heron",
        model_types=("otter",),
        verbs=("prompt",),
        load="heron_model:FAMILY",
        license_page="https://example.org/otter",
        gguf_architectures=("otter-gguf",),
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("CLIKA_RT_ALLOW_PLUGINS", "heron")
    monkeypatch.setattr(plugins, "_registry", None)


@pytest.fixture
def real(hub: PlayedHub) -> PlayedHub:
    """A repository whose weights are a real safetensors file."""
    files = dense_files()
    weights = {"a.weight": np.zeros((64, 32), np.float16), "b.bias": np.zeros(8, np.float32)}
    files["model.safetensors"] = safetensors.save(weights)
    config = {
        "model_type": "otter",
        "architectures": ["OtterForCausalLM"],
        "max_position_embeddings": 512,
        "torch_dtype": "float16",
        "vision_config": {},
    }
    files["config.json"] = json.dumps(config).encode()
    files["tokenizer_config.json"] = b'{"chat_template": "x"}'
    hub.add(REPO, files, described={"cardData": {"license": "apache-2.0"}})
    described = {
        "cardData": {"license": "apache-2.0", "base_model": REPO},
        "gguf": {"architecture": "otter-gguf", "total": 1024},
    }
    hub.add(GGUF, gguf_files(), described=described, gated="auto", token="hf_x")
    return hub


def whole(hub: PlayedHub, repo: str) -> str:
    return f"{sum(map(len, hub.repos[repo].files.values())) / 1024:.1f} KiB"


def test_a_repository_for_people(real, cache):
    result = call("info", REPO)
    assert (result.status, result.err) == (0, "")
    assert result.lines() == [
        REPO,
        "family=heron model_type=otter architecture=OtterForCausalLM",
        "variant: dense + multimodal",
        "components: tokenizer=yes image=no audio=no video=no",
        "license page: https://example.org/otter",
        f"model: {REPO} provider: otters source: {real.url}/{REPO}",
        f"license: apache-2.0 {real.url}/{REPO}/blob/main/LICENSE",
    ]
    assert not real.asked(r"/blob/|model\.safetensors|/tokenizer\.json")


def test_dry_lists_what_a_fetch_takes(real):
    result = call("info", REPO, "--dry")
    assert result.status == 0
    assert result.lines()[7:] == [
        "companions:",
        f"config.json {len(real.repos[REPO].files['config.json'])} B",
        "generation_config.json 21 B",
        "tokenizer.json 318 B",
        "tokenizer_config.json 22 B",
        "weights:",
        "model.safetensors 4.2 KiB",
        "total: 4.7 KiB (weights 4.2 KiB, 5 files)",
        f"repository: {whole(real, REPO)} in 10 files; the rest is not fetched (other weight "
        "formats, files the fetch never takes)",
        "(dry; nothing downloaded)",
    ]


def test_a_repository_of_quantizations(real):
    """The hub itself states the architecture, so that a gated repository is identified too."""
    result = call("info", GGUF)
    assert (result.status, result.err) == (0, "")
    assert result.lines()[:4] == [
        GGUF,
        "family=heron architecture=otter-gguf",
        "variant: dense",
        "components: tokenizer=no image=no audio=no video=no",
    ]
    assert result.lines()[-1] == f"license: apache-2.0 {real.url}/{GGUF} (gated)"
    assert not real.asked("/resolve/|/blob/")
    dry = call("info", GGUF, "--dry")
    assert dry.status == 0
    assert dry.lines()[7] == f"'{GGUF}' ships 3 weight options; pick one:"
    assert dry.lines()[-3:] == [
        "total: nothing is fetched until one option is selected",
        f"repository: {whole(real, GGUF)} in 6 files; the rest is not fetched (other weight "
        "formats, files the fetch never takes)",
        "(dry; nothing downloaded)",
    ]
    for words in ((f"{GGUF}:Q6_K",), (GGUF, "--weights", "Q6_K")):
        lines = call("info", *words, "--dry").lines()
        assert lines[7:10] == [
            "weights:",
            "Otter-1B-Q6_K.gguf 4.4 KiB",
            "total: 4.4 KiB (weights 4.4 KiB, 1 file)",
        ]


def test_without_the_hubs_word_the_header_says_it(hub):
    hub.add(GGUF, gguf_files())
    result = call("info", GGUF)
    assert result.lines()[1] == "family=heron architecture=otter-gguf"
    assert len(hub.asked("GET /blob/")) == 1
    call("fetch", f"{GGUF}:Q6_K")
    result = call("info", GGUF, "--offline")
    assert result.lines()[1] == "family=heron architecture=otter-gguf"
    assert "license: not known offline" in result.out


@pytest.mark.parametrize(
    ("described", "line"),
    [
        ({"cardData": {"license": "other", "license_name": "otter-1.0"}}, "license: otter-1.0 "),
        ({"cardData": {"license": ["mit", "x"]}}, "license: mit "),
        ({"tags": ["x", "license:apache-2.0"]}, "license: apache-2.0 "),
        ({"cardData": {"license": "a\x1b[2J\nb"}}, "license: a [2J b "),
        ({"cardData": {"license": 7}}, "license: not stated "),
        ({"private": False}, "license: not stated "),
    ],
)
def test_licenses(hub, described, line):
    hub.add(REPO, dense_files(), described=described)
    assert call("info", REPO).lines()[-1] == f"{line}{hub.url}/{REPO}/blob/main/LICENSE"


def test_what_nobody_serves(hub):
    files = dense_files()
    files["config.json"] = b'{"model_type": "walrus", "architectures": ["WalrusModel"]}'
    hub.add(REPO, files)
    result = call("info", REPO)
    assert result.status == 3
    assert "model_type=walrus architecture=WalrusModel" in result.lines()
    assert "no model template registered for model_type='walrus'" in result.out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("info",), 2, "required: SOURCE"),
        (("info", REPO, "--json", "--csv"), 2, "not allowed with"),
        (("info", REPO, "--json", "--dry"), 2, "--dry goes with"),
        (("info", f"{GGUF}:Q2"), 2, "':Q2' matches no option"),
        (("info", "otters/absent"), 1, "is gated or private"),
        (("info", "@absent.txt"), 2, "@absent.txt: cannot be read"),
        (("info", REPO, "--offline"), 1, "it is not in the cache"),
    ],
)
def test_refusals(real, words, status, message):
    result = call(*words)
    assert (result.status, result.out) == (status, "")
    assert message in result.err


# ---------------------------------------------------------------- documents


def document(*words: object, status: int = 0) -> dict:
    """The JSON that a command prints, checked against the schema that it prints."""
    result = call("info", *words, "--json")
    assert result.status == status, result.err
    held = json.loads(result.out)
    schema = json.loads(call("info", "--schema").out)
    jsonschema.Draft202012Validator(schema).validate(held)
    return held


def test_the_schema_is_a_schema_and_the_one_in_the_docs():
    text = call("info", "--schema").out
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert (ROOT / "docs" / "schemas" / "info.json").read_text() == text


def test_the_document_of_a_repository(real):
    (model,) = document(REPO)["models"]
    assert model["model"] == model["source"] == REPO
    assert (model["family"], model["parameters"]) == ("heron", 64 * 32 + 8)
    assert (model["context_length"], model["chat_template"]) == (512, True)
    assert (model["license"], model["gated"]) == ("apache-2.0", False)
    assert model["origin"]["commit"] == COMMIT
    (variant,) = model["variants"]
    assert (variant["format"], variant["precision"]) == ("safetensors", "float16")
    assert variant["tensor_types"] == {"F16": 1, "F32": 1}
    assert variant["requires"] == ["F16", "F32"]
    assert variant["served"] is True
    (weights,) = variant["files"]
    assert weights["path"] == "model.safetensors"
    assert len(weights["sha256"]) == 64
    assert [file["path"] for file in variant["companions"]] == [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_quantizations_stand_under_their_base(real, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    (tmp_path / "sources.txt").write_text(f"{GGUF}\n# the base\n{REPO}\n")
    held = document("@sources.txt")
    (model,) = held["models"]
    assert (model["model"], model["source"]) == (REPO, REPO)
    assert [(v["source"], v["tag"]) for v in model["variants"]] == [
        (REPO, None),
        (GGUF, "Q4_K_M"),
        (GGUF, "Q6_K"),
        (GGUF, "Q8_0"),
    ]
    assert {v["bits_per_weight"] for v in model["variants"][1:]} == {32.0}
    (only,) = document(f"{GGUF}:Q8_0")["models"]
    assert [variant["tag"] for variant in only["variants"]] == ["Q8_0"]
    assert only["model"] == REPO

    result = call("info", GGUF, REPO, "--csv")
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert [row["tag"] for row in rows] == ["", "Q4_K_M", "Q6_K", "Q8_0"]
    assert {row["served"] for row in rows} == {"yes"}
    assert {row["model"] for row in rows} == {REPO}
    assert rows[1]["requires"] == "F32"
    assert rows[0]["commit"] == COMMIT


def test_a_refused_source_is_a_warning_and_the_rest_is_printed(real, tmp_path):
    (tmp_path / "m.gguf").write_bytes(tiny_gguf("otter-gguf"))
    held = document("m.gguf", "otters/absent", "./nowhere", REPO, status=1)
    assert [model["source"] for model in held["models"]] == ["m.gguf", REPO]
    assert [(r["source"], r["code"]) for r in held["refused"]] == [
        ("otters/absent", "UNAVAILABLE"),
        ("./nowhere", "NO_SUCHFILE"),
    ]
    result = call("info", "otters/absent", REPO)
    assert result.status == 1
    assert "[warning] otters/absent: " in result.err
    assert result.lines()[0] == REPO


def test_a_variant_that_cannot_be_read_is_listed_with_its_problem(hub):
    hub.add(GGUF, {"a-Q4_0.gguf": tiny_gguf("otter-gguf"), "b-Q8_0.gguf": b"damaged" * 400})
    (model,) = document(GGUF)["models"]
    good, bad = model["variants"]
    assert (good["problem"], good["served"]) == (None, True)
    assert "not a GGUF file" in bad["problem"]
    assert (bad["served"], bad["parameters"]) == (False, None)


def test_documents_of_what_is_here(real, tmp_path):
    call("fetch", REPO)
    real.requests.clear()
    (online,) = document(REPO)["models"]
    assert [request.path for request in real.requests] == [f"/api/models/{REPO}"]
    (offline,) = document(REPO, "--offline")["models"]
    assert offline["parameters"] == online["parameters"]
    assert offline["gated"] is None
    folder = tmp_path / "home" / "hub" / "models--otters--Otter-1B" / "snapshots" / COMMIT
    (local,) = document(folder)["models"]
    assert local["origin"]["kind"] == "directory"
    assert call("info", folder, "--dry").lines()[-2:] == [
        "(everything is here already)",
        "(dry; nothing downloaded)",
    ]


def test_the_fit_terms_are_those_of_check(hub, tmp_path, monkeypatch):
    """A real checkpoint of a real family, read in outline; ``check`` on the files says the same."""
    from tests.cli.tiny import COUNTING, write_model

    monkeypatch.delenv("CLIKA_RT_ALLOW_PLUGINS")
    monkeypatch.setattr(plugins, "_registry", None)
    folder = write_model(tmp_path / "made", COUNTING)
    hub.add(REPO, {path.name: path.read_bytes() for path in folder.iterdir()})
    (model,) = document(REPO)["models"]
    fit = model["variants"][0]["fit"]
    there = json.loads(call("check", folder, "--json", "--max-seq", "256").out)["devices"][0]
    assert fit == {name: there[name] for name in fit}
    # one layer of 5 heads of 64, keys and values in float32
    assert fit["cache_per_token"] == 2 * 5 * 64 * 4
    assert fit["context"] == 256
    assert all("range" in request.headers for request in hub.asked("GET /blob/"))
