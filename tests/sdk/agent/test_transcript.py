from __future__ import annotations

import itertools
import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest
from forking import forked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ultra_sdk.agent.redact import Redactor
from ultra_sdk.agent.transcript import Transcript, TranscriptError, paired, read_records

RECORDS = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(-9, 9), max_size=3), max_size=6
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(RECORDS.map(lambda records: [{"n": i, **record} for i, record in enumerate(records)]), st.data())
def test_a_torn_line_is_cut_off_and_all_others_stay(
    tmp_path: Path, records: list[dict], data: st.DataObject
) -> None:
    path = tmp_path / "t.jsonl"
    path.unlink(missing_ok=True)
    with Transcript(path) as transcript:
        for record in records:
            transcript.append(record)
    whole = path.read_bytes()
    ends = [0] + [i + 1 for i, byte in enumerate(whole) if byte == 10]
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = max(end for end in ends if end <= cut)
    with Transcript(path) as transcript:
        assert transcript.torn == cut - kept
        assert list(transcript.records()) == records[: ends.index(kept)]
        transcript.append({"after": 1})
        assert list(transcript.records()) == [*records[: ends.index(kept)], {"after": 1}]


def test_a_long_torn_line_is_cut_off_too(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b'{"a":1}\n' + b"x" * 200_000)
    with Transcript(path) as transcript:
        assert transcript.torn == 200_000 and list(transcript.records()) == [{"a": 1}]
    path.write_bytes(b"x" * 200_000)
    with Transcript(path) as transcript:
        assert list(transcript.records()) == [] and path.stat().st_size == 0


def _write_for_ever(path: Path) -> None:
    with Transcript(path) as transcript:
        for i in itertools.count(len(list(transcript.records()))):
            transcript.append({"n": i, "text": "x" * 20_000})


def _fill(path: Path) -> None:
    """A file that may not grow beyond 1,000 bytes stands for a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    transcript = Transcript(path)
    transcript.append({"a": 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    with pytest.raises(TranscriptError, match="cannot be written"):
        transcript.append({"a": "x" * 5000})
    transcript.append({"b": 2})


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_it_can_be_read(tmp_path: Path, seed: int) -> None:
    path, draw = tmp_path / "t", random.Random(seed)
    for _ in range(3):
        child = forked(lambda: _write_for_ever(path))
        time.sleep(draw.uniform(0.005, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with Transcript(path) as transcript:
            assert [record["n"] for record in transcript.records()] == list(
                range(len(list(transcript.records())))
            )


def test_it_is_private_and_has_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "new/t.jsonl"
    path.parent.mkdir()
    path.touch(mode=0o644)
    with Transcript(path, Redactor({"DB_PASSWORD": "hunter22"})) as transcript:
        transcript.append(
            {"text": "pw hunter22", "nested": [{"hunter22": ("AKIA" + "A" * 16, 1, None, True)}]}
        )
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"hunter22" not in path.read_bytes() and b"AKIAA" not in path.read_bytes()
    (record,) = read_records(path)
    assert record["text"] == "pw [redacted DB_PASSWORD]"
    assert record["nested"] == [{"[redacted DB_PASSWORD]": ["[redacted AWS key]", 1, None, True]}]


def test_names_that_are_not_unicode_are_shown(tmp_path: Path) -> None:
    with Transcript(tmp_path / "t") as transcript:
        transcript.append({"path": os.fsdecode(b"caf\xe9")})
        assert list(transcript.records()) == [{"path": "caf\\udce9"}]


def test_one_process_writes_it(tmp_path: Path) -> None:
    with Transcript(tmp_path / "t"), pytest.raises(TranscriptError, match="another process"):
        Transcript(tmp_path / "t")
    with pytest.raises(TranscriptError, match="cannot be opened"):
        Transcript(tmp_path)


def test_a_full_disk_is_an_error_and_leaves_no_half_record(tmp_path: Path) -> None:
    child = forked(lambda: _fill(tmp_path / "t"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(read_records(tmp_path / "t")) == [{"a": 1}, {"b": 2}]


def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b'{"a":1}\nrubbish\n[1]\n{"b":2}\n{"c":3}')
    assert list(read_records(tmp_path / "t")) == [{"a": 1}, {"b": 2}]
    assert list(read_records(tmp_path / "none")) == []


KINDS = st.lists(st.tuples(st.sampled_from(["call", "result", "text"]), st.integers(0, 2)), max_size=10)


@given(KINDS.map(lambda kinds: [{"type": kind, "id": name} for kind, name in kinds]))
def test_every_call_has_one_result(records: list[dict]) -> None:
    waiting: list[int] = []
    for record in paired(records):
        if record["type"] == "call":
            waiting.append(record["id"])
        elif record["type"] == "result":
            waiting.remove(record["id"])
    assert [r for r in paired(records) if r["type"] == "text"] == [r for r in records if r["type"] == "text"]
    assert not waiting
    assert paired(paired(records)) == paired(records)


def test_a_killed_call_gets_a_result() -> None:
    call = {"type": "call", "id": 1}
    assert paired([call]) == [
        call,
        {"type": "result", "id": 1, "ok": False, "text": "interrupted: it did not finish"},
    ]
