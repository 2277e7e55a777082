"""Take the picture of the real app: give it one task in a small project, save the screen as SVG.

python scripts/screenshot.py                      # an engine that runs or is started, the default model
python scripts/screenshot.py --fake answer.md     # a scripted engine that says what is in the file
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ultra_sdk import connect
from ultra_sdk.testing import Answer, FakeEngine
from ultra_tui.agent.dial import AgentDial
from ultra_tui.app import ChatApp
from ultra_tui.link import EngineLink

MOST_ROWS = 60
QUESTION = "Make the tests pass: @stats.py @test_stats.py"
PROJECT = {
    "stats.py": "def mean(values):\n    return sum(values) / (len(values) - 1)\n",
    "test_stats.py": "from stats import mean\n\n\ndef test_mean():\n    assert mean([1, 2, 3]) == 2\n",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--model")
    parser.add_argument("--size", default="100", help="columns x rows; without rows, as many as it takes")
    parser.add_argument("--theme", default="ultra-dark")
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=600, help="how long the answer may take")
    parser.add_argument("--fake", type=Path, metavar="FILE", help="Markdown that a scripted engine says")
    parser.add_argument("--out", type=Path, default=Path("docs/ultra-chat.svg"))
    return parser.parse_args()


async def take(options: argparse.Namespace, link: EngineLink, agent: AgentDial) -> str:
    """Ask and wait for the answer; the picture of the screen after it."""
    columns, _, rows = options.size.partition("x")
    app = ChatApp(link, {"max_tokens": options.max_tokens}, agent=agent)
    async with app.run_test(size=(int(columns), int(rows or MOST_ROWS))) as pilot:
        app.theme = options.theme
        app.prompt.cursor_blink = False
        await link.client()
        app.prompt.paste(options.question)
        await pilot.press("enter")
        async with asyncio.timeout(options.seconds):
            while not app.session.messages or app.session.busy:
                await pilot.pause(0.1)
        if not rows:
            needed = app.transcript.record.rows + app.size.height - app.transcript.size.height
            await pilot.resize_terminal(int(columns), min(MOST_ROWS, needed))
        await pilot.pause(0.3)
        return app.export_screenshot(title="ultra-chat")


def main() -> None:
    options = arguments()
    with ExitStack() as stack:
        fake: FakeEngine | None = None
        if options.fake is not None:
            words = options.fake.read_text().split(" ")
            answer = Answer([words[0], *(f" {word}" for word in words[1:])], delay=0.02, prompt_tokens=42)
            script = FakeEngine(answer, model="qwen2.5-coder-1.5b", context_tokens=32768)
            fake = stack.enter_context(script)

        async def run() -> str:
            where: dict[str, Any] = {"unix": fake.unix, "token": fake.token} if fake is not None else {}

            def dial(model: str | None, status: Any) -> Any:
                return connect(model, on_status=status, **where)

            agent = AgentDial(dial, options.model, project, "auto")
            return await take(options, EngineLink(dial, options.model), agent)

        project = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "stats"
        project.mkdir()
        for name, text in PROJECT.items():
            (project / name).write_text(text)
        picture = asyncio.run(run())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(picture)
    print(f"{options.out}: {len(picture):,} bytes")


if __name__ == "__main__":
    main()
