"""What the transcript costs: fragments streamed at a fixed rate, resizing, focus, and standing still.

    python benchmarks/transcript.py [--fragments 20000] [--rate 1000]

CPU seconds are of this process; lag is how much longer than 10 ms a 10 ms sleep in the same event loop takes,
which is what a key press would feel. Textual's Markdown widget needs minutes for the same text.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Iterator

from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from ultra_tui.clock import Clock
from ultra_tui.pauses import avoid_pauses
from ultra_tui.transcript.blocks import UserBlock
from ultra_tui.transcript.view import Transcript

WORDS = "the cache holds keys that every request may read before it is written to a page of memory".split()
SIZE = (120, 40)


def prose(chance: random.Random) -> Iterator[str]:
    """Paragraphs, lists, headings and an occasional short code block."""
    while True:
        kind = chance.random()
        words = " ".join(chance.choice(WORDS) for _ in range(chance.randint(20, 60)))
        if kind < 0.1:
            yield f"## {' '.join(words.split()[:4])}\n\n"
        elif kind < 0.3:
            yield "".join(f"- **{chance.choice(WORDS)}** {words[:70]}\n" for _ in range(4)) + "\n"
        elif kind < 0.4:
            yield "```python\n" + "".join(code_line(chance) for _ in range(6)) + "```\n\n"
        else:
            yield f"{words} `{chance.choice(WORDS)}` {words}.\n\n"


def code(chance: random.Random) -> Iterator[str]:
    """One code block without an end."""
    yield "```python\n"
    while True:
        yield code_line(chance)


def one_list(chance: random.Random) -> Iterator[str]:
    """One list without an end."""
    while True:
        yield f"- {' '.join(chance.choice(WORDS) for _ in range(12))}\n"


def code_line(chance: random.Random) -> str:
    name, note = chance.choice(WORDS), chance.choice(WORDS)
    return f"    {name}_{chance.randint(0, 99)} = lookup({name!r}, {chance.random():.4f})  # {note}\n"


TEXTS: dict[str, Callable[[random.Random], Iterator[str]]] = {"prose": prose, "code": code, "list": one_list}


def fragments(kind: str, count: int) -> list[str]:
    """``count`` pieces of four characters."""
    text = ""
    for piece in TEXTS[kind](random.Random(1)):
        text += piece
        if len(text) >= 4 * count:
            break
    return [text[at : at + 4] for at in range(0, 4 * count, 4)]


class Bench(App[None]):
    """The transcript alone, with its clock."""

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()
        self.clock: Clock | None = None

    def compose(self) -> ComposeResult:
        yield self.transcript

    def on_mount(self) -> None:
        self.clock = Clock(self.screen)
        self.transcript.attach(self.clock)


async def measure_lag(into: list[float]) -> None:
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(0.01)
        into.append(time.perf_counter() - begun - 0.01)


async def feed(app: Bench, pieces: list[str], rate: float) -> None:
    begun, at = time.perf_counter(), 0
    while at < len(pieces):
        await asyncio.sleep(0.001)
        due = min(len(pieces), int((time.perf_counter() - begun) * rate))
        for piece in pieces[at:due]:
            app.transcript.fragment(piece)
        at = due


async def stream(app: Bench, kind: str, count: int, rate: float) -> None:
    app.transcript.add(UserBlock("go"))
    app.transcript.begin_answer()
    lag: list[float] = []
    watcher = asyncio.create_task(measure_lag(lag))
    cpu, wall = time.process_time(), time.perf_counter()
    await feed(app, fragments(kind, count), rate)
    app.transcript.end_answer()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    watcher.cancel()
    lag.sort()
    assert app.clock is not None
    print(
        f"{kind:6} {count:,} fragments: {count / wall:6,.0f}/s  "
        f"{cpu:5.2f} CPU-s ({100 * cpu / wall:3.0f} %)  "
        f"lag p50 {1e3 * lag[len(lag) // 2]:.1f}  p99 {1e3 * lag[int(len(lag) * 0.99)]:.1f}  "
        f"max {1e3 * lag[-1]:.1f} ms  {app.transcript.record.rows:,} rows  {app.clock.ticks} frames"
    )


async def settled(app: Bench) -> None:
    assert app.clock is not None
    await asyncio.sleep(0.1)
    while app.clock.running:
        await asyncio.sleep(0.02)


async def interact(app: Bench, pilot: Pilot[None]) -> None:
    """Resizing, focus and standing still, with everything streamed so far on the record."""
    transcript = app.transcript
    blocks = len(transcript.record)
    cpu, begun = time.process_time(), time.perf_counter()
    await pilot.resize_terminal(80, 40)
    first = time.perf_counter() - begun
    await settled(app)
    cpu = time.process_time() - cpu
    print(f"resize of {blocks:,} blocks: first view after {1e3 * first:.0f} ms, all of it {cpu:.2f} CPU-s")
    cpu = time.process_time()
    for _ in range(10):
        app.post_message(events.AppBlur())
        app.post_message(events.AppFocus())
    await asyncio.sleep(0.5)
    print(f"blur and focus: {1e3 * (time.process_time() - cpu) / 20:.1f} CPU-ms each")
    await asyncio.sleep(0.5)
    cpu = time.process_time()
    await asyncio.sleep(3)
    print(f"idle: {100 * (time.process_time() - cpu) / 3:.2f} % of a core")


async def run(options: argparse.Namespace) -> None:
    avoid_pauses()  # as the command does
    for kind in TEXTS:
        app = Bench()
        async with app.run_test(size=SIZE) as pilot:
            await stream(app, kind, options.fragments, options.rate)
            await settled(app)
            if kind == "prose":
                await interact(app, pilot)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fragments", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=1000, help="fragments a second")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
