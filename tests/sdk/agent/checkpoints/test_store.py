from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ultra_sdk.agent.checkpoints.store import Store
from ultra_sdk.agent.errors import CheckpointError


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.binary(max_size=300))
def test_contents_come_back(tmp_path: Path, data: bytes) -> None:
    store = Store(tmp_path)
    digest = store.put(data)
    assert store.put(data) == digest and store.get(digest) == data


def test_what_compresses_is_smaller(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(b"a" * 100_000)
    assert store.size() < 1000 and store.written == store.size()
    store.put(noise := os.urandom(1000))
    assert store.get(store.put(noise)) == noise


def test_a_damaged_content_is_an_error_and_never_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = store.put(b"content")
    (path,) = tmp_path.glob("??/*")
    path.write_bytes(b"rother")
    with pytest.raises(CheckpointError, match="lost"):
        store.get(digest)
    path.unlink()
    with pytest.raises(CheckpointError, match="lost"):
        store.get(digest)


def test_a_sweep_takes_what_is_old_and_not_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept, old, young = store.put(b"kept"), store.put(b"old"), store.put(b"young")
    for digest in (kept, old):
        os.utime(tmp_path / digest[:2] / digest[2:], (0, 0))
    store.sweep({kept})
    assert store.get(kept) and store.get(young)
    assert not store.has(old)
