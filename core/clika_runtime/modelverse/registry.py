"""The catalog as a library: families, what a checkpoint is, and models loaded by what they do.

registry = ModelRegistry.builtin()
print(registry.open("./my-model").family)            # reads configuration, no weights
model = registry.load_generative("./my-model", max_seq=4096)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .. import pipeline_tags, plugins
from ..errors import InvalidArgumentError, UnsupportedError
from ..plugins import FamilySpec, Row
from . import catalog
from .headers import Source, config_folder, opened
from .sources import ResolvedSource, resolve

if TYPE_CHECKING:
    from .generation import GenerativeModel
    from .loader import LoadOptions

__all__ = ["Model", "ModelRegistry"]

#: Tasks whose models continue text.
GENERATIVE = (pipeline_tags.TEXT_GENERATION, pipeline_tags.IMAGE_TEXT_TO_TEXT)


@dataclass(frozen=True)
class Model:
    """What a checkpoint is: the identity that ``ModelRegistry.open`` reads without weights.

    ``model_type`` and ``architecture`` are the checkpoint's own words (a GGUF has no model type);
    ``variant`` is ``dense`` or ``mixture of experts``, with ``+ multimodal`` where the family takes
    more than text; ``verbs`` are the commands that can run it here."""

    family: str
    vendor: str
    model_type: str
    architecture: str
    variant: str
    tasks: tuple[str, ...]
    modalities: tuple[str, ...]
    verbs: tuple[str, ...]
    runnable: bool


class ModelRegistry:
    """Every family of this process: those of installed packages and those that it registered."""

    _builtin: ModelRegistry | None = None

    @classmethod
    def builtin(cls) -> ModelRegistry:
        """The registry of this process."""
        if ModelRegistry._builtin is None:
            ModelRegistry._builtin = ModelRegistry()
        return ModelRegistry._builtin

    def families(self) -> Mapping[str, Row]:
        """The families by name; a row's ``spec`` is its `FamilySpec`."""
        return plugins.families()

    def broken(self) -> tuple[plugins.Broken, ...]:
        """Family packages that were refused or failed, with the reason."""
        return plugins.broken("clika_runtime.families")

    def register(self, spec: FamilySpec, family: Any = None) -> Row:
        """Adds a family to this process; ``list``, identity and the loaders treat it as any other.

        ``family`` is its `Family` where ``spec.load`` names none; without both the family is
        identity-only. Refused (``InvalidArgumentError``): a declaration without name, vendor, task,
        modalities or keys, a task outside the vocabulary, a name that is taken.

            registry.register(
                FamilySpec(name="my-model", contract=1, vendor="my-org",
                           tasks=(pipeline_tags.TEXT_GENERATION,), modalities=("text -> text",),
                           model_types=("my_model",), architectures=("MyModelForCausalLM",)),
                family=FAMILY,
            )
        """
        return plugins.register_family(spec, family)

    def open(self, source: Source) -> Model:
        """What a checkpoint is, from its configuration alone: no weights are read or fetched, and a
        folder need not have any. Refused like ``catalog.identify`` where no installed family serves
        it."""
        folder = config_folder(source)
        if folder is not None:
            identity, config = catalog.probe_folder(folder), _config(folder)
        else:
            with opened(source) as found:
                identity, config = _identity_of(found)
        row = catalog.checked(identity).row
        assert row is not None
        spec = row.spec
        return Model(
            row.name,
            spec.vendor,
            identity.model_type,
            identity.architecture,
            _variant(config, identity.architecture, spec),
            spec.tasks,
            spec.modalities,
            catalog.verbs(row),
            spec.runnable,
        )

    def load_generative(
        self, source: Source, options: LoadOptions | None = None, **more: Any
    ) -> GenerativeModel:
        """Loads a model that continues text; options are those of ``LoadOptions``.

        Refused where no family serves the checkpoint, where its family does something else, and
        where the model cannot fit the device's memory."""
        found = resolve(source)
        self._serves(found, GENERATIVE, "generates text")
        from .generation import load_generative

        return load_generative(found, options, **more)

    def load_embedding(self, source: Source, **options: Any) -> NoReturn:
        """Loads a model that embeds texts. No family of this release does."""
        self._refuse(
            source,
            (pipeline_tags.FEATURE_EXTRACTION, pipeline_tags.SENTENCE_SIMILARITY),
            "embeds texts",
        )

    def load_reranking(self, source: Source, **options: Any) -> NoReturn:
        """Loads a model that ranks documents for a query. No family of this release does."""
        self._refuse(source, (pipeline_tags.TEXT_RANKING,), "ranks texts")

    def load_stt(self, source: Source, **options: Any) -> NoReturn:
        """Loads a model that transcribes speech. No family of this release does."""
        self._refuse(source, (pipeline_tags.AUTOMATIC_SPEECH_RECOGNITION,), "transcribes speech")

    def load_tts(self, source: Source, **options: Any) -> NoReturn:
        """Loads a model that speaks. No family of this release does."""
        self._refuse(source, (pipeline_tags.TEXT_TO_SPEECH, pipeline_tags.TEXT_TO_AUDIO), "speaks")

    def _serves(self, source: ResolvedSource, tasks: tuple[str, ...], what: str) -> Row:
        """The row of the source's family, which has to serve one of the tasks."""
        row = catalog.identify(source).row
        assert row is not None
        if not set(tasks) & set(row.spec.tasks):
            raise UnsupportedError(
                f"{source.path}: family '{row.name}' ({', '.join(row.spec.modalities)}) has no "
                f"model that {what}; its tasks: {', '.join(row.spec.tasks)}"
            )
        return row

    def _refuse(self, source: Source, tasks: tuple[str, ...], what: str) -> NoReturn:
        row = self._serves(resolve(source), tasks, what)
        raise UnsupportedError(
            f"family '{row.name}': this release loads no model that {what}; it loads models for "
            f"{', '.join(GENERATIVE[:1])}"
        )


def _identity_of(source: ResolvedSource) -> tuple[catalog.Identity, Mapping[str, Any]]:
    """(identity, configuration) of a resolved source: config.json or the metadata of a GGUF."""
    if source.kind == "gguf":
        from ..io.gguf import open_gguf

        return catalog.probe(source), open_gguf(source.path).metadata
    return catalog.probe(source), _config(source.folder)


def _config(folder: Path) -> Mapping[str, Any]:
    from ..io._files import read_json

    path = folder / "config.json"
    if not path.is_file():
        return {}
    config = read_json(path)
    if not isinstance(config, dict):
        raise InvalidArgumentError(f"{path}: expected a JSON object", "MALFORMED_FILE")
    return config


_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def _variant(config: Mapping[str, Any], architecture: str, spec: FamilySpec) -> str:
    counts = [config.get(key) for key in (*_EXPERTS, f"{architecture}.expert_count")]
    sparse = any(isinstance(count, int) and count > 1 for count in counts)
    variant = "mixture of experts" if sparse else "dense"
    more = set(spec.input_modalities) - {"text"} if "text" in spec.input_modalities else ()
    return f"{variant} + multimodal" if more else variant
