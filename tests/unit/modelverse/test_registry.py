"""The catalog as a library: identity, registration at run time, and the doors by task."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clika_runtime.modelverse as mv
from clika_runtime import pipeline_tags, plugins
from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from tests.cli.tiny import COUNTING, REPLY, write_model
from tests.cli.wheels import tiny_gguf

MINE = mv.FamilySpec(
    name="my-model",
    contract=1,
    vendor="my-org",
    description="the in-house my_model language models",
    tasks=(pipeline_tags.TEXT_GENERATION,),
    modalities=("text -> text",),
    model_types=("my_model",),
    architectures=("MyModelModel",),
)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers ends with it."""
    monkeypatch.setattr(plugins, "_registry", None)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llama"), COUNTING)


def renamed(folder: Path, model: Path, **keys: Any) -> Path:
    """The checkpoint under other keys of config.json (None takes one away)."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config = {k: v for k, v in {**config, **keys}.items() if v is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def registry() -> mv.ModelRegistry:
    return mv.ModelRegistry.builtin()


# ---------------------------------------------------------------- identity
def test_open_reads_configuration_alone(tmp_path: Path) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = registry().open(tmp_path)  # no weights are there
    assert (model.family, model.model_type) == ("llama", "llama")
    assert (model.architecture, model.variant) == ("LlamaForCausalLM", "dense")
    assert (model.runnable, model.vendor) == (True, "Meta")
    assert "prompt" in model.verbs
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_local_experts": 8}))
    assert registry().open(str(tmp_path)).variant == "mixture of experts"


def test_open_of_a_gguf(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf("qwen2"))
    model = registry().open(path)
    assert (model.family, model.model_type, model.architecture) == ("qwen", "", "qwen2")


def test_an_unclaimed_checkpoint_is_refused_by_its_keys(tmp_path: Path, llama: Path) -> None:
    other = renamed(tmp_path / "m", llama, model_type="my_model", architectures=["MyModelModel"])
    text = r"no model template registered for model_type='my_model' / architecture='MyModelModel'"
    for refused in (registry().open, registry().load_generative, mv.AutoConfig.from_pretrained):
        with pytest.raises(UnsupportedError, match=text) as error:
            refused(other)
        assert error.value.code_name == "FAMILY_UNKNOWN"


def test_a_known_family_that_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLIKA_RT_ALLOW_PLUGINS", "llama,cpu")
    (tmp_path / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    with pytest.raises(UnsupportedError, match="family 'qwen'") as error:
        registry().open(tmp_path)
    assert error.value.code_name == "FAMILY_NOT_INSTALLED"


# ---------------------------------------------------------------- registration
def test_identity_first(tmp_path: Path, llama: Path) -> None:
    """With keys alone a checkpoint resolves, and running it is refused precisely."""
    other = renamed(tmp_path / "m", llama, model_type="my_model", architectures=["MyModelModel"])
    before = registry().families()
    row = registry().register(MINE)
    assert registry().families()["my-model"] is row
    assert "my-model" not in before  # a table that was handed out does not change
    model = registry().open(other)
    assert (model.family, model.model_type, model.runnable) == ("my-model", "my_model", False)
    with pytest.raises(UnsupportedError, match="identity-only"):
        registry().load_generative(other)
    text = mv.catalog.catalog_text(full=True)
    block = text[text.index("my-model identity-only") :].splitlines()
    assert block[:3] == [
        "my-model identity-only",
        "  * Input Modalities: text",
        "  * Output Modalities: text",
    ]
    assert "  * Commands: none (identity-only)" in block
    assert "  * Vendor: my-org" in block
    assert "  * Plugin: this program" in block


def test_a_family_registered_with_its_code_runs(tmp_path: Path, llama: Path) -> None:
    from clika_family_llama.llama import FAMILY

    other = renamed(tmp_path / "m", llama, model_type="my_model", architectures=["MyModelModel"])
    registry().register(replace(MINE, verbs=("prompt",)), replace(FAMILY, name="my-model"))
    assert registry().open(other).verbs == ("prompt",)
    model = registry().load_generative(other, max_seq=64)
    assert model.family == "my-model"
    assert model.generate("12", max_new_tokens=4) == "3456"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "name '' must be lower-case"),
        ({"vendor": ""}, "incomplete: 'vendor' is empty"),
        ({"tasks": ()}, "incomplete: 'tasks' is empty"),
        ({"tasks": ("text-generator",)}, "'text-generator' is no pipeline tag; did you mean"),
        ({"modalities": ()}, "incomplete: 'modalities' is empty"),
        ({"modalities": ("text",)}, "are not written as 'text -> text'"),
        ({"model_types": (), "architectures": ()}, "incomplete: it recognizes nothing"),
        ({"contract": 0}, "written for contract version 0"),
        (
            {"name": "llama"},
            "duplicate name 'llama': already registered by plugin 'llama' of clika",
        ),
    ],
)
def test_incomplete_declarations_are_refused(changes: dict[str, Any], message: str) -> None:
    before = dict(registry().families())
    with pytest.raises(InvalidArgumentError, match=message):
        registry().register(replace(MINE, **changes))
    assert dict(registry().families()) == before


def test_a_family_has_its_code_once() -> None:
    with pytest.raises(InvalidArgumentError, match="is given code as well"):
        registry().register(replace(MINE, load="a:b"), object())


# ---------------------------------------------------------------- folders without config.json
def recognizes(names: tuple[str, ...]) -> str | None:
    return "my_model" if "my_model.marker" in names else None


def answers_nonsense(names: tuple[str, ...]) -> Any:
    return 7


def probing(function: str) -> mv.FamilySpec:
    module = sys.modules[__name__]
    sys.modules["registry_probe_module"] = module
    return replace(MINE, probe_snapshot=f"registry_probe_module:{function}")


def test_probe_snapshot_names_the_model_type(tmp_path: Path, llama: Path) -> None:
    from clika_family_llama.llama import FAMILY

    folder = renamed(tmp_path / "m", llama)
    (folder / "config.json").rename(tmp_path / "config.json")
    with pytest.raises(NotFoundError, match=r"needs its config.json"):
        registry().open(folder)
    config = json.loads((tmp_path / "config.json").read_text())

    def fixed(fields: Any) -> Any:
        assert fields.raw == {"model_type": "my_model"}
        return FAMILY.config_from_hf(type(fields)(config, "the family"))

    registry().register(probing("recognizes"), replace(FAMILY, config_from_hf=fixed))
    with pytest.raises(NotFoundError, match=r"needs its config.json"):
        registry().open(folder)
    (folder / "my_model.marker").touch()
    assert registry().open(folder).model_type == "my_model"
    assert registry().load_generative(folder, max_seq=32).generate("7", max_new_tokens=2) == "89"


def test_a_probe_that_fails_names_its_plugin(tmp_path: Path, llama: Path) -> None:
    folder = renamed(tmp_path / "m", llama)
    (folder / "config.json").unlink()
    registry().register(probing("answers_nonsense"))
    with pytest.raises(mv.catalog.InternalError, match=r"'my-model' of this program: .* gives 7"):
        registry().open(folder)


# ---------------------------------------------------------------- doors
def test_auto_config_is_the_familys(llama: Path, tmp_path: Path) -> None:
    config = mv.AutoConfig.from_pretrained(llama)
    assert type(config).__name__ == "LlamaConfig"
    assert config.hidden_size == json.loads((llama / "config.json").read_text())["hidden_size"]
    (tmp_path / "config.json").write_bytes((llama / "config.json").read_bytes())
    assert mv.AutoConfig.from_pretrained(tmp_path) == config


def test_auto_tokenizer(llama: Path, tmp_path: Path) -> None:
    tokenizer = mv.AutoTokenizer.from_pretrained(str(llama))
    assert tokenizer.decode(tokenizer.encode("12 otters")) == "12 otters"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((llama / name).read_bytes())
    alone = mv.AutoTokenizer.from_pretrained(tmp_path)
    assert alone.encode("12 otters") == tokenizer.encode("12 otters")
    assert mv.AutoProcessor.from_pretrained(llama).encode("1") == tokenizer.encode("1")


def test_auto_models(llama: Path) -> None:
    for door in (mv.AutoModel, mv.AutoModelForCausalLM):
        model = door.from_pretrained(llama, max_seq=32)
        assert isinstance(model, mv.GenerativeModel)
        assert model.window == 32
        with pytest.raises(TypeError, match=f"use {door.__name__}.from_pretrained"):
            door()


def test_a_pipeline_takes_texts_and_conversations(tmp_path: Path) -> None:
    model = write_model(tmp_path / "chat", {**REPLY, **COUNTING})
    generate = mv.pipeline("text-generation", model, max_seq=128)
    assert generate("12", max_new_tokens=3) == [{"generated_text": "12345"}]
    assert generate("12", max_new_tokens=3, return_full_text=False) == [{"generated_text": "345"}]
    both = generate(["1", "5"], max_new_tokens=1, return_full_text=False)
    assert both == [[{"generated_text": "2"}], [{"generated_text": "6"}]]
    messages = [{"role": "user", "content": "Where?"}]
    (reply,) = generate(messages)
    assert reply["generated_text"] == [*messages, {"role": "assistant", "content": "Paris!"}]
    assert generate(messages, return_full_text=False) == [{"generated_text": "Paris!"}]
    for wrong in ([], 7, None):
        with pytest.raises(InvalidArgumentError, match="the input is a text"):
            generate(wrong)


def test_tasks_that_are_not_served(llama: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'text-generator' is no pipeline tag"):
        mv.pipeline("text-generator", llama)
    with pytest.raises(UnsupportedError, match="no pipeline for 'text-to-speech'"):
        mv.pipeline("text-to-speech", llama)
    for load in ("load_embedding", "load_stt", "load_tts", "load_reranking"):
        with pytest.raises(UnsupportedError, match=r"family 'llama' \(text -> text\) has no model"):
            getattr(registry(), load)(llama)


def test_a_family_of_another_task_does_not_generate(tmp_path: Path, llama: Path) -> None:
    other = renamed(tmp_path / "m", llama, model_type="my_model", architectures=[])
    spec = replace(MINE, tasks=(pipeline_tags.FEATURE_EXTRACTION,), load="nowhere:FAMILY")
    registry().register(spec)
    with pytest.raises(UnsupportedError, match="no model that generates text; its tasks: feature"):
        mv.AutoModel.from_pretrained(other)
    with pytest.raises(UnsupportedError, match="family 'my-model' does not serve 'text-gen"):
        mv.pipeline("text-generation", other)
    with pytest.raises(UnsupportedError, match="this release loads no model that embeds texts"):
        registry().load_embedding(other)


def test_the_default_windows_are_said_on_both_sides(tmp_path: Path) -> None:
    """The library keeps the checkpoint's window, the command line cuts it."""
    from clika_runtime.modelverse import auto, fit, generation, loader
    from clika_runtime.modelverse.cli.arguments import DEFAULT_WINDOW, MAX_SEQ
    from tests.cli.harness import call

    path = write_model(tmp_path / "long", COUNTING, window=2 * MAX_SEQ)
    assert mv.load_generative(path).window == 2 * MAX_SEQ
    assert mv.AutoModel.from_pretrained(path).window == 2 * MAX_SEQ
    assert f" max-seq = {MAX_SEQ} (default) " in " ".join(
        call(path, "prompt", "1", "-v").err.split()
    )
    (budget, *_) = mv.check(path)
    assert budget.window == 2 * MAX_SEQ
    for told in (
        loader.LoadOptions,
        generation.load_generative,
        auto.AutoModelForCausalLM.from_pretrained,
        fit.check,
    ):
        assert f"at most {MAX_SEQ}" in " ".join((told.__doc__ or "").split())
    assert f"at most {MAX_SEQ}; in Python" in DEFAULT_WINDOW
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert f"at most {MAX_SEQ}" in readme and "max_seq" in readme
    for words in ((path, "prompt"), (path, "score"), ("check",)):
        assert DEFAULT_WINDOW in " ".join(call(*words, "--help").out.split())
