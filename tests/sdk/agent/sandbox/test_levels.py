from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from sandbox_kit import LEVELS, Site
from ultra_sdk.agent.errors import SandboxError
from ultra_sdk.agent.sandbox import bubblewrap, landlock, levels, seatbelt, seccomp
from ultra_sdk.agent.sandbox.environment import environment
from ultra_sdk.agent.sandbox.output import Output
from ultra_sdk.agent.sandbox.policy import Policy, applicable, private


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path)


def test_what_the_kernel_offers_is_used() -> None:
    """Tests of confined commands run for the levels in this list: it must not be shorter than it could."""
    linux = sys.platform.startswith("linux")
    assert LEVELS[-1] == "advisory"
    assert ("landlock" in LEVELS) == (linux and landlock.abi() >= 3 and seccomp.supported())
    assert ("bubblewrap" in LEVELS) == (linux and bubblewrap.find() is not None)
    assert levels.strongest() == LEVELS[0]
    assert set(levels.WORDS) == {"bubblewrap", "landlock", "seatbelt", "advisory"}


def test_without_any_sandbox_it_is_advisory(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(site.tmp))
    monkeypatch.setattr(landlock, "abi", lambda: 2)
    assert levels.available() == ["advisory"]
    with pytest.raises(SandboxError, match="there is: advisory"):
        levels.demand("landlock", site.policy())
    assert levels.WORDS["advisory"].startswith("advisory")


def test_a_bubblewrap_that_does_not_work_is_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = site.tmp / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(site.tmp))
    assert bubblewrap.find() is None


@pytest.mark.skipif("landlock" not in LEVELS, reason="this kernel has no Landlock")
def test_landlock_says_what_it_cannot_do(site: Site) -> None:
    (site.root / ".env").write_text("x")
    levels.demand("landlock", site.policy(hidden=(site.outside, site.root / "none")))
    for changes in ({"hidden": (site.root / ".env",)}, {"read_only": (site.root / ".env",)}):
        with pytest.raises(SandboxError, match="install bubblewrap"):
            levels.demand("landlock", site.policy(**changes))


def test_paths_that_hold_the_project_are_not_hidden(site: Site) -> None:
    policy = site.policy()
    (site.root.parent / "link").symlink_to(site.outside)
    paths = (
        site.root,
        site.root.parent,
        Path("/"),
        site.tmp,
        site.root.parent / "link",
        site.outside / "none",
    )
    assert applicable(paths, policy) == [site.outside.resolve()]
    assert Path("/home/x/.ssh") in private(Path("/home/x"))


def test_bubblewraps_arguments(site: Site) -> None:
    (site.root / ".git").mkdir()
    policy = site.policy(hidden=(site.outside, site.outside / "secret"), read_only=(site.root / ".git",))
    args = " ".join(bubblewrap.prefix("bwrap", policy))
    assert "--unshare-all" in args and "--share-net" not in args and "--die-with-parent" in args
    git = f"--ro-bind {site.root}/.git"
    assert args.index("--ro-bind / /") < args.index(f"--bind {site.root} {site.root}") < args.index(git)
    elsewhere = Policy(
        Path("/srv/p"), Path("/srv/t"), hidden=(Path("/etc/ssl"), Path("/etc/passwd")), network=True
    )
    args = " ".join(bubblewrap.prefix("bwrap", elsewhere))
    assert "--tmpfs /etc/ssl" in args and "--ro-bind /dev/null /etc/passwd" in args and "--share-net" in args


def test_seatbelts_profile(site: Site) -> None:
    (site.root / 'odd"name\\').mkdir()
    policy = site.policy(hidden=(site.outside,), read_only=(site.root / 'odd"name\\',))
    lines = seatbelt.profile(policy).split("\n")
    assert lines[:3] == ["(version 1)", "(allow default)", "(deny file-write*)"]
    assert f'(allow file-write* (subpath "{site.root}"))' in lines
    assert f'(deny file-write* (subpath "{site.root}/odd\\"name\\\\"))' in lines
    assert f'(deny file-read* (subpath "{site.outside}"))' in lines and "(deny network*)" in lines
    assert lines.index("(deny file-write*)") < lines.index(f'(allow file-write* (subpath "{site.root}"))')
    open_profile = seatbelt.profile(site.policy(write=False, network=True))
    assert "network" not in open_profile and f'(subpath "{site.root}")' not in open_profile
    assert seatbelt.prefix(policy)[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert seatbelt.works() is (sys.platform == "darwin")


def test_the_environment_has_no_secrets(tmp_path: Path) -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/home/x",
        "LANG": "C.UTF-8",
        "PAGER": "less",
        **dict.fromkeys(
            "GITHUB_TOKEN AWS_SECRET_ACCESS_KEY OPENAI_API_KEY DB_PASSWORD MY_KEY BASH_ENV".split(), "x"
        ),
        **dict.fromkeys("SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS DISPLAY GIT_DIR GIT_INDEX_FILE".split(), "x"),
    }
    made = environment(given, tmp_path)
    assert "x" not in made.values() and made["PATH"] == "/bin" and made["HOME"] == "/home/x"
    assert made["PAGER"] == "cat" and made["TMPDIR"] == str(tmp_path) and made["GIT_OPTIONAL_LOCKS"] == "0"


def test_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    sink = Output(tmp_path / "o", head=10, tail=20)
    for i in range(1000):
        sink.write(f"{i:04}\n".encode())
    sink.close()
    assert sink.text() == "0000\n0001\n\n[... 4,970 bytes ...]\n0996\n0997\n0998\n0999\n"
    assert (tmp_path / "o").stat().st_size == sink.total == 5000
    small = Output(head=10, tail=20)
    small.write("é漢".encode())
    small.write(b"x" * 25)
    assert small.text() == "é漢" + "x" * 25
    lost = Output(tmp_path / "none/o")
    lost.write(b"\xff")
    lost.close()
    assert lost.text() == "\ufffd"


def test_the_filter_is_right_for_every_machine() -> None:
    """The steps of the filter, run as the kernel would."""
    for arch, socket, refused in seccomp.MACHINES.values():
        for families in ((), (2, 10, 16)):
            steps = seccomp._program(arch, socket, refused, families)
            allowed = lambda *call, steps=steps: _run(steps, *call) == seccomp.ALLOW  # noqa: E731
            assert all(not allowed(arch, number, 0) for number in refused)
            assert allowed(arch, 1, 0) and allowed(arch, 999, 0)
            assert not allowed(arch + 1, 1, 0) and not allowed(arch, seccomp.X32 + 1, 0)
            for family in (1, 2, 10, 16, 17, 40):
                assert allowed(arch, socket, family) is (family in families)


def _run(program: bytes, arch: int, number: int, argument: int) -> int:
    memory = {seccomp.ARCH_AT: arch, seccomp.NUMBER_AT: number, seccomp.ARGUMENT_AT: argument}
    steps = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, k = steps[at]
        at += 1
        if code == seccomp.LOAD:
            accumulator = memory[k]
        elif code == seccomp.RETURN:
            return k
        else:
            holds = accumulator == k if code == seccomp.JUMP_EQUAL else accumulator >= k
            at += if_true if holds else if_false
