from __future__ import annotations

import copy
import inspect
import pickle
from typing import get_args

import pytest
from ultra_sdk import errors
from ultra_sdk.connection import Address
from ultra_sdk.discovery import Target
from ultra_sdk.errors import (
    ConnectionLost,
    EngineError,
    InvalidRequest,
    PromptTooLong,
    QueueFull,
    RequestError,
    from_wire,
)
from ultra_sdk.protocol import Error, ErrorCode

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, EngineError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_survives_pickle_and_copy(kind: type[EngineError]) -> None:
    error = kind("one line")
    error.partial = "half"  # type: ignore[attr-defined]
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind and str(again) == "one line" and again.__dict__ == error.__dict__


def test_a_request_error_keeps_what_a_program_branches_on() -> None:
    error = from_wire(Error("queue_full", "full", True, 1500, "x"), "r1")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, QueueFull)
    assert (again.code, again.retryable, again.retry_after_ms) == ("queue_full", True, 1500)
    assert (again.param, again.request_id) == ("x", "r1")


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_every_code_of_the_wire_has_an_exception(code: ErrorCode) -> None:
    error = from_wire(Error(code, "m"), None)
    assert isinstance(error, RequestError) and error.code == code


def test_the_common_ones_have_a_class() -> None:
    assert type(from_wire(Error("invalid_request", "m"), None)) is InvalidRequest
    assert type(from_wire(Error("prompt_too_long", "m"), None)) is PromptTooLong


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    for kind in CLASSES:
        assert kind.__name__.startswith("_") or kind.__name__ in errors.__doc__


def test_no_token_in_any_repr() -> None:
    assert "s3cret" not in repr(Address(token="s3cret", unix="/x"))
    assert "s3cret" not in repr(Target(token="s3cret"))
    assert ConnectionLost("x").partial == ""
