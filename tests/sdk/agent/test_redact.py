from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.redact import Redactor, env_files, parse_env

TOKENS = [
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2_" * 8,
    "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "AIza" + "a1B2c" * 7,
    "hf_" + "aBcD" * 8,
    "npm_" + "a1B2" * 9,
    "pypi-" + "AgEIcHlwaS5vcmc" * 3,
    "xoxb-" + "1234567890-abcdef",
    "sk_live_" + "a1B2c3D4e5F6g7H8",
    "sk-" + "proj-a1B2c3D4e5F6g7H8i9J0",
    "SG." + "a1B2c3D4e5F6g7H8" + "." + "a1B2c3D4e5F6g7H8",
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkw" + ".c2lnbmF0dXJl",
]


@pytest.mark.parametrize("token", TOKENS)
def test_keys_are_known_by_their_shape(token: str) -> None:
    for text in (token, f"key={token}\n", f'{{"key": "{token}"}}', f"({token})"):
        redacted = Redactor({}).redact(text)
        assert token not in redacted and "[redacted " in redacted


def test_private_keys_are_taken_whole_even_when_cut() -> None:
    block = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----"
    assert Redactor({}).redact(f"a\n{block}\nb") == "a\n[redacted private key]\nb"
    assert Redactor({}).redact(block[:50]) == "[redacted private key]"


def test_passwords_in_addresses_and_headers() -> None:
    redactor = Redactor({})
    assert redactor.redact("postgres://me:pa55@db/x") == "postgres://me:[redacted password]@db/x"
    assert redactor.redact("Authorization: Bearer abcdefgh12") == "Authorization: Bearer [redacted token]"


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn is a package",
        "the AKIA prefix",
        "http://localhost:8000/a@b",
        "def token(): return 1",
        "npm_config_cache",
    ],
)
def test_ordinary_text_is_left(text: str) -> None:
    assert Redactor({}).redact(text) == text


@given(st.text('abcXYZ019!$%/+= "\\é', min_size=8, max_size=30), st.text(max_size=10))
def test_values_are_found_in_every_form(value: str, around: str) -> None:
    value = f"x1X{value}"
    redactor = Redactor({"MY_SECRET": value})
    assert value not in redactor.redact(around + value + around)
    assert json.dumps(value)[1:-1] not in redactor.redact(json.dumps({"a": value}))


def test_env_files_and_variables_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "sub/node_modules").mkdir(parents=True)
    (tmp_path / ".env").write_text(
        "# comment\nexport DB_PASSWORD='p w d'\nPORT=3000\nDEBUG=true\nNODE_ENV=production\n"
        'API_URL=https://example.org/x\nKEY="quoted value 1" # why\n'
        "CONN=Server=x;Pw=Hunter2x # c\nPIN_SECRET=12\n"
    )
    (tmp_path / "sub/.env.local").write_text("OTHER=Abc12345\n")
    (tmp_path / ".env.example").write_text("OTHER_KEY=your-key-here-1\n")
    (tmp_path / "sub/node_modules/.env").write_text("X_TOKEN=aaaaaaaaaaaa1\n")
    assert [path.name for path in env_files(tmp_path)] == [".env", ".env.local"]
    redactor = Redactor.of(tmp_path, {"GH_TOKEN": "from-the-env-1", "PATH": "/usr/bin:/bin1"})
    text = (
        "p w d|quoted value 1|Server=x;Pw=Hunter2x|Abc12345|from-the-env-1|"
        "3000 true production https://example.org/x 12 /usr/bin:/bin1 your-key-here-1 aaaaaaaaaaaa1"
    )
    redacted = redactor.redact(text)
    assert redacted.split("|")[:5] == [
        "[redacted DB_PASSWORD]",
        "[redacted KEY]",
        "[redacted CONN]",
        "[redacted OTHER]",
        "[redacted GH_TOKEN]",
    ]
    assert redacted.split("|")[5] == text.split("|")[5]


def test_env_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "big.env").write_bytes(b"A_KEY=aaaaaaaaaa\n" * 100_000)
    assert list(parse_env(tmp_path / "big.env")) == [] and list(parse_env(tmp_path / "none")) == []
    (tmp_path / "odd.env").write_bytes(b"\xff\xfe=\nno assignment\n=x\nA=\n")
    assert list(parse_env(tmp_path / "odd.env")) == [("A", "")]
