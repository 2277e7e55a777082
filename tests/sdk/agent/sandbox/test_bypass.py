"""Commands that got around rules about command names elsewhere: here the kernel says no."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox_kit import CONFINED, LEVELS, Site
from tree import tree
from ultra_sdk.agent.sandbox.policy import Level

# The forms of the reports: opencode #42979, #32628, #42436; qwen-code #10196, #10206; claude-code #70369,
# #6002, #81667, #92542; mistral-vibe #925; agent-os #197.
WRITES = [
    "echo BYPASS > $OUT/escape.txt",
    "printf x >$OUT/secret",
    "echo x>>$OUT/secret",
    "cat secret > $OUT/out; env > $OUT/env",
    "{ echo x; } > $OUT/x",
    "(echo x) >$OUT/x",
    "echo x >| $OUT/secret",
    "echo x &> $OUT/x; echo x >& $OUT/y; true 2>$OUT/z",
    "exec 3<>$OUT/secret; echo x >&3",
    'cd $OUT && echo x > "$PWD/x"',
    'cd "$OUT"; tee x y < /dev/null; touch z',
    "echo x > $REL/x",
    "true | cat >$OUT/x; true; echo x >$OUT/y",
    "bash -c 'echo x > $OUT/x'; sh -c 'echo x > $OUT/y'; env bash -c 'echo x > $OUT/z'",
    "echo 'echo x > $OUT/x' > s.sh; chmod +x s.sh; ./s.sh; timeout 5 ./s.sh; nice ./s.sh",
    "python3 -c \"import os; open(os.environ['OUT'] + '/x', 'w').write('x')\"",
    "cat > $OUT/x << 'EOF'\nx\nEOF",
    "echo $(echo x > $OUT/x) `echo y > $OUT/y`",
    "cat < <(echo x > $OUT/x)",
    "x=$OUT; echo x > ${x}/x; eval 'echo x > $OUT/y'",
    "ln -s $OUT link; echo x > link/x; cp s link/secret; ln -f $OUT/secret hard && echo x > hard",
    "rm -rf $OUT/secret; rm -rf $OUT; mv $OUT moved; mkdir $OUT/d; rmdir $OUT",
    "mv $OUT/secret .; cp /dev/null $OUT/secret",
    "truncate -s 0 $OUT/secret; dd if=/dev/zero of=$OUT/secret count=1",
    "git init -q $OUT/repo; git -C $OUT init -q; cd / && echo x > ${OUT#/}/x",
    "python3 -c \"import os; os.truncate(os.environ['OUT'] + '/secret', 0)\"",
    "mknod $OUT/n p; ln -s x $OUT/l; install /dev/null $OUT/i",
]
READS = [
    "cat $OUT/secret",
    "{ cat $OUT/secret; }",
    "cat <(ls) $OUT/secret",
    "head -c 100 < $OUT/secret; tail $OUT/sec*; grep -r SECRET $OUT",
    "cp $OUT/secret mine; cat mine",
    "ln -s $OUT/secret link; cat link; cd $OUT; cat secret; cat ./sec'r'et",
    "python3 -c \"import os; print(open(os.environ['OUT'] + '/secret').read())\"",
    'while read -r line; do echo "$line"; done < $OUT/secret; echo "$(<$OUT/secret)"',
    "source $OUT/secret; tar c -C $OUT secret;",
]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path)


def batch(site: Site, commands: list[str], level: Level, *, hide: bool = False) -> list[str]:
    """Run each command in a folder of its own, against things outside of its own; what each of them said."""
    for i, command in enumerate(commands):
        (site.root / f"{i}").mkdir()
        (site.root / f"{i}.sh").write_text(command + "\n")
        (site.outside / f"{i}").mkdir()
        (site.outside / f"{i}/secret").write_text("THE-SECRET\n")
    script = (
        f"for i in $(seq 0 {len(commands) - 1}); do ( cd $i; export OUT=$OUTSIDE/$i REL=../../outside/$i; "
        "bash ../$i.sh >> ../$i.out 2>&1; cd $ROOT/$i; echo ran > inside; echo ran > $TMPDIR/$i ); done"
    )
    env = {"OUTSIDE": str(site.outside), "ROOT": str(site.root)}
    site.run(script, level, env, hidden=(site.outside,) if hide else (), seconds=60)
    for i in range(len(commands)):
        assert (site.root / f"{i}/inside").read_text() == (site.tmp / f"{i}").read_text() == "ran\n"
    return [(site.root / f"{i}.out").read_text(errors="replace") for i in range(len(commands))]


def test_without_a_sandbox_every_command_does_its_harm(site: Site) -> None:
    """So that the tests below would see it."""
    batch(site, WRITES, "advisory")
    for i, command in enumerate(WRITES):
        left = tree(site.outside / f"{i}") if (site.outside / f"{i}").exists() else {}
        assert left != {"secret": ("file", 0o644, b"THE-SECRET\n")}, command


def test_without_a_sandbox_every_command_reads(tmp_path: Path) -> None:
    for command, said in zip(READS, batch(Site.make(tmp_path), READS, "advisory"), strict=True):
        assert "THE-SECRET" in said, command


@pytest.mark.parametrize("level", CONFINED)
def test_nothing_outside_is_written(site: Site, level: Level) -> None:
    said = batch(site, WRITES, level)
    for i, command in enumerate(WRITES):
        assert tree(site.outside / f"{i}") == {"secret": ("file", 0o644, b"THE-SECRET\n")}, (command, said[i])
    assert len(list(site.outside.iterdir())) == len(WRITES) + 1


@pytest.mark.parametrize("level", CONFINED)
def test_what_is_hidden_is_not_read(site: Site, level: Level) -> None:
    for command, said in zip(READS, batch(site, READS, level, hide=True), strict=True):
        assert "THE-SECRET" not in said, command
    outcome = site.run(
        "cat $OUT/secret; cat $OUT/../outside/secret", level, hidden=(site.outside / "secret",)
    )
    assert "THE-SECRET" not in outcome.output
    site.run("cat /etc/passwd > copy", level, hidden=(site.outside,))
    assert (site.root / "copy").read_bytes() == Path("/etc/passwd").read_bytes()


@pytest.mark.parametrize("level", [level for level in CONFINED if level != "landlock"])
def test_files_of_the_project_can_be_protected(site: Site, level: Level) -> None:
    (site.root / "protected.txt").write_text("mine\n")
    (site.root / ".env").write_text("THE-SECRET\n")
    (site.root / ".git/hooks").mkdir(parents=True)
    bounds = {
        "read_only": (site.root / "protected.txt", site.root / ".git"),
        "hidden": (site.root / ".env",),
    }
    for command in (
        'printf PAYLOAD >"$PWD/protected.txt"; printf x > ${PWD}/protected.txt; >"$PWD/protected.txt"',
        "echo >> protected.txt; { echo x >> protected.txt; }; rm -f protected.txt; mv x protected.txt",
        "echo x > .git/hooks/pre-commit; mv .git g; rm -rf .git",
    ):
        site.run(command, level, **bounds)
    outcome = site.run("cat .env; cp .env x; cat x; { cat .env; }", level, **bounds)
    assert (site.root / "protected.txt").read_text() == "mine\n" and "THE-SECRET" not in outcome.output
    assert os.listdir(site.root / ".git/hooks") == []


@pytest.mark.parametrize("level", CONFINED)
def test_a_project_can_be_only_read(site: Site, level: Level) -> None:
    (site.root / "a").write_text("a\n")
    outcome = site.run(
        "cat a; echo x > a; echo x > b; rm a; echo x > $TMPDIR/t && echo ok", level, write=False
    )
    assert outcome.output.startswith("a\n") and outcome.output.endswith("ok\n")
    assert tree(site.root) == {"a": ("file", 0o644, b"a\n")}


CONNECT = """
import socket, sys
kind, where = sys.argv[1:]
try:
    s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    s.connect(where if kind == "unix" else ("127.0.0.1", int(where)))
    print("CONNECTED")
except OSError as error:
    print("refused", error)
"""


@pytest.mark.parametrize("level", CONFINED)
def test_there_is_no_network_unless_it_is_allowed(site: Site, level: Level) -> None:
    (site.root / "c.py").write_text(CONNECT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"{sys.executable} c.py inet {server.getsockname()[1]}"
        assert site.run(command, level).output.startswith("refused")
        assert site.run(command, level, network=True).output == "CONNECTED\n"


@pytest.mark.parametrize("level", CONFINED)
@pytest.mark.parametrize("network", [False, True])
def test_services_behind_sockets_are_out_of_reach(site: Site, level: Level, network: bool) -> None:
    (site.root / "c.py").write_text(CONNECT)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(site.outside / "s"))
        server.listen()
        server.settimeout(0.0)
        outcome = site.run(f"{sys.executable} c.py unix $OUT/s", level, network=network)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert outcome.output.startswith("refused")


@pytest.mark.parametrize("level", CONFINED)
def test_other_processes_are_not_signalled_nor_read(site: Site, level: Level) -> None:
    env = {**os.environ, "MARK": "THE-SECRET"}
    with subprocess.Popen(["sleep", "60"], env=env) as other:
        try:
            command = f"kill -9 {other.pid}; cat /proc/{other.pid}/environ; kill -9 $PPID; kill -9 -1; true"
            outcome = site.run(f"({command}); echo", level)
            assert other.poll() is None and "THE-SECRET" not in outcome.output
        finally:
            other.kill()


@pytest.mark.parametrize("level", CONFINED)
def test_the_machines_settings_and_devices_are_not_written(site: Site, level: Level) -> None:
    # The value that is there is written, so that nothing is lost where it works.
    files = "vm/swappiness kernel/core_pattern"
    command = f"for f in {files}; do cat /proc/sys/$f > v; cat v > /proc/sys/$f && echo WROTE; done"
    # A private /dev has no such device; what is written there is a file that nobody else sees.
    more = "; test -w /proc/sysrq-trigger && echo > /proc/sysrq-trigger && echo WROTE"
    more += "; test -c /dev/kmsg && echo x > /dev/kmsg && echo WROTE"
    assert "WROTE" not in site.run(command + more, level).output


@pytest.mark.parametrize("level", CONFINED)
def test_rights_are_not_won_back_in_a_namespace(site: Site, level: Level) -> None:
    command = "unshare -Urm bash -c 'mount -t tmpfs none /mnt && echo WON; echo x > $OUT/x && echo WON'"
    assert "WON" not in site.run(command, level).output
    assert not (site.outside / "x").exists()


@pytest.mark.parametrize("level", LEVELS)
def test_the_rest_of_the_machine_works(site: Site, level: Level) -> None:
    command = "set -e; python3 -c 'import subprocess; print(subprocess.check_output([\"uname\"]).decode())'"
    more = "; git init -q x; mv x y; mkdir a b; touch a/f; mv a/f b/f; chmod +x b/f; ls b; echo é > /dev/null"
    outcome = site.run(command + more, level)
    assert outcome.exit_code == 0 and "f" in outcome.output, outcome.output


def test_pipes_between_threads_of_one_command_work(site: Site) -> None:
    code = (
        "import socket, asyncio; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1)); "
        "asyncio.run(asyncio.sleep(0))"
    )
    for level in LEVELS:
        assert site.run(f'{sys.executable} -c "{code}"', level).output == "b'x'\n"
