from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from serving import ENVIRONMENT, server_process
from ultra_engine.errors import ServerError
from ultra_engine.server.claim import Claim
from ultra_sdk.protocol.runtime import read_info, running


def test_a_second_server_of_a_model_is_refused_with_the_first_ones_pid() -> None:
    with server_process() as process:
        with pytest.raises(ServerError, match=rf"scripted is already running \(pid {process.pid}\)"):
            Claim("scripted").__enter__()
        with Claim("another-model"):
            pass
        assert [info.pid for info in running()] == [process.pid], "the refusal broke nothing"


def test_a_server_that_is_still_loading_is_not_overtaken() -> None:
    with Claim("m"), pytest.raises(ServerError, match="still starting"):
        Claim("m").__enter__()
    with Claim("m"):
        pass


CONTENDER = """
import sys
from ultra_engine.errors import ServerError
from ultra_engine.server.claim import Claim
try:
    with Claim("m"):
        print("won", flush=True)
        sys.stdin.read()
except ServerError as error:
    print("already running" in str(error), flush=True)
"""


def test_of_simultaneous_starts_one_wins() -> None:
    environment = {**ENVIRONMENT, "ULTRA_RUNTIME_DIR": os.environ["ULTRA_RUNTIME_DIR"]}
    contenders = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(3)
    ]
    outcomes = [contender.stdout.readline().strip() for contender in contenders if contender.stdout]
    for contender in contenders:
        contender.communicate(timeout=60)
    assert sorted(outcomes) == ["True", "True", "won"]


def test_a_stale_socket_and_runtime_file_are_replaced(runtime_folder: Path) -> None:
    with Claim("m") as claim:
        claim.publish("m")
        kept = read_info(runtime_folder / "m.json")
    (runtime_folder / "m.sock").write_text("left over")
    (runtime_folder / "m.json").write_text("{}")
    with Claim("m") as claim:
        assert not (runtime_folder / "m.json").exists()
        claim.publish("m")
        info = read_info(runtime_folder / "m.json")
        assert info is not None and kept is not None and info.token != kept.token
    assert {path.suffix for path in runtime_folder.iterdir()} <= {".lock"}


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_folder_that_others_may_enter_is_repaired(runtime_folder: Path, mode: int) -> None:
    runtime_folder.mkdir()
    runtime_folder.chmod(mode)
    with Claim("m"):
        assert stat.S_IMODE(runtime_folder.stat().st_mode) == 0o700


def test_a_folder_that_is_a_link_is_refused(runtime_folder: Path, tmp_path: Path) -> None:
    runtime_folder.symlink_to(tmp_path)
    with pytest.raises(ServerError, match="is not a folder"):
        Claim("m").__enter__()


def test_files_are_private_whatever_the_umask(runtime_folder: Path) -> None:
    old = os.umask(0)
    try:
        with Claim("m") as claim:
            claim.publish("m")
            modes = {path.suffix: stat.S_IMODE(path.lstat().st_mode) for path in runtime_folder.iterdir()}
    finally:
        os.umask(old)
    assert modes[".json"] == modes[".sock"] == 0o600


def test_a_port_that_is_taken_is_named(runtime_folder: Path) -> None:
    with Claim("m", port=0) as first:
        first.socket.listen()
        with pytest.raises(ServerError, match=rf"cannot listen on port {first.port}: .*in use"):
            Claim("other", port=first.port).__enter__()
        Claim("other").__enter__().__exit__(None, None, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1"])
def test_a_bind_beyond_loopback_is_refused(host: str) -> None:
    with pytest.raises(ServerError, match="not a loopback address"):
        Claim("m", port=0, host=host).__enter__()


def test_the_token_is_in_no_repr() -> None:
    claim = Claim("m")
    assert claim.token not in repr(claim)
