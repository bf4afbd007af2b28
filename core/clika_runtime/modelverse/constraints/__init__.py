"""Constrained output: the text of a reply keeps to a schema, an expression, a grammar or a choice.

    from clika_runtime.modelverse.constraints import ConstraintSpec, compile_constraint, fill_masks

    constraint = compile_constraint(tokenizer, ConstraintSpec.json_schema({"type": "object"}))
    state = constraint.start()          # one per sequence
    fill_masks([state], masks)          # int32 [1, ceil(V / 32)], one bit per token
    state.accept(token)                 # the token that was sampled
    state.finished                      # nothing may follow

The grammars are those of the package ``llguidance``, which is imported when the first constraint is
compiled (``pip install 'clika-runtime[constrain]'``).
"""

from __future__ import annotations

from .constraint import Constraint, ConstraintState, compile_constraint, fill_masks, mask_words
from .library import check_constraint
from .spec import ConstraintSpec

__all__ = [
    "Constraint",
    "ConstraintSpec",
    "ConstraintState",
    "check_constraint",
    "compile_constraint",
    "fill_masks",
    "mask_words",
]
