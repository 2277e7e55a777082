"""The tools that a model was offered, as far as reading its calls needs them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .lenient import NotJson, whole

_JSON_TYPES = frozenset({"integer", "number", "boolean", "array", "object", "null"})


class Tools:
    """Names, and the parameters of each with their types."""

    def __init__(self, specs: Iterable[Mapping[str, Any]] = ()) -> None:
        """``specs``: mappings with ``name`` and ``parameters``, a JSON schema."""
        self._parameters: dict[str, Mapping[str, Any]] = {}
        for spec in specs:
            schema = spec.get("parameters")
            found = schema.get("properties") if isinstance(schema, Mapping) else None
            self._parameters[str(spec["name"])] = found if isinstance(found, Mapping) else {}

    def __bool__(self) -> bool:
        return bool(self._parameters)

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def __str__(self) -> str:
        return ", ".join(self._parameters)

    def has(self, tool: str, parameter: str) -> bool:
        """Whether ``tool`` is known to have such a parameter; of one without a schema we know nothing."""
        known = self._parameters.get(tool)
        return not known or parameter in known

    def is_text(self, tool: str, parameter: str) -> bool:
        """Whether a value that was written without quotes is meant as text, as far as the schema tells."""
        schema = self._parameters.get(tool, {}).get(parameter)
        types = _types(schema) if isinstance(schema, Mapping) else set()
        return not types or "string" in types

    def value(self, text: str) -> str:
        """The JSON of a value that is not text, written without quotes; text after all if it is no JSON."""
        try:
            return json.dumps(whole(text), ensure_ascii=False)
        except NotJson:
            return json.dumps(text, ensure_ascii=False)


def _types(schema: Mapping[str, Any]) -> set[str]:
    given = schema.get("type")
    found = {given} if isinstance(given, str) else set(given) if isinstance(given, list) else set()
    for key in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(key) or ():
            if isinstance(option, Mapping):
                found |= _types(option)
    return {str(kind) for kind in found} & (_JSON_TYPES | {"string"})
