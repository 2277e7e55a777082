"""What the schemas of tools tell about values, whatever clients put there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.formats.tools import Tools


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, True),
        ({}, True),
        ({"type": "integer"}, False),
        ({"type": ["integer", "null"]}, False),
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, False),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, True),
        ({"type": "made up"}, True),
        ({"type": [{}], "anyOf": 5, "oneOf": [1]}, True),
        ("string", True),
    ],
)
def test_whether_a_bare_value_is_text(schema: Any, text: bool) -> None:
    tools = Tools([{"name": "f", "parameters": {"properties": {"a": schema}}}])
    assert tools.is_text("f", "a") is text
    assert tools.is_text("f", "other") and tools.is_text("other", "a")
    assert tools.has("f", "a") and not tools.has("f", "b") and tools.has("other", "b")
    assert "f" in tools and "g" not in tools and tools and not Tools()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(anything)
def test_no_schema_breaks_it(schema: Any) -> None:
    tools = Tools([{"name": "f", "parameters": schema}])
    assert tools.is_text("f", "a") in (True, False) and tools.has("f", "a") in (True, False)
