"""What has a name that users meet is written down: code names, hooks, switches."""

import inspect
import re
from pathlib import Path

import pytest

from clika_runtime import errors, hooks, plugins

ROOT = Path(__file__).resolve().parents[2]
ERRORS = (ROOT / "docs" / "reference" / "errors.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
README = (ROOT / "README.md").read_text()
SOURCES = [
    path
    for folder in ("core", "plugins", "families")
    for pattern in ("*.py", "*.pyx", "*.pxi", "*.cpp", "*.hpp")
    for path in sorted((ROOT / folder).rglob(pattern))
    if "build" not in path.relative_to(ROOT).parts
]
HOOKS = [name for name in vars(hooks) if name.startswith("clika_register_")]


def test_code_names_are_documented_with_their_status():
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\w+) \|", ERRORS, re.MULTILINE)
    assert dict(rows) == {code: str(status) for code, status in errors._STATUS_OF_CODE.items()}


def test_code_names_in_the_sources_are_known():
    # Where an error is made: a code name stands after the message or as `code_name=`.
    made = re.compile(
        r'(?:Error\(|set_error\(|make_error\(|\bfail\()[^;]{0,600}?"((?!O_)[A-Z]+(?:_[A-Z]+)+)"[,)]'
    )
    unknown = {
        (path.name, code)
        for path in SOURCES
        for code in made.findall(path.read_text(encoding="utf-8"))
        if code not in errors._STATUS_OF_CODE
    }
    assert not unknown


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_are_documented(name):
    assert f"`{name}`" in ARCHITECTURE
    assert inspect.getdoc(getattr(hooks, name))


def test_every_hook_has_a_declaration():
    assert {kind.hook for kinds in plugins.GROUPS.values() for kind in kinds} == set(HOOKS)
    assert set(plugins.GROUPS) == set(plugins.CONTRACTS)
    for group, kinds in plugins.GROUPS.items():
        assert f"`{group}`" in ARCHITECTURE
        assert f"`{group}`" in README
        for kind in kinds:
            assert f"`{kind.__name__}`" in ARCHITECTURE


def test_switches_are_documented():
    found = set()
    for path in SOURCES:
        found |= set(re.findall(r"\bCLIKA_RT_[A-Z]+(?:_[A-Z]+)*\b", path.read_text("utf-8")))
    missing = {name for name in found if name not in README}
    assert not missing


def test_readme_says_what_ci_runs():
    commands = re.findall(r"python3 -m pip install tox && python3 -m tox\b[^\n`]*", README)
    script = (ROOT / ".ci" / "run").read_text()
    assert any(command.endswith("python3 -m tox") for command in commands)
    assert "python3 -m tox" in script


@pytest.mark.parametrize("name", ["otter"])
def test_readme_example_is_complete(name):
    code = README[README.index("    from clika_runtime.hooks import hookimpl") :]
    lines = code.split("\n| variable")[0].splitlines()
    namespace = {}
    exec("\n".join(line[4:] for line in lines), namespace)
    rows = []
    namespace["clika_register_families"](rows.append)
    assert rows[0].name == name
    assert rows[0].problem(plugins.CONTRACTS["clika_runtime.families"]) is None
