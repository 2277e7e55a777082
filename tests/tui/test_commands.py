from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_tui.commands import Call, Command, Registry, Unknown

NAMES = ("new", "newest", "help", "model")
REGISTRY = Registry(Command(name, "", lambda _: None, "name" if name == "model" else "") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["", " ", "  ", "\n"])
def test_a_whole_name_runs_that_command(name: str, end: str) -> None:
    call = REGISTRY.parse(f"/{name}{end}")
    assert isinstance(call, Call)
    assert (call.command.name, call.argument) == (name, "")


def test_an_argument_is_for_commands_that_take_one() -> None:
    call = REGISTRY.parse("/model  org/name ")
    assert isinstance(call, Call)
    assert call.argument == "org/name"
    assert REGISTRY.parse("/new idea: a poem") is None


@pytest.mark.parametrize(
    "text",
    ["/usr/bin/env is missing, why?", "//comment", "/ x", "hello /help", " /help", "/help\nme", "/tmp/x", ""],
)
def test_other_text_is_a_message(text: str) -> None:
    assert REGISTRY.parse(text) is None


@pytest.mark.parametrize("text", ["/hel", "/tmp", "/helpme", "/HELP"])
def test_one_word_that_is_no_command_is_asked_about(text: str) -> None:
    assert REGISTRY.parse(text) == Unknown(text)


@given(st.text("/newsthlpmod -\n", max_size=12))
def test_only_an_exact_name_ever_runs(text: str) -> None:
    call = REGISTRY.parse(text)
    if isinstance(call, Call):
        assert text.split(" ")[0].rstrip("\n") == f"/{call.command.name}"


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("/h", "/help"),
        ("/ne", "/new"),
        ("/new", "/new"),
        ("/newe", "/newest"),
        ("/m", "/model "),
        ("/x", "/x"),
    ]
    + [("/help", "/help"), ("/model", "/model "), ("hello", "hello"), ("/model x", "/model x"), ("/", "/")],
)
def test_completion(text: str, completed: str) -> None:
    assert REGISTRY.complete(text) == completed


def test_matches() -> None:
    assert [command.name for command in REGISTRY.matches("/new")] == ["new", "newest"]
    assert REGISTRY.matches("new") == [] and REGISTRY.matches("/new x") == []
    assert REGISTRY.commands["model"].usage == "/model [name]"
