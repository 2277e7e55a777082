from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_sdk.agent.mentions import Mentions, quoted
from ultra_sdk.agent.workspace.root import Root

NAMES = st.text(st.sampled_from("ab é漢\"'\\@[](){}<>.,;:!?-#`$&~*"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..", "~") and name.strip()
)


@pytest.fixture
def mentions(tmp_path: Path) -> Mentions:
    for name in (
        "src/main.py",
        "src/other.py",
        "my dir/a file.txt",
        "README.md",
        "maintain",
        "ignored.log",
        "a(b)",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("*.log\n")
    return Mentions(Root(tmp_path))


@settings(max_examples=150, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=2), st.sampled_from(["", " why", ", and", ")", "\n"]))
def test_what_is_offered_is_what_is_attached(parts: list[str], after: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, *parts)
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        mentions = Mentions(Root(folder))
        offered = quoted("/".join(parts))
        assert offered in mentions.complete("@" + parts[-1][:1].replace("\\", "\\\\")) or parts[-1][0] in '" '
        assert mentions.attached(f"see @{offered}{after}") == ["/".join(parts)]


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("@", ".gitignore"),
        ("@src/", "src/"),
        ("look at @mai", "maintain"),
        ("@main.", "src/main.py"),
        ("(@READ", "README.md"),
        ("@my", '"my dir/"'),
        ("@my di", '"my dir/"'),
        ('@"my dir/a', '"my dir/a file.txt"'),
        ("@my\\ dir/a", '"my dir/a file.txt"'),
        ("@a f", None),
        ("@smp", "src/main.py"),
        ("@src/main.py and @oth", "src/other.py"),
    ],
)
def test_completion(mentions: Mentions, before: str, first: str | None) -> None:
    assert next(iter(mentions.complete(before)), None) == first


@pytest.mark.parametrize(
    "before", ["", "user@src", "a@@src", "x@", "git@host:src", "@src/main.py and more", '@"src" x', "@zzz"]
)
def test_no_completion_where_there_is_no_mention(mentions: Mentions, before: str) -> None:
    assert mentions.complete(before) == []


@pytest.mark.parametrize(
    ("prompt", "paths"),
    [
        ("mail user@src/main.py", []),
        ("@src/main.py, @README.md: and (@maintain)", ["src/main.py", "README.md", "maintain"]),
        ("@src/main.py @./src/main.py", ["src/main.py"]),
        ('@"my dir/a file.txt".', ["my dir/a file.txt"]),
        ("@my\\ dir/a\\ file.txt", ["my dir/a file.txt"]),
        ("@src", ["src"]),
        ("@ignored.log", ["ignored.log"]),
        ("@none @../etc @/etc/passwd @", []),
        ("@a(b) and (@a(b))", ["a(b)"]),
    ],
)
def test_what_a_prompt_attaches(mentions: Mentions, prompt: str, paths: list[str]) -> None:
    assert mentions.attached(prompt) == paths


def test_new_files_are_seen_after_a_refresh(mentions: Mentions, tmp_path: Path) -> None:
    (tmp_path / "fresh.py").touch()
    assert mentions.complete("@fresh") == []
    mentions.refresh()
    assert mentions.complete("@fresh") == ["fresh.py"]
