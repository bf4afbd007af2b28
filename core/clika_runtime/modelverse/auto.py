"""Loading by task: the class is found from the checkpoint.

A source is what ``sources.resolve`` takes: a directory, a weight file, a package, a repository.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import pipeline_tags
from ..errors import InvalidArgumentError, UnsupportedError
from . import catalog
from .headers import Source, config_folder, opened
from .registry import ModelRegistry
from .sources import ResolvedSource, resolve
from .sources.local import is_folder

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer
    from .generation import GenerationReport, GenerativeModel

__all__ = [
    "AutoConfig",
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoProcessor",
    "AutoTokenizer",
    "TextGenerationPipeline",
    "pipeline",
]


class _Door:
    """A name to load through; it has no objects of its own."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{cls.__name__}: use {cls.__name__}.from_pretrained(source)")


class AutoModelForCausalLM(_Door):
    """Loads models that continue text."""

    @classmethod
    def from_pretrained(
        cls,
        source: Source,
        *,
        device: str = "cpu",
        offline: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> GenerativeModel:
        """Finds the files of ``source``, loads the model on ``device`` ("auto": the best one here)
        and returns it.

        ``offline`` forbids to fetch anything. Further options are those of ``LoadOptions``
        (``dtype``, ``max_seq``, ``mode``, ...). Without ``max_seq`` the context window is the
        checkpoint's whole one; the command line takes at most 4096 tokens of it.

            model = AutoModelForCausalLM.from_pretrained("model.gguf", max_seq=4096)
            print(model.generate("Once upon a time,", max_new_tokens=32))
        """
        from .generation import load_options
        from .loader import LoadOptions

        tokenizer = {name: options.pop(name) for name in ("tokenizer",) if name in options}
        checked = load_options(LoadOptions(device=device), options)  # before anything is fetched
        found = resolve(source, offline=offline, cache_dir=cache_dir)
        return ModelRegistry.builtin().load_generative(found, checked, **tokenizer)


class AutoModel(_Door):
    """Loads a model by the task of its family."""

    @classmethod
    def from_pretrained(
        cls,
        source: Source,
        *,
        device: str = "cpu",
        offline: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> GenerativeModel:
        """The runnable model of ``source``: a ``GenerativeModel`` where its family generates text.
        Options as in ``AutoModelForCausalLM``."""
        # Models that generate text are what this release loads; the registry refuses the others.
        return AutoModelForCausalLM.from_pretrained(
            source, device=device, offline=offline, cache_dir=cache_dir, **options
        )


class AutoConfig(_Door):
    """Reads the configuration of a checkpoint into its family's own class."""

    @classmethod
    def from_pretrained(
        cls,
        source: Source,
        *,
        offline: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> Any:
        """The family's config (``LlamaConfig``, ...), checked; from `config.json` or GGUF metadata.
        No weights are read, and a folder with a `config.json` need not have any."""
        from .config import Fields
        from .loader import family_object, open_checkpoint, read_config

        folder = config_folder(source)
        if folder is not None:
            from ..io import read_json

            row = catalog.checked(catalog.probe_folder(folder)).row
            where = folder / "config.json"
            return family_object(row, folder).config_from_hf(Fields(read_json(where), str(where)))
        with opened(source, offline=offline, cache_dir=cache_dir) as found:
            row = catalog.identify(found).row
            return read_config(family_object(row, found.path), open_checkpoint(found))


class AutoTokenizer(_Door):
    """Loads the tokenizer of a checkpoint."""

    @classmethod
    def from_pretrained(
        cls,
        source: Source,
        *,
        offline: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> Tokenizer:
        """The tokenizer that stands in ``source``: that of a GGUF file itself, else the files of
        the folder, which need not have weights or a `config.json`."""
        from ..tokenizer import Tokenizer

        if not isinstance(source, ResolvedSource):
            folder = Path(os.fsdecode(source))
            if is_folder(folder) and not any(folder.glob("*.gguf")):
                return Tokenizer.from_huggingface(folder)
        found = resolve(source, offline=offline, cache_dir=cache_dir)
        if found.kind == "gguf":
            return Tokenizer.from_gguf(found.path)
        return Tokenizer.from_huggingface(found.folder)


class AutoProcessor(_Door):
    """Loads what turns a request into a model's inputs."""

    @classmethod
    def from_pretrained(
        cls,
        source: Source,
        *,
        offline: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> Tokenizer:
        """The processor of ``source``: for a family of texts its tokenizer. Families that read
        images or audio have none in this release and are refused."""
        found = resolve(source, offline=offline, cache_dir=cache_dir)
        row = catalog.identify(found).row
        assert row is not None
        more = [name for name in row.spec.input_modalities if name != "text"]
        if more:
            raise UnsupportedError(
                f"AutoProcessor: family '{row.name}' reads {', '.join(more)} beside text, and no "
                "processor for it is installed; AutoTokenizer gives the part for texts"
            )
        return AutoTokenizer.from_pretrained(found)


# ---------------------------------------------------------------- by task
class TextGenerationPipeline:
    """Text or conversations in, text out. Made by ``pipeline("text-generation", source)``."""

    task = pipeline_tags.TEXT_GENERATION

    def __init__(self, model: GenerativeModel) -> None:
        self.model = model
        self.tokenizer = model.tokenizer

    def __call__(self, inputs: Any, *, return_full_text: bool = True, **options: Any) -> Any:
        """``[{"generated_text": ...}]`` of a prompt; a list of such lists of a list of prompts.

        A conversation (a list of messages) comes back with the assistant's turn added, or, without
        ``return_full_text``, as that turn's text. The items of a list run together, as many at a
        time as the cache holds sequences. Options are those of ``GenerativeModel.generate``."""
        if isinstance(inputs, str):
            return self._texts([inputs], return_full_text, options)[0]
        if not isinstance(inputs, Sequence) or not inputs:
            raise InvalidArgumentError(
                "pipeline: the input is a text, a conversation (a list of messages) or a list of "
                f"these, got {inputs!r:.80}"
            )
        if all(isinstance(item, dict) for item in inputs):
            return self._turns([inputs], return_full_text, options)[0]
        if all(isinstance(item, str) for item in inputs):
            return self._texts(inputs, return_full_text, options)
        return self._turns(inputs, return_full_text, options)

    def _texts(self, prompts: Any, full: bool, options: dict[str, Any]) -> list[Any]:
        replies = self.model.generate_batch(prompts, **options)
        return [
            [{"generated_text": prompt + reply.text if full else reply.text}]
            for prompt, reply in zip(prompts, replies, strict=True)
        ]

    def _turns(self, conversations: Any, full: bool, options: dict[str, Any]) -> list[Any]:
        replies = self.model.chat_batch(conversations, **options)
        return [
            [{"generated_text": [*turns, _turn(reply)] if full else reply.text}]
            for turns, reply in zip(conversations, replies, strict=True)
        ]


def _turn(reply: GenerationReport) -> dict[str, Any]:
    """A reply as a message of the conversation, as chat templates read it: the arguments of
    a call are an object."""
    turn: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        turn["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        turn["tool_calls"] = [
            {
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments if call.parsed is None else call.parsed,
                },
            }
            for call in reply.tool_calls
        ]
    return turn


def pipeline(
    task: str,
    source: Source,
    *,
    device: str = "cpu",
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    **options: Any,
) -> TextGenerationPipeline:
    """A callable for a task over the model of ``source``. Options are those of ``LoadOptions``.

    Refused: a task outside ``pipeline_tags``, one that this release has no pipeline for, and one
    that the model's family does not serve.

        generate = pipeline("text-generation", "model.gguf", max_seq=4096)
        print(generate("Once upon a time,", max_new_tokens=32)[0]["generated_text"])
    """
    served = TextGenerationPipeline.task
    if task not in pipeline_tags.TAGS:
        raise InvalidArgumentError(
            f"pipeline: {task!r:.80} is no pipeline tag; this release serves '{served}'"
        )
    if task != served:
        raise UnsupportedError(
            f"pipeline: this release has no pipeline for '{task}'; it serves '{served}'"
        )
    found = resolve(source, offline=offline, cache_dir=cache_dir)
    row = catalog.identify(found).row
    assert row is not None
    if task not in row.spec.tasks:
        raise UnsupportedError(
            f"pipeline: family '{row.name}' does not serve '{task}'; its tasks: "
            f"{', '.join(row.spec.tasks)}"
        )
    model = ModelRegistry.builtin().load_generative(found, device=device, **options)
    return TextGenerationPipeline(model)
