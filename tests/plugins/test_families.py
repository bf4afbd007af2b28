"""Family plugins, good and bad, as installed distributions in processes of their own."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from clika_runtime import _known
from tests.plugins.dists import Dist, family

LISTING = """
from clika_runtime import plugins
answer = {
    "families": {n: [r.distribution, r.version] for n, r in plugins.families().items()},
    "broken": [[b.name, b.distribution, b.version, b.reason] for b in plugins.broken()],
    "left_out": [[b.name, b.reason] for b in plugins.left_out()],
}
"""


#: The families of this project, which are installed wherever the tests run.
OURS = {"gemma", "llama", "qwen"}


def broken_otter(answer):
    """The one broken plugin; the rest has to work."""
    assert answer["families"]["llama"][0] == "clika-family-llama"
    assert "otter" not in answer["families"]
    (row,) = answer["broken"]
    assert row[:3] == ["otter", "otter-family", "1.0"]
    return row[3]


def test_pip_installs_the_same(site):
    site.pip_install(family())
    answer = site.ask(LISTING)
    assert answer["families"]["otter"] == ["otter-family", "1.0"]
    assert answer["broken"] == []


def test_good_family(site):
    site.install(family())
    answer = site.ask(
        """
        import sys
        from clika_runtime import plugins
        row = plugins.family_for(model_type="otter")
        before = "otter_family.model" in sys.modules
        same = [
            plugins.family_for(architecture="OtterLM") is row,
            plugins.family_for(gguf_architecture="otter") is row,
            plugins.family_for(name="otter") is row,
            plugins.load(row) is plugins.load(row),
        ]
        answer = [row.name, row.distribution, row.version, before, plugins.load(row), same,
                  row.spec.input_modalities, row.spec.output_modalities, row.spec.runnable,
                  len(plugins.broken())]
        """
    )
    loaded = "the otter family"
    assert answer[:5] == ["otter", "otter-family", "1.0", False, loaded]
    assert answer[5:] == [[True] * 4, ["text", "image"], ["text"], True, 0]


def test_tables_are_frozen(site):
    site.install(family())
    done = site.run(
        """
        from clika_runtime import plugins
        plugins.families()["badger"] = None
        """
    )
    assert "TypeError" in done.stderr


def test_broken_at_import(site):
    site.install(family(plugin="raise RuntimeError('no river here')"))
    reason = broken_otter(site.ask(LISTING))
    assert reason == "failed to load: RuntimeError: no river here"


def test_exit_at_import(site):
    site.install(family(plugin="import sys\nsys.exit(3)"))
    assert broken_otter(site.ask(LISTING)) == "failed to load: SystemExit: 3"


def test_missing_dependency_is_shown_as_it_is(site):
    site.install(family(plugin="import a_module_that_is_absent"))
    reason = broken_otter(site.ask(LISTING))
    assert "ModuleNotFoundError" in reason
    assert "a_module_that_is_absent" in reason


def test_missing_entry_module(site):
    dist = family()
    del dist.modules["otter_family/plugin.py"]
    site.install(dist)
    reason = broken_otter(site.ask(LISTING))
    assert reason == "its entry module otter_family.plugin is not installed"


@pytest.mark.parametrize("contract", [0, 2, "1", True, None])
def test_wrong_contract_version(site, contract):
    site.install(family(contract=contract))
    reason = broken_otter(site.ask(LISTING))
    assert f"contract version {contract!r}" in reason
    assert "this core has version 1" in reason


def test_duplicate_name_ours_wins(site):
    site.install(family("llama", dist="a-llama-impostor"))
    answer = site.ask(LISTING)
    assert answer["families"]["llama"][0] == "clika-family-llama"
    (row,) = answer["broken"]
    assert row[:2] == ["llama", "a-llama-impostor"]
    assert "duplicate name 'llama'" in row[3]
    assert "clika-family-llama" in row[3]


def test_duplicate_name_among_strangers_is_decided_by_name(site):
    site.install(family(dist="otter-b"), family(dist="otter-a", version="2.0"))
    answer = site.ask(LISTING)
    assert answer["families"]["otter"] == ["otter-a", "2.0"]
    assert answer["broken"][0][1] == "otter-b"


def test_registering_twice(site):
    text = family().modules["otter_family/plugin.py"]
    call = text[text.index("    register(") :]
    site.install(family(plugin=text + call))
    assert "duplicate name 'otter'" in broken_otter(site.ask(LISTING))


UNKNOWN_HOOK = """
from clika_runtime.hooks import hookimpl


@hookimpl
def clika_register_rivers(register):
    pass
"""


def test_unknown_hook(site):
    site.install(family(plugin=family().modules["otter_family/plugin.py"] + UNKNOWN_HOOK))
    reason = broken_otter(site.ask(LISTING))
    assert "unknown hook 'clika_register_rivers'" in reason
    assert "clika_register_families" in reason


def test_unknown_hook_argument(site):
    text = family().modules["otter_family/plugin.py"]
    site.install(family(plugin=text.replace("(register):", "(register, river):")))
    assert "river" in broken_otter(site.ask(LISTING))


def test_unmarked_hook(site):
    text = family().modules["otter_family/plugin.py"]
    site.install(family(plugin=text.replace("@hookimpl\n", "")))
    assert "not marked" in broken_otter(site.ask(LISTING))


def test_no_hook_of_the_group(site):
    site.install(family(plugin=""))
    reason = broken_otter(site.ask(LISTING))
    assert reason.startswith("incomplete: otter_family.plugin implements no hook")


def test_registers_nothing(site):
    text = family().modules["otter_family/plugin.py"]
    site.install(family(plugin=text[: text.index("    register(")] + "    pass\n"))
    assert "registers nothing" in broken_otter(site.ask(LISTING))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('vendor="Otter Lab"', 'vendor=""', "incomplete: 'vendor' is empty"),
        ('vendor="Otter Lab",', "", "missing 1 required keyword-only argument: 'vendor'"),
        ('vendor="Otter Lab"', 'vendor="O", paws=4', "paws"),
        ('tasks=("text-generation",)', 'tasks="text-generation"', "must be a tuple of strings"),
        ("otter_family.model:FAMILY", "otter_family.model", "must be 'module:attribute'"),
        ("name='otter'", "name='Otter!'", "'Otter!' must be lower-case"),
        ("text-generation", "text-generatoin", "no pipeline tag; did you mean 'text-generation'?"),
        ("text+image -> text", "text to text", "are not written as 'text -> text'"),
    ],
)
def test_incomplete_declarations(site, old, new, expected):
    text = family().modules["otter_family/plugin.py"]
    assert old in text
    site.install(family(plugin=text.replace(old, new)))
    assert expected in broken_otter(site.ask(LISTING))


def test_keyword_form_names_the_unknown_argument(site):
    text = family().modules["otter_family/plugin.py"]
    text = text.replace("register(FamilySpec(", "register(paws=4, **dict(")
    site.install(family(plugin=text))
    reason = broken_otter(site.ask(LISTING))
    assert "unknown argument 'paws' for FamilySpec" in reason


def test_wrong_object(site):
    text = family().modules["otter_family/plugin.py"]
    site.install(family(plugin=text[: text.index("    register(")] + "    register(7)\n"))
    assert "takes a FamilySpec, got int" in broken_otter(site.ask(LISTING))


def test_rows_of_a_broken_plugin_are_dropped_together(site):
    text = family().modules["otter_family/plugin.py"]
    more = text[text.index("    register(") :].replace("'otter'", "'badger'")
    more = more.replace("contract=1", "contract=9")
    site.install(family(plugin=text + more))
    answer = site.ask(LISTING)
    assert set(answer["families"]) == OURS


def test_model_that_fails_to_load(site):
    site.install(family(model="import numpy_for_otters"))
    answer = site.ask(
        """
        from clika_runtime import plugins
        try:
            plugins.load(plugins.families()["otter"])
        except Exception as error:
            answer = [type(error).__name__, error.code_name, str(error)]
        """
    )
    assert answer[:2] == ["InternalError", "PLUGIN_FAILED"]
    assert "plugin 'otter' of otter-family 1.0" in answer[2]
    assert "numpy_for_otters" in answer[2]


def test_strict_raises(site):
    site.install(family(contract=7))
    code = """
        from clika_runtime import plugins
        try:
            plugins.families()
        except Exception as error:
            answer = [type(error).__name__, error.code_name, str(error)]
        else:
            answer = []
        """
    name, code_name, text = site.ask(code, CLIKA_RT_STRICT_PLUGINS="1")
    assert (name, code_name) == ("InternalError", "PLUGIN_FAILED")
    assert "otter-family 1.0" in text
    assert "contract version 7" in text
    assert site.ask(code, CLIKA_RT_STRICT_PLUGINS="0") == []


@pytest.mark.parametrize("switch", ["otter", "otter-family", "badger, Otter_Family"])
def test_disable(site, switch):
    side_effect = "open('ran', 'w')\n"
    site.install(family(plugin="import sys\nsys.exit('it ran')\n" + side_effect))
    answer = site.ask(LISTING, CLIKA_RT_DISABLE_PLUGINS=switch)
    assert set(answer["families"]) == OURS
    assert answer["broken"] == []
    assert answer["left_out"] == [["otter", "left out by CLIKA_RT_DISABLE_PLUGINS"]]


def test_allow(site):
    site.install(family(plugin="raise RuntimeError('it ran')"))
    answer = site.ask(LISTING, CLIKA_RT_ALLOW_PLUGINS="llama,cpu")
    assert set(answer["families"]) == {"llama"}
    assert answer["broken"] == []
    reason = "not admitted by CLIKA_RT_ALLOW_PLUGINS"
    left_out = ["gemma", "otter", "qwen", "tool-formats"]
    found = [name for name, why in answer["left_out"] if why == reason]
    assert sorted(set(found) - {"cuda"}) == left_out  # where that plugin is installed
    answer = site.ask(LISTING, CLIKA_RT_ALLOW_PLUGINS="")
    assert answer["families"] == {}


REFUSAL = """
from clika_runtime import _known, plugins
_known.FAMILIES["newt"] = _known.KnownFamily(
    "clika-family-newt", ("newt2",), ("newt",), ("NewtLM",)
)
try:
    plugins.family_for(**QUESTION)
except Exception as error:
    answer = [type(error).__name__, error.code_name, str(error)]
"""


def refusal(site, question, **environ):
    return site.ask(REFUSAL.replace("QUESTION", repr(question)), **environ)


def test_known_family_that_is_not_installed(site):
    questions = ({"model_type": "newt2"}, {"gguf_architecture": "newt"}, {"name": "newt"})
    for question in (*questions, {"architecture": "NewtLM", "model_type": "other"}):
        name, code, text = refusal(site, question)
        assert (name, code) == ("UnsupportedError", "FAMILY_NOT_INSTALLED")
        assert text.endswith("pip install clika-family-newt")


def test_the_core_knows_the_families_of_this_project():
    """The table that refusals read is the one that the script writes from the declarations."""
    root = Path(__file__).resolve().parents[2]
    script = root / "scripts" / "generate_known_families.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    folders = {path.parent.name for path in root.glob("families/*/pyproject.toml")}
    assert folders == set(_known.FAMILIES) == OURS
    for name, known in _known.FAMILIES.items():
        spec = importlib.import_module(f"clika_family_{name}.plugin").FAMILY
        assert known.distribution == f"clika-family-{name}"
        for keys in ("model_types", "gguf_architectures", "architectures"):
            assert getattr(known, keys) == getattr(spec, keys)


def test_a_family_declared_by_the_program(site):
    answer = site.ask(
        """
        from clika_runtime import plugins
        spec = plugins.FamilySpec(name="mine", contract=1, vendor="me", tasks=("text-generation",),
                                  modalities=("text -> text",), architectures=("MyLM",))
        row = plugins.register_family(spec, {"code": 1})
        answer = [plugins.family_for(architecture="MyLM") is row, plugins.load(row)["code"],
                  row.entry.label, row.spec.runnable]
        for wrong in (spec, 7):
            try:
                plugins.register_family(wrong)
            except plugins.InvalidArgumentError as error:
                answer.append(str(error))
        """
    )
    assert answer[:4] == [True, 1, "plugin 'mine' of this program", True]
    assert answer[4] == (
        "register: duplicate name 'mine': already registered by plugin 'mine' of this program"
    )
    assert answer[5] == "register_family: a FamilySpec is expected, got int"


def test_unknown_family(site):
    name, code, text = refusal(site, {"model_type": "abacus", "architecture": "AbacusLM"})
    assert (name, code) == ("UnsupportedError", "FAMILY_UNKNOWN")
    assert "'abacus'" in text
    assert "'AbacusLM'" in text
    assert "llama" in text


def test_left_out_family_says_so(site):
    _, code, text = refusal(site, {"model_type": "llama"}, CLIKA_RT_DISABLE_PLUGINS="llama")
    assert code == "FAMILY_NOT_INSTALLED"
    assert "CLIKA_RT_DISABLE_PLUGINS" in text


def test_tool_parser_and_processor_beside_a_family(site):
    text = family().modules["otter_family/plugin.py"] + (
        "\nfrom clika_runtime.plugins import ProcessorSpec, ToolParserSpec\n"
        "@hookimpl\ndef clika_register_tool_parsers(register):\n"
        "    register(ToolParserSpec(name='fish', contract=1, load='otter_family.model:FAMILY'))\n"
        "@hookimpl\ndef clika_register_processors(register):\n"
        "    register(name='eyes', contract=1, modality='image',\n"
        "             load='otter_family.model:FAMILY')\n"
    )
    site.install(family(plugin=text))
    answer = site.ask(
        """
        from clika_runtime import plugins
        answer = ["fish" in plugins.tool_parsers(), list(plugins.processors()),
                  "otter" in plugins.families(), plugins.load(plugins.processors()["eyes"])]
        """
    )
    assert answer == [True, ["eyes"], True, "the otter family"]


def test_models_and_transforms(site):
    plugin = """
    from clika_runtime.hooks import hookimpl
    from clika_runtime.plugins import ModelSpec, TransformSpec

    @hookimpl
    def clika_register_models(register):
        register(ModelSpec(name="brook", contract=1, files=("brook/brook.gguf",), family="llama"))

    @hookimpl
    def clika_register_transforms(register):
        register(TransformSpec(name="dam", contract=1, load="brook.dam:dam"))
    """
    dist = Dist(
        "brook",
        {"brook/__init__.py": "", "brook/plugin.py": plugin, "brook/dam.py": "dam = 5\n"},
        {
            "clika_runtime.models": {"brook": "brook.plugin"},
            "clika_runtime.transforms": {"dam": "brook.plugin"},
        },
    )
    site.install(dist)
    answer = site.ask(
        """
        from clika_runtime import plugins
        answer = [plugins.models()["brook"].spec.files, plugins.load(plugins.transforms()["dam"]),
                  len(plugins.broken())]
        """
    )
    assert answer == [["brook/brook.gguf"], 5, 0]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.gguf", "a/../../x.gguf", "C:/x.gguf"])
def test_model_paths_stay_inside(site, path):
    plugin = f"""
    from clika_runtime.hooks import hookimpl

    @hookimpl
    def clika_register_models(register):
        register(name="brook", contract=1, files=({path!r},))
    """
    dist = Dist(
        "brook",
        {"brook/__init__.py": "", "brook/plugin.py": plugin},
        {"clika_runtime.models": {"brook": "brook.plugin"}},
    )
    site.install(dist)
    answer = site.ask(LISTING)
    assert "leaves the distribution" in answer["broken"][0][3]
