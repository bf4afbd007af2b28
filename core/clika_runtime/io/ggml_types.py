"""The block types of ggml in one table: number, elements and bytes of a block, what a tensor
becomes.

A type with one element per block is dense and has a dtype of the runtime. Every other type is
packed: its scheme number is its ggml number + 1 (0 is dense).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LOADABLE", "REMOVED", "TYPES", "TYPES_BY_NAME", "GgmlType", "scheme_name"]


@dataclass(frozen=True)
class GgmlType:
    """One storage type of ggml.

    ``block`` elements of a row take ``nbytes`` bytes; ``dtype`` is the runtime's dtype name of a
    dense type and None for a packed one.
    """

    id: int
    name: str
    block: int
    nbytes: int
    dtype: str | None = None

    @property
    def scheme(self) -> int:
        """0 for a dense type, else the ggml number + 1."""
        return 0 if self.dtype is not None else self.id + 1

    @property
    def loadable(self) -> bool:
        """Whether the loaders make tensors of this type (the reader lists every known type)."""
        return self.id in LOADABLE


TYPES: dict[int, GgmlType] = {
    row[0]: GgmlType(*row)
    for row in (
        (0, "F32", 1, 4, "float32"),
        (1, "F16", 1, 2, "float16"),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (9, "Q8_1", 32, 40),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (15, "Q8_K", 256, 292),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (24, "I8", 1, 1, "int8"),
        (25, "I16", 1, 2, "int16"),
        (26, "I32", 1, 4, "int32"),
        (27, "I64", 1, 8, "int64"),
        (28, "F64", 1, 8, "float64"),
        (29, "IQ1_M", 256, 56),
        (30, "BF16", 1, 2, "bfloat16"),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
        (41, "Q1_0", 128, 18),
    )
}
TYPES_BY_NAME: dict[str, GgmlType] = {t.name: t for t in TYPES.values()}

# Numbers that ggml once gave out and has withdrawn; a file that uses one says so in the refusal.
REMOVED: dict[int, str] = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}

# What the loaders turn into tensors: every type whose numbers are published. Q8_1 and Q8_K are
# ggml's own forms of activations, no file of weights has them; Q1_0 has no published decoding yet.
LOADABLE: frozenset[int] = frozenset(TYPES) - {
    TYPES_BY_NAME[name].id for name in ("Q8_1", "Q8_K", "Q1_0")
}


def scheme_name(scheme: int) -> str:
    """The public name of a packed scheme number: 9 -> ``"GGUF_Q8_0"``.

    Raises ``KeyError`` for 0 (dense) and for a number that no ggml type has.
    """
    kind = TYPES[scheme - 1]
    if kind.scheme != scheme:
        raise KeyError(scheme)
    return f"GGUF_{kind.name}"
