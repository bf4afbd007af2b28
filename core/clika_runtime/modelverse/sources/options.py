"""Choosing one weight option of a model that ships several: what a selector means, the table that
is shown when none is given, and what stands beside the options."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from ...errors import InvalidArgumentError, NotFoundError
from .layout import Option

__all__ = [
    "LATEST",
    "at_path",
    "choose",
    "default_option",
    "human_size",
    "option_table",
    "quant_tag",
    "select",
    "selector_of",
]

LATEST = "latest"
# What the hub's own tools take of a repository with many quantizations, best known first.
_PREFERRED = (
    "Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0", "Q4_1", "Q5_0", "Q5_1",
    "IQ4_XS", "IQ4_NL", "MXFP4", "MXFP4_MOE", "Q3_K_M", "Q2_K", "BF16", "F16", "F32",
)  # fmt: skip
_TAG = re.compile(
    r"(?:^|[-_./])((?:UD-)?(?:I?Q[1-8](?:_[0-9A-Z]+)*|TQ[12]_0|BF16|F16|F32|FP16|FP32"
    r"|MXFP4(?:_MOE)?|NVFP4))$",
    re.IGNORECASE,
)


def human_size(nbytes: int) -> str:
    """``659 B``, ``1.6 MiB``, ``942 MiB``: three significant digits at most.

    >>> human_size(98_362_432)
    '93.8 MiB'
    """
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    digits = 0 if unit == "B" or value >= 100 else 1
    return f"{value:.{digits}f} {unit}"


def quant_tag(name: str) -> str:
    """The quantization that an option's name ends with; empty when it ends with none.

    >>> quant_tag("Qwen3-4B-Q6_K"), quant_tag("model.Q4_1"), quant_tag("gemma-4-31B_q4_0-it")
    ('Q6_K', 'Q4_1', '')
    >>> quant_tag("Qwen3-0.6B-UD-Q2_K_XL")
    'UD-Q2_K_XL'
    """
    found = _TAG.search(name)
    return found[1] if found else ""


def _tags(option: Option) -> set[str]:
    stem = posixpath.splitext(posixpath.basename(option.weights[0]))[0]
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", stem)
    return {tag.lower() for tag in (quant_tag(option.name), quant_tag(stem)) if tag}


def select(options: Sequence[Option], selector: str) -> list[Option]:
    """The options that ``selector`` names: an exact option name; else an exact quantization tag of
    one option; else (with ``*``, ``?`` or ``[``) a glob, or a part, of an option's name or of its
    first file's name. Upper and lower case do not matter.
    """
    wanted = selector.lower()
    exact = [option for option in options if option.name.lower() == wanted]
    if exact:
        return exact
    tagged = [option for option in options if wanted in _tags(option)]
    if len(tagged) == 1:
        return tagged
    glob = any(c in wanted for c in "*?[")

    def fits(text: str) -> bool:
        text = text.lower()
        return fnmatch.fnmatchcase(text, wanted) if glob else wanted in text

    return [
        o
        for o in options
        if fits(o.name) or fits(o.weights[0]) or fits(posixpath.basename(o.weights[0]))
    ]


def default_option(options: Sequence[Option]) -> Option:
    """What ``:latest`` stands for: the checkpoint at the top of the repository, else the
    quantization that the hub's own tools take by default, else the first option."""
    for option in options:
        if option.kind == "safetensors" and not option.root:
            return option
    for tag in _PREFERRED:
        for option in options:
            if tag.lower() in _tags(option):
                return option
    return options[0]


def choose(what: str, options: Sequence[Option], selector: str) -> Option:
    """The one option that ``selector`` names. ``what`` is the source, for the refusal.

    Raises ``InvalidArgumentError`` that lists every candidate with its file when none or several
    fit.
    """
    if selector.lower() == LATEST and not any(o.name.lower() == LATEST for o in options):
        return default_option(options)
    chosen = select(options, selector)
    if len(chosen) == 1:
        return chosen[0]
    listing = ", ".join(f"{o.name} ({o.weights[0]})" for o in chosen or options)
    matches = f"matches {len(chosen)} options" if chosen else "matches no option"
    raise InvalidArgumentError(f"{what}: ':{selector}' {matches}, it must match one: {listing}")


def at_path(what: str, options: Sequence[Option], path: str) -> list[Option]:
    """The options that a path inside a repository names: the one that has the file, else those of
    the folder, else the one whose file's name ends so.

    Raises ``NotFoundError`` when there is none, ``InvalidArgumentError`` when a name is not enough.
    """
    named = [option for option in options if path in option.weights]
    if named:
        return named
    inside = [o for o in options if o.root == path or o.root.startswith(path + "/")]
    if inside:
        return inside
    ending = [o for o in options if any(w.lower().endswith(path.lower()) for w in o.weights)]
    if len(ending) == 1:
        return ending
    listing = ", ".join(f"{o.name} ({o.weights[0]})" for o in ending or options)
    if ending:
        raise InvalidArgumentError(
            f"{what}: '{path}' fits {len(ending)} options, it must fit one: {listing}"
        )
    raise NotFoundError(f"{what}: no weight file or folder '{path}' there; there are: {listing}")


def selector_of(option: Option, options: Sequence[Option]) -> str:
    """The shortest selector that names this option alone: its tag, else its name."""
    tag = quant_tag(option.name)
    if tag and select(options, tag) == [option]:
        return tag
    return option.name


def option_table(
    what: str,
    options: Sequence[Option],
    sizes: Mapping[str, int],
    left_out: Iterable[str] = (),
    folder: str = "",
) -> str:
    """The table of the options with their sizes and selectors, and how one is picked. ``folder``
    says that the source is a directory here; ``left_out`` are the sidecar files."""
    rows = [("option", "files", "size", "selector")]
    for option in options:
        size = human_size(sum(sizes.get(file, 0) for file in option.weights))
        selector = f":{selector_of(option, options)}"
        rows.append((option.name, str(len(option.weights)), size, selector))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        "  ".join((*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]))
        for row in rows
    ]
    beside = list(left_out)
    if beside:
        files = "1 sidecar file is" if len(beside) == 1 else f"{len(beside)} sidecar files are"
        lines.append(f"{files} no option (mmproj, imatrix, adapters)")
    exact = "org/repo/<file>.gguf, a /blob|/resolve URL, or --weights <file>.gguf"
    if folder:
        exact = f"{posixpath.join(folder, options[0].weights[0])}, or --weights <file>.gguf"
    return "\n".join(
        [
            f"'{what}' ships {len(options)} weight options; pick one:",
            *lines,
            'pick by tag (":Q6_K" / --weights Q6_K; must match one option), by glob (":*Q8*"), '
            f'by exact file ({exact}), or ":latest" for the hub default',
        ]
    )
