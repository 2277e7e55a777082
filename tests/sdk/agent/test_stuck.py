from __future__ import annotations

from pathlib import Path

from agent_kit import CALC, FIX, finished, project, working


async def test_after_an_answer_that_led_nowhere_the_next_is_sampled(tmp_path: Path) -> None:
    root = project(tmp_path, {"calc.py": CALC})
    same = f"path: calc.py\n```python\n{CALC}```"
    async with working(root, [same, FIX, "```bash\ntrue\n```", "DONE: so."]) as (agent, fake):
        await finished(agent, "@calc.py: mend the sum")
        temperatures = [create.sampling.temperature for create in fake.creates]
        assert temperatures[0] == 0 and temperatures[1] > 0 and temperatures[3] == 0
    async with working(root, [same, "DONE: so."], options={"temperature": 0.1}) as (agent, fake):
        await finished(agent, "@calc.py: mend the sum")
        assert {create.sampling.temperature for create in fake.creates} == {0.1}
