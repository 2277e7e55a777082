from __future__ import annotations

import pytest
from ultra_sdk.agent.edits.omission import check_omissions, is_placeholder
from ultra_sdk.agent.errors import Omission


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest of the code unchanged ...",
        "    // ... existing code ...",
        "/* ... remaining methods ... */",
        "<!-- ... rest of file ... -->",
        "# rest of the code remains the same",
        "// (other functions unchanged)",
        "# … existing imports …",
        "  # ...",
        "// ...",
        "-- ... previous lines ...",
        "{/* ... existing content ... */}",
        "# Rest of the implementation stays the same",
    ],
)
def test_placeholders(line: str) -> None:
    assert is_placeholder(line)
    with pytest.raises(Omission, match="line 2 of the new text"):
        check_omissions("a\n", f"a\n{line}\n")
    check_omissions(f"a\n  {line}\n", f"b\n{line}\n")  # it is the file's own


@pytest.mark.parametrize(
    "line",
    [
        "x = 1",
        "# the rest of the day is free",
        "# wait for the remaining workers",
        "// falls through to the existing handler",
        "print('... rest of the code unchanged ...')",
        "# see the other class",
        "return [...original, item]",
        "# TODO: ... and so on",
        "#!/bin/sh",
        "- the rest",
        "",
    ],
)
def test_code_and_comments(line: str) -> None:
    assert not is_placeholder(line)


def test_dots_alone_mean_something_in_some_files() -> None:
    check_omissions("", "class A: \n    ...\n", "a.py")
    check_omissions("", "a: 1\n...\n", "a.yaml")
    with pytest.raises(Omission):
        check_omissions("", "f() {\n  ...\n}\n", "a.js")
    with pytest.raises(Omission):
        check_omissions("", "def f():\n    # ...\n", "a.py")
