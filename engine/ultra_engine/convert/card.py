"""The model card of what was converted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..weights.summary import bytes_text

if TYPE_CHECKING:  # cards are read where torch is not loaded
    from .mxfp4 import Loss, Scale

NAME, SOURCE_CARD = "README.md", "README.source.md"

_WORD = re.compile(r"[\w.+/ -]{1,80}")

_TEXT = """\
---
{front}---

# {title}, {what} in MXFP4

Made from `{title}` by `ultra convert` {version}: {what} were rounded to MXFP4 (4-bit E2M1 values, a power of
two for each group of 32), to the nearest value, ties to even.
{method}
Every other tensor is what it was, byte for byte.

| | |
|---|---|
| weights that were rounded | {weights:,} |
| relative error, root mean square | {rms:.3%} |
| largest error of one weight | {largest:.4g} |
| size | {size}, before {before} |

`conversion.json` has the errors of every layer. Nothing was trained or calibrated: measure what you need
before you rely on it.{warning}

{layout}
Two values a byte, the even column in the low half; a byte s of the scales is 2^(s - 127).{kept}

```sh
ultra serve --model PATH_OF_THIS_FOLDER
```
"""

_MIMO = """\
The layout is that of MiMo's MXFP4 checkpoints: `*.weight` uint8 [rows, columns / 2], `*.weight_scale` uint8
[rows, columns / 32], and `"store_dtype": "mxfp4"` in `config.json`."""
_GPT_OSS = """\
The layout is that of the published gpt-oss checkpoints: `*_blocks` uint8 [experts, rows, columns / 32, 16]
and `*_scales` uint8 [experts, rows, columns / 32]."""

_METHODS = {
    "mse": "The power of a group is the one with the least squared error.",
    "max": "The power of a group is that of its largest weight (OCP MX 1.0, 6.3).",
}

_DENSE = """

The MLPs of this model are dense: every token uses all of them, so rounding costs more quality than it does in
a mixture of experts."""


def card(
    source: Path,
    family: object,
    formats: Mapping[str, str],
    scale: Scale,
    loss: Loss,
    size: int,
    before: int,
) -> bytes:
    """README.md. ``family`` is config.json's ``model_type``; ``size`` and ``before`` are bytes of weights."""
    words = {"experts": "experts", "mlp": "MLPs"}
    text = _TEXT.format(
        front=_front(source),
        title=_title(source),
        what=" and ".join(words[role] for role in formats),
        version=__version__,
        method=_METHODS[scale],
        weights=loss.weights,
        rms=loss.relative_rms,
        largest=loss.largest,
        size=bytes_text(size),
        before=bytes_text(before),
        warning=_DENSE if "mlp" in formats else "",
        layout=_GPT_OSS if family == "gpt_oss" else _MIMO,
        kept=f" `{SOURCE_CARD}` is the card of the original." if (source / NAME).is_file() else "",
    )
    return text.encode()


def _title(source: Path) -> str:
    """``org/name`` in the folders of a cache, the folder's name elsewhere."""
    folder = source.resolve()
    if folder.parent.name == "snapshots":
        folder = folder.parent.parent
    return re.sub(r"[^\w./ -]", "_", folder.name.removeprefix("models--").replace("--", "/"))


def _front(source: Path) -> str:
    """What the hub reads: the original's licence, where its card tells, and its name."""
    lines = []
    if licence := licence_of(source):
        lines.append(f"license: {licence}\n")
    if "/" in _title(source):
        lines.append(f"base_model: {_title(source)}\nbase_model_relation: quantized\n")
    return "".join([*lines, "tags:\n- mxfp4\n"])


def licence_of(source: Path) -> str | None:
    """The licence that a model's card gives in its front matter."""
    try:
        text = (source / NAME).read_bytes()[:100_000].decode(errors="replace")
    except OSError:
        return None
    front = re.match(r"---\r?\n(.*?)\r?\n---", text, re.DOTALL)
    found = re.search(r"^license:[ \t]*[\"']?([^\"'\r\n#]+)", front[1], re.MULTILINE) if front else None
    word = found[1].strip() if found else ""
    return word if _WORD.fullmatch(word) else None
