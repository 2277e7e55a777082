from __future__ import annotations

from pathlib import Path

import pytest
from agent_kit import project
from ultra_sdk.agent.instructions import InstructionFiles
from ultra_sdk.agent.skills import BadSkill, Skill, find_skills, front_matter, parse_skill
from ultra_sdk.agent.workspace.root import Root

HEAD = "---\nname: deploy-it\ndescription: How to deploy.\n---\nbody\n"


def test_a_skill_is_its_name_and_description() -> None:
    skill = parse_skill(HEAD, "deploy-it", "p/SKILL.md")
    assert skill == Skill("deploy-it", "How to deploy.", "p/SKILL.md")
    assert skill.told() == "- deploy-it: How to deploy. (p/SKILL.md)"
    assert parse_skill("\ufeff" + HEAD, "deploy-it", "p") and parse_skill(
        HEAD.replace("\n", "\r\n"), "deploy-it", "p"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD.replace("deploy-it", "Deploy"), "lower-case"),
        (HEAD.replace("deploy-it", "a" * 65), "64 characters"),
        (HEAD.replace("deploy-it", "deploy--it"), "lower-case"),
        (HEAD.replace("deploy-it", "other"), "not that of its folder"),
        (HEAD.replace("How to deploy.", "x" * 1025), "1,024"),
        (HEAD.replace("How to deploy.", ""), "description"),
        ("body\n", "must begin with"),
        ("---\nname: deploy-it\n", "no second line"),
        ("", "must begin with"),
    ],
)
def test_broken_skills_say_why(text: str, said: str) -> None:
    with pytest.raises(BadSkill, match=said):
        parse_skill(text, "deploy-it", "p")


def test_values_as_yaml_writes_them() -> None:
    head = front_matter(
        "---\nname: 'it''s'\na: \"x \\\"y\\\"\"\nb: z # c\nd: >\n  one\n  two\ne: |\n  one\n  two\n"
        "metadata:\n  x: y\n---\n"
    )
    assert head["name"] == "it's" and head["a"] == 'x "y"' and head["b"] == "z"
    assert head["d"] == "one two" and head["e"] == "one\ntwo"


def test_the_skills_of_a_project(tmp_path: Path) -> None:
    root = Root(
        project(
            tmp_path,
            {
                ".agents/skills/deploy-it/SKILL.md": "\ufeff" + HEAD,
                ".agents/skills/empty/x.txt": "",
                ".agents/skills/bad/SKILL.md": "x",
                ".agents/skills/deploy-it/deep/SKILL.md": HEAD,
            },
        )
    )
    skills, problems = find_skills(root)
    assert [skill.name for skill in skills] == ["deploy-it"]
    assert len(problems) == 1 and problems[0].startswith(".agents/skills/bad/SKILL.md: it must begin")
    assert find_skills(Root(project(tmp_path / "none", {}))) == ([], [])


def test_instructions_are_loaded_once_outer_ones_first(tmp_path: Path) -> None:
    files = {
        "AGENTS.md": "top",
        "a/AGENTS.md": "\ufeff\ufeffin a\n",
        "a/b/AGENTS.md": "x" * 50,
        "a/b/c.py": "",
    }
    found = InstructionFiles(Root(project(tmp_path, files)), 20)
    assert [each.path for each in found.at_start()] == ["AGENTS.md"]
    (first, second) = found.below("a/b/c.py")
    assert (first.path, first.text, first.cut) == ("a/AGENTS.md", "in a\n", False)
    assert second.cut and second.told().endswith("[30 more characters: read a/b/AGENTS.md]")
    assert found.below("a/b/c.py") == [] and found.at_start() == []
    found.forget()
    assert [each.path for each in found.below("a")] == ["AGENTS.md", "a/AGENTS.md"]


def test_what_is_no_text_is_no_instruction(tmp_path: Path) -> None:
    root = project(tmp_path, {"AGENTS.md": "x"})
    (root / "AGENTS.md").write_bytes(b"\0\1")
    assert InstructionFiles(Root(root)).at_start() == []
    (root / "AGENTS.md").unlink()
    (root / "AGENTS.md").symlink_to("/etc/passwd")
    assert InstructionFiles(Root(root)).at_start() == []
