"""What is known of a model before its weights are read: enough to refuse at once what it cannot do.

found = preview("model.gguf")
found.constraint({"regex": "[0-9]+"})       # refused now, not behind the load
model = load_generative(found, max_seq=4096)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .assistant import check_tokens
from .family import Family
from .generation_config import GenerationConfig, read_defaults
from .loader import Checkpoint, family_object, identify, open_checkpoint, read_config

if TYPE_CHECKING:
    from .constraints import Constraint, ConstraintSpec

__all__ = ["Preview", "constraint_for", "preview"]


@dataclass(frozen=True, eq=False)
class Preview:
    """A model without its weights: the opened ``checkpoint``, its ``family`` and that one's
    ``config``, and the checkpoint's own knobs, ``defaults``. The tokenizer is read when it is first
    asked for, that of the file ``tokenizer_path`` if there is one.

    ``load_generative`` takes one in the place of a source; nothing is read twice then."""

    checkpoint: Checkpoint
    family: Family
    config: Any
    defaults: GenerationConfig
    tokenizer_path: Any = None

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer. Errors: those of a damaged one."""
        from clika_runtime.tokenizer import Tokenizer

        if self.tokenizer_path is not None:
            return Tokenizer.from_file(self.tokenizer_path)
        if self.checkpoint.kind == "gguf":
            # The file's own tokenizer wins over files beside it.
            return Tokenizer.from_gguf(self.checkpoint.file)
        return Tokenizer.from_huggingface(self.checkpoint.folder)

    @property
    def vocab_size(self) -> int:
        """Ids of the logits."""
        return int(self.config.vocab_size)

    def constraint(self, constraint: Any) -> Constraint | None:
        """The constraint of a generation, compiled; the loaded model finds it again. None for free
        text. Errors: as `constraints.compile_constraint`."""
        from .constraints import ConstraintSpec

        spec = ConstraintSpec.read(constraint)
        if spec is None:
            return None
        return constraint_for(self.tokenizer, spec, self.vocab_size, self.defaults)

    def check_assistant(self, assistant: Preview) -> None:
        """`InvalidArgumentError` unless the other model is one over the same tokens."""
        check_tokens(self.tokenizer, self.vocab_size, assistant.tokenizer, assistant.vocab_size)


def preview(source: Any, tokenizer: Any = None) -> Preview:
    """Reads configuration and headers of a directory, a file or what ``sources.resolve`` returned;
    ``tokenizer`` names another tokenizer's file.

    Refused: what no installed family serves, a configuration that is damaged."""
    checkpoint = open_checkpoint(source)
    family = family_object(identify(checkpoint), checkpoint.path)
    config = read_config(family, checkpoint)
    defaults = read_defaults(checkpoint, config)
    return Preview(checkpoint, family, config, defaults, tokenizer)


def constraint_for(
    tokenizer: Any, spec: ConstraintSpec, vocab_size: int, defaults: GenerationConfig
) -> Constraint:
    """A constraint for the replies of a model. What ends the checkpoint's replies, or a text of its
    tokenizer, ends one of the constraint."""
    from .constraints import compile_constraint

    return compile_constraint(
        tokenizer, spec, vocab_size, tokenizer.stop_ids.union(defaults.stop_ids)
    )
