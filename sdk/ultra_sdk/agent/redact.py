"""Keeping secrets out of what is stored: keys by their shape, and the values of env files and variables.

The model still sees the original; only transcripts and logs are redacted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from .sandbox.environment import SECRET
from .workspace.ignore import ALWAYS

SHAPES = {
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY[^-]*-----.*?(?:-----END [A-Z ]*KEY[^-]*-----|\Z)",
    "AWS key": r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{16,}",
    "Google key": r"\bAIza[0-9A-Za-z_-]{30,}",
    "Google token": r"\bya29\.[0-9A-Za-z_-]{20,}",
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{20,}",
    "npm token": r"\bnpm_[A-Za-z0-9]{30,}",
    "PyPI token": r"\bpypi-[A-Za-z0-9_-]{30,}",
    "Slack token": r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    "Stripe key": r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}",
    "SendGrid key": r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "API key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "JWT": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
}
IN_URL = re.compile(r"(?<=://)([^\s/:@'\"]+):([^\s/@'\"]+)(?=@)")
BEARER = re.compile(
    r"(?i)\b(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)\s+)[A-Za-z0-9+/=._~-]{8,}"
)
SHAPE = re.compile("|".join(f"(?P<s{i}>{shape})" for i, shape in enumerate(SHAPES.values())), re.DOTALL)
NAMES = list(SHAPES)

ENV_FILE = re.compile(r"(?:.*\.)?env(?:\..+)?|\.envrc", re.IGNORECASE)
SAMPLE = re.compile(r"example|sample|template|dist|default", re.IGNORECASE)
ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*")
MAX_DEPTH = 4
MAX_ENV_BYTES = 1 << 20
SHORT, SHORT_SECRET = 8, 4
"""Shorter values would be found everywhere; the second is for names that say they are secret."""


class Redactor:
    """Replaces secrets in texts.

    redactor = Redactor({"DB_PASSWORD": "hunter22"})
    redactor.redact("mysql -phunter22")   # "mysql -p[redacted DB_PASSWORD]"
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        forms = {
            form: name for name, value in values.items() if _worth(name, value) for form in _forms(value)
        }
        self._names = forms
        longest_first = sorted(forms, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    @classmethod
    def of(cls, root: Path, env: Mapping[str, str] | None = None) -> Redactor:
        """For the env files of a project and the secret variables of a process."""
        env = os.environ if env is None else env
        values = {name: value for name, value in env.items() if SECRET.search(name)}
        for path in env_files(root):
            for name, value in parse_env(path):
                values.setdefault(name, value)
        return cls(values)

    def redact(self, text: str) -> str:
        """The text with a mark in the place of each secret."""
        if self._values is not None:
            text = self._values.sub(lambda found: f"[redacted {self._names[found[0]]}]", text)
        text = SHAPE.sub(lambda found: f"[redacted {NAMES[int((found.lastgroup or 's0')[1:])]}]", text)
        text = IN_URL.sub(r"\1:[redacted password]", text)
        return BEARER.sub(r"\1[redacted token]", text)


def env_files(root: Path) -> Iterator[Path]:
    """The env files of a project, samples left out."""
    base = len(root.parts)
    for top, folders, names in os.walk(root):
        deep = len(Path(top).parts) - base >= MAX_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if name not in ALWAYS)
        for name in sorted(names):
            path = Path(top, name)
            if (
                ENV_FILE.fullmatch(name)
                and not SAMPLE.search(name)
                and path.is_file()
                and not path.is_symlink()
            ):
                yield path


def parse_env(path: Path) -> Iterator[tuple[str, str]]:
    """The names and values of an env file; lines that are no assignment are passed over."""
    try:
        if path.stat().st_size > MAX_ENV_BYTES:
            return
        text = path.read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        found = ASSIGNMENT.fullmatch(line)
        if found is None:
            continue
        value = found[2]
        if value[:1] in ("'", '"') and value.find(value[0], 1) > 0:
            yield found[1], value[1 : value.find(value[0], 1)]
        else:
            yield found[1], re.split(r"\s+#", value)[0].strip()


def _worth(name: str, value: str) -> bool:
    if SECRET.search(name):
        return len(value) >= SHORT_SECRET
    plain = re.fullmatch(r"[a-z ._/-]*|[\d.:]*|https?://[\w.:/-]*|(?i:true|false)", value)
    return len(value) >= SHORT and not plain


def _forms(value: str) -> set[str]:
    """The value, and how it looks in JSON and in addresses."""
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe=""),
    }
