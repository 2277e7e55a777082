"""Each rule is named after the incident that taught it."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.server.gate import Gate, Head, is_loopback

TOKEN = "s3cret-token"
TCP = Gate(TOKEN, 8123, frozenset({"/v1"}))
UNIX = Gate(TOKEN, None, frozenset({"/v1"}))
BEARER = (f"Bearer {TOKEN}",)


def head(path: str = "/v1", host: str = "127.0.0.1:8123", **more: tuple[str, ...]) -> Head:
    return Head(path, (host,), **{"authorization": BEARER, **more})


def status(gate: Gate, asked: Head, connections: int = 0) -> int | None:
    answer = gate.check(asked, connections)
    return None if answer is None else int(answer.status)


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "LOCALHOST:8123", "[::1]:8123"])
def test_our_own_names_get_in(host: str) -> None:
    assert status(TCP, head(host=host)) is None


def test_a_unix_socket_has_one_name() -> None:
    assert status(UNIX, head(host="localhost")) is None
    assert status(UNIX, head(host="127.0.0.1:8123")) == 421


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://localhost:8123", "http://127.0.0.1:8123", "null", "", "file://"],
)
def test_cve_2025_52882_and_cve_2026_27977_no_origin_gets_in_not_even_null(origin: str) -> None:
    assert status(TCP, head(origin=(origin,))) == 403
    assert status(UNIX, head(host="localhost", origin=(origin,))) == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8123",
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1.evil.example:8123",
        "localhost.evil.example:8123",
        "10.0.0.7:8123",
        "printer.local:8123",
        "",
        "[::1",
        "127.0.0.1:8123:8123",
    ],
)
def test_cve_2024_28224_dns_rebinding_brings_a_foreign_host(host: str) -> None:
    assert status(TCP, head(host=host)) == 421


def test_freenet_3576_origin_equal_to_host_is_not_enough() -> None:
    assert status(TCP, head(host="evil.example:8123", origin=("http://evil.example:8123",))) == 421


def test_cve_2026_44211_loopback_is_no_authentication() -> None:
    assert status(TCP, head(authorization=())) == 401
    assert status(UNIX, head(host="localhost", authorization=())) == 401


WRONG = [
    "",
    "Bearer",
    "Bearer ",
    f"Basic {TOKEN}",
    TOKEN,
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN[:-1]}",
    "Bearer é",
]


@pytest.mark.parametrize("authorization", [*WRONG, "Bearer \ud800"])
def test_cve_2025_59425_every_wrong_token_gets_the_same_answer(authorization: str) -> None:
    assert TCP.check(head(authorization=(authorization,)), 0) == TCP.check(head(authorization=()), 0)


def test_codex_autorunner_75_a_token_in_the_url_is_no_token() -> None:
    assert status(TCP, head(path=f"/v1?token={TOKEN}", authorization=())) == 401


def test_cve_2026_14631_doubled_headers_are_malformed() -> None:
    assert status(TCP, Head("/v1", (), (), BEARER)) == 400
    assert status(TCP, Head("/v1", ("127.0.0.1:8123", "evil.example"), (), BEARER)) == 400
    assert status(TCP, head(origin=("null", "null"))) == 400
    assert status(TCP, head(authorization=BEARER * 2)) == 400


def test_health_says_ok_and_no_more_but_not_to_browsers() -> None:
    answer = TCP.check(head(path="/health", authorization=()), 1000)
    assert answer is not None and (answer.status, answer.text) == (HTTPStatus.OK, "ok")
    assert status(TCP, head(path="/health", origin=("null",))) == 403
    assert status(TCP, head(path="/health", host="evil.example:8123")) == 421


def test_the_order_is_host_origin_path_connections_token() -> None:
    bad = {"host": "x", "origin": ("null",), "path": "/x", "authorization": ()}
    good = {"host": "127.0.0.1:8123", "origin": (), "path": "/v1", "authorization": BEARER}
    seen = []
    for name in ("host", "origin", "path"):
        seen.append(status(TCP, head(**bad), connections=99))
        bad[name] = good[name]
    seen.append(status(TCP, head(**bad), connections=32))
    seen.append(status(TCP, head(**bad), connections=31))
    seen.append(status(TCP, head(**good), connections=31))
    assert seen == [421, 403, 404, 503, 401, None]


@given(st.builds(Head, st.text(), *[st.lists(st.text(), max_size=2)] * 3), st.sampled_from([TCP, UNIX]))
def test_the_gate_never_raises_and_never_opens_by_accident(asked: Head, gate: Gate) -> None:
    answer = gate.check(asked, 0)
    assert answer is not None and (answer.status != HTTPStatus.OK or answer.text == "ok")


def test_the_token_is_not_in_the_gates_repr() -> None:
    assert TOKEN not in repr(TCP)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_175000_exposed_ollamas_only_loopback_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
