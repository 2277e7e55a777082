"""Skills: folders that teach a kind of task (agentskills.io), in ``.agents/skills/NAME/SKILL.md``.

A model is shown names and descriptions; it reads the body when a task needs it, and further files when the
body sends it there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import AgentError
from .instructions import read_text
from .workspace.root import Root
from .workspace.scan import scan

FOLDER = ".agents/skills"
FILE = "SKILL.md"
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME = 64
MAX_DESCRIPTION = 1024
KEY = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")


@dataclass(frozen=True, slots=True)
class Skill:
    """What a model is shown of a skill; ``path`` has the rest."""

    name: str
    description: str
    path: str

    def told(self) -> str:
        """Its line in the prompt."""
        return f"- {self.name}: {' '.join(self.description.split())} ({self.path})"


class BadSkill(AgentError):
    """A skill breaks the format's rules and is not offered."""


def find_skills(root: Root) -> tuple[list[Skill], list[str]]:
    """The skills of a project by name, and what is wrong with those that cannot be used."""
    skills: list[Skill] = []
    problems: list[str] = []
    for name in _folders(root):
        path = f"{FOLDER}/{name}/{FILE}"
        text = read_text(root, path)
        if text is None:
            continue
        try:
            skills.append(parse_skill(text, name, path))
        except BadSkill as error:
            problems.append(f"{path}: {error}")
    return skills, problems


def parse_skill(text: str, folder: str, path: str) -> Skill:
    """Read the head of a SKILL.md. Raises `BadSkill` with the rule that it breaks."""
    head = front_matter(text)
    name, description = head.get("name", ""), head.get("description", "")
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise BadSkill(
            f"the name {name!r} must be lower-case words with hyphens, {MAX_NAME} characters at most"
        )
    if name != folder:
        raise BadSkill(f"the name {name} is not that of its folder {folder}")
    if not description.strip() or len(description) > MAX_DESCRIPTION:
        raise BadSkill(f"the description must have 1 to {MAX_DESCRIPTION:,} characters")
    return Skill(name, description.strip(), path)


def front_matter(text: str) -> dict[str, str]:
    """The keys between the two lines of dashes at the start; of YAML what such heads use.

    Raises `BadSkill` if there is no head.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        raise BadSkill("it must begin with a line --- and name and description below")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        raise BadSkill("the head has no second line ---")
    values: dict[str, str] = {}
    key, style = "", ""
    for line in lines[1:end]:
        found = KEY.fullmatch(line.rstrip())
        if found is not None:
            key, style = found[1], (found[2] or "").strip()
            values[key] = "" if re.fullmatch(r"[>|][+-]?", style) else _unquoted(style)
        elif key and line[:1] in (" ", "\t"):
            joint = "\n" if style.startswith("|") else " "
            values[key] = f"{values[key]}{joint}{line.strip()}".strip()
    return values


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r'\\(["\\])', r"\1", value[1:-1])
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return re.sub(r"\s+#.*", "", value)


def _folders(root: Root) -> list[str]:
    try:
        if root.lstat(FOLDER) is None:
            return []
        prefix = FOLDER + "/"
        found = [each.path.removeprefix(prefix) for each in scan(root, FOLDER) if each.kind == "folder"]
    except AgentError:
        return []
    return sorted(name for name in found if "/" not in name)
