"""``clikart-cli doctor``: it finds what is broken, says the line that mends it, and survives it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clika_runtime import plugins
from tests.cli.harness import call, environment, install_family, install_plugin


def findings(*words: str | Path) -> dict[tuple[str, str], dict[str, Any]]:
    document = json.loads(call("doctor", "--json", *words).out)
    return {(item["area"], item["name"]): item for item in document["findings"]}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(plugins, "_registry", None)
    return tmp_path / "site"


def test_a_healthy_installation() -> None:
    result = call("doctor")
    assert (result.status, result.err) == (0, "")
    assert "everything that is installed works" in result.lines()
    assert any(line.startswith("  ok      cpu: clika-runtime-cpu") for line in result.lines())
    assert any(line.startswith("  ok      llama: clika-family-llama") for line in result.lines())
    assert "BROKEN" not in result.out
    assert result.lines()[-1].endswith("clikart-cli SOURCE prompt MESSAGE")


def test_broken_plugins(site: Path) -> None:
    install_family(site, "heron", verbs=("prompt",), load="heron_is_not_there:FAMILY")
    install_family(site, "crane", load="clika_runtime.errors:Status")
    install_family(site, "stork")
    broken = "import no_such_module_here"
    install_plugin(site, "clika-family-finch", "0.9", "clika_runtime.families", "finch", broken)
    found = findings()
    assert found["families", "stork"]["status"] == "ok"
    assert found["families", "stork"]["detail"].endswith("identity-only")
    for name, detail in (
        ("heron", "could not load heron_is_not_there:FAMILY: ModuleNotFoundError"),
        ("crane", "a Family is expected"),
        ("finch", "failed to load: ModuleNotFoundError"),
    ):
        item = found["families", name]
        assert item["status"] == "broken" and detail in item["detail"]
        assert f"clika-family-{name}" in item["fix"]
    assert found["families", "llama"]["status"] == "ok"
    result = call("doctor")
    assert result.status == 1
    assert "3 things are broken; see BROKEN above" in result.lines()
    assert any(
        "mend it with: pip install --upgrade clika-family-heron" in x for x in result.lines()
    )


def test_what_is_not_installed_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_registry", None)
    monkeypatch.setenv("CLIKA_RT_DISABLE_PLUGINS", "qwen")
    found = findings()
    qwen = found["families", "qwen"]
    assert (qwen["status"], qwen["fix"]) == ("absent", "pip install clika-family-qwen")
    assert found["environment", "CLIKA_RT_DISABLE_PLUGINS"]["detail"] == "qwen"
    assert "left out by CLIKA_RT_DISABLE_PLUGINS" in found["environment", "qwen"]["detail"]


def test_without_a_cpu_backend() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clika_runtime", "doctor"],
        capture_output=True,
        text=True,
        env=environment(CLIKA_RT_DISABLE_PLUGINS="cpu"),
        timeout=60,
    )
    assert done.returncode == 1
    assert "  BROKEN  cpu: not installed" in done.stdout.splitlines()
    assert "mend it with: pip install clika-runtime-cpu" in done.stdout


def test_without_the_native_core() -> None:
    code = (
        "import sys\n"
        "sys.modules['clika_runtime._native._core'] = None\n"
        "from clika_runtime.modelverse.cli import main\n"
        "sys.exit(main(['doctor']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert done.returncode == 1, done.stderr
    assert "  BROKEN  native _core: ModuleNotFoundError" in done.stdout
    assert "mend it with: pip install --force-reinstall --no-deps clika-runtime==" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_switch_that_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_registry", None)
    monkeypatch.setenv("CLIKA_RT_STRICT_PLUGINS", "maybe")
    result = call("doctor")
    assert result.status == 1
    assert "CLIKA_RT_STRICT_PLUGINS is 'maybe'; it takes 0 or 1" in result.out


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLIKA_RT_LICENSE", "CLIKA_LICENSE", "HF_TOKEN", "CLIKA_SOME_TOKEN"):
        monkeypatch.setenv(name, "geheim-4711")
    assert "geheim-4711" not in call("doctor").out


def test_libraries_and_extras_come_from_the_metadata(site: Path) -> None:
    info = site / "clika_runtime-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: clika-runtime\nVersion: 9.9\n"
        "Requires-Dist: numpy>=1.26\nRequires-Dist: never-heard-of<2,>=1.5\n"
        'Requires-Dist: pluggy>=1.4; extra == "serve"\n'
        "Requires-Dist: soundless>=0.4; extra == 'audio'\n"
        'Requires-Dist: speechless>=1; extra == "constrain"\n'
        'Requires-Dist: pytest>=8; extra == "test"\n'
    )
    found = findings()
    assert found["libraries", "numpy"]["status"] == "ok"
    lost = found["libraries", "never-heard-of"]
    assert (lost["status"], lost["fix"]) == ("broken", 'pip install "never-heard-of<2,>=1.5"')
    assert found["extras", "serve"]["status"] == "ok"
    audio = found["extras", "audio"]
    assert (audio["status"], audio["fix"]) == ("absent", 'pip install "clika-runtime[audio]"')
    fix = 'pip install "clika-runtime[constrain]"'
    assert found["extras", "constrain"]["fix"] == fix
    assert ("extras", "test") not in found


def test_a_model_package_without_its_file(site: Path) -> None:
    code = """
        from clika_runtime.hooks import hookimpl
        from clika_runtime.plugins import ModelSpec

        @hookimpl
        def clika_register_models(register):
            register(ModelSpec(name="lost-stork", contract=1, files=("otter_files/lost.gguf",)))
    """
    install_plugin(site, "stork-models", "3.1", "clika_runtime.models", "storks", code)
    item = findings()["models", "lost-stork"]
    assert item["status"] == "broken"
    assert item["fix"] == "pip install --force-reinstall --no-deps stork-models==3.1"


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("repositories", "packages"):
        item = findings("--cache-dir", tmp_path / "file" / "cache")["storage", name]
        assert item["status"] == "broken" and "cannot be written to" in item["detail"]
        item = findings("--cache-dir", tmp_path / "new" / "cache")["storage", name]
        assert item["status"] == "ok" and not (tmp_path / "new").exists()


def test_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_geheim")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("CLIKA_MODELVERSE_OFFLINE", raising=False)
    found = findings()
    assert found["hub", "token"]["status"] == "ok"
    assert "geheim" not in json.dumps(list(found.values()))
    assert ("hub", "network") not in found
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "absent"))
    monkeypatch.setenv("CLIKA_MODELVERSE_OFFLINE", "1")
    found = findings()
    assert found["hub", "token"]["status"] == "absent"
    assert found["hub", "network"]["detail"] == "CLIKA_MODELVERSE_OFFLINE=1 forbids it"
