"""Reading a JSON body field by field. Null means absent; what is wrong is named.

Python's own JSON reader, because it lets NaN and Infinity through to where the field is known.
"""

from __future__ import annotations

import json
import math
from typing import Any

from .errors import ApiError


def parse(body: bytes) -> Fields:
    """The body as an object; `ApiError` for anything else, also for numbers that are not finite."""
    try:
        value = json.loads(body.decode("utf-8"))
        if not isinstance(value, dict):
            raise ApiError("the body must be a JSON object")
        for name, field in value.items():
            _check_finite(field, name)
    except RecursionError:
        raise ApiError("the JSON body is nested too deeply") from None
    except ValueError as error:  # malformed JSON, bad UTF-8, a number of ten thousand digits
        raise ApiError(f"the body is not valid JSON: {error}") from None
    return Fields(value)


def _check_finite(value: Any, name: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ApiError(f"{name}: {value} is not a finite number", param=name)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return
    for item in value:
        _check_finite(item, name)


class Fields:
    """The fields of an object, null ones left out."""

    def __init__(self, values: dict[str, Any], where: str = "") -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self._where = where

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def raw(self, name: str) -> Any:
        """The value as it came; None if absent."""
        return self._values.get(name)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self._values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise self.wrong(name, f"must be a number from {low:g} to {high:g}")
        return float(value)

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"must be an integer from {low} to {high}")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def string(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "must be a string")
        return value

    def object(self, name: str) -> Fields:
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(name, "must be an object")
        return Fields(value, self._path(name))

    def wrong(self, name: str, must: str) -> ApiError:
        """The error for a field; quotes what was there, if it is short."""
        shown = json.dumps(self._values.get(name))
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return ApiError(f"{self._path(name)} {must}, not {shown}", param=self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name
