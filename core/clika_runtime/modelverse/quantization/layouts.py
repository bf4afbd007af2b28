"""Published codes and scales as packed weights of this runtime, see ``plugin.h``; values do not
change.

N rows, K columns. Scales stand for runs of columns: [N, G] with ``each`` columns for one, the last
one maybe fewer."""

from __future__ import annotations

from typing import Any

from clika_runtime.io import SCHEMES_BY_NAME

__all__ = [
    "int4_scheme",
    "neighbours",
    "pack_float8",
    "pack_int4",
    "pack_int8",
    "pack_nf4",
    "pack_nvfp4",
    "unpack_neighbours",
]


def _tensor(scheme: str, rows: int, columns: int, *fields: Any) -> Any:
    """A packed weight whose blocks have these fields, each [N, blocks, ...]."""
    import numpy as np

    import clika_runtime as crt

    own = SCHEMES_BY_NAME[scheme]
    count = columns // own.columns
    blocks = np.empty((rows, count, own.nbytes), np.uint8)
    at = 0
    for field in fields:
        # float32 fields come as one number a block
        data = np.ascontiguousarray(field)
        data = data.view(np.uint8).reshape(rows, count, -1 if data.size else 0)
        blocks[:, :, at : at + data.shape[2]] = data
        at += data.shape[2]
    return crt.Tensor.from_buffer(
        blocks, (rows, columns), crt.float32, scheme=own.number, mapped=False
    )


def _spread(scales: Any, rows: int, columns: int, each: int, block: int) -> Any:
    """Scales [1 or N, G] for ``each`` columns, as one for each block of ``block`` columns."""
    import numpy as np

    group = np.arange(columns // block) * block // each
    return np.broadcast_to(scales[:, group], (rows, group.size))


def pack_float8(scheme: str, codes: Any, scales: Any, each: int) -> Any:
    """FP8: uint8 codes [N, K] and float32 scales [1 or N, G]."""
    rows, columns = codes.shape
    spread = _spread(scales, rows, columns, each, 32)
    return _tensor(scheme, rows, columns, spread, codes.reshape(rows, columns // 32, 32))


def pack_int8(codes: Any, scales: Any, each: int) -> Any:
    """int8 codes [N, K] and float32 scales [1 or N, G]."""
    rows, columns = codes.shape
    spread = _spread(scales, rows, columns, each, 32)
    return _tensor("INT8_G32", rows, columns, spread, codes.reshape(rows, columns // 32, 32))


def int4_scheme(columns: int, each: int) -> str:
    """The scheme of groups of ``each`` columns: blocks of 128 where they fit."""
    return "INT4_G128" if each % 128 == 0 and columns % 128 == 0 else "INT4_G32"


def neighbours(codes: Any) -> Any:
    """Codes 0 .. 15 [N, K] as pairs [N, K / 2], the even column in the low half."""
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpack_neighbours(pairs: Any) -> Any:
    """The inverse."""
    import numpy as np

    codes = np.empty((pairs.shape[0], pairs.shape[1] * 2), np.uint8)
    codes[:, 0::2] = pairs & 15
    codes[:, 1::2] = pairs >> 4
    return codes


def pack_int4(pairs: Any, scales: Any, zeros: Any, each: int) -> Any:
    """int4: pairs of codes [N, K / 2] as ``neighbours``, float32 scales and whole zeros
    [1 or N, G]; value = scale * (code - zero)."""
    import numpy as np

    rows, columns = pairs.shape[0], pairs.shape[1] * 2
    scheme = int4_scheme(columns, each)
    block = SCHEMES_BY_NAME[scheme].columns
    minima = -scales * zeros.astype(np.float32)
    # 32 columns: from neighbours to i in the low half and 16 + i in the high half of byte i.
    parts = pairs.reshape(rows, columns // 32, 16)
    low, high = parts[:, :, :8], parts[:, :, 8:]
    codes = np.empty_like(parts)
    codes[:, :, 0::2] = (low & 15) | (high & 15) << 4
    codes[:, :, 1::2] = low >> 4 | (high & 240)
    return _tensor(
        scheme,
        rows,
        columns,
        _spread(scales, rows, columns, each, block),
        _spread(minima, rows, columns, each, block),
        codes.reshape(rows, columns // block, block // 2),
    )


def pack_nf4(pairs: Any, scales: Any) -> Any:
    """NF4: pairs [N, K / 2], the even column in the high half, and float32 scales [N, K / 64]."""
    rows, columns = pairs.shape[0], pairs.shape[1] * 2
    return _tensor("NF4", rows, columns, scales, pairs.reshape(rows, columns // 64, 32))


def pack_nvfp4(pairs: Any, scales: Any, factor: Any) -> Any:
    """NVFP4: pairs [N, K / 2], e4m3 scales as bytes [N, K / 16], a float32 factor of them all."""
    import numpy as np

    rows, columns = pairs.shape[0], pairs.shape[1] * 2
    count = columns // 64
    return _tensor(
        "NVFP4_E4M3",
        rows,
        columns,
        np.full((rows, count), factor, np.float32),
        scales.reshape(rows, count, 4),
        pairs.reshape(rows, count, 32),
    )
