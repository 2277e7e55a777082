"""The registry's entries are complete, and names are found as people type them."""

from __future__ import annotations

import re

import pytest
from ultra_engine.weights import registry
from ultra_engine.weights.registry import HubSource, MirrorSource


@pytest.mark.parametrize("name", registry.MODELS)
def test_every_entry(name: str) -> None:
    model = registry.MODELS[name]
    assert model.name == name == name.lower() and registry.find(f" {name.upper()} ") is model
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256) and model.bytes > model.parameters // 4
    assert model.file.endswith(".gguf") and model.licence and model.title
    assert [type(source) for source in model.sources] == [HubSource, MirrorSource]
    for source in model.sources:
        if isinstance(source, MirrorSource):
            assert len(set(source.packages)) == len(source.packages) >= 1


def test_the_named_ones_exist() -> None:
    assert {registry.DEFAULT_MODEL, registry.TEST_MODEL} <= set(registry.MODELS)
    assert registry.find("nothing") is None
