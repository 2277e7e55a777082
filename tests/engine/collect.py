"""Running requests on an engine and holding their events to the rules."""

from __future__ import annotations

import itertools
import random
import threading
from pathlib import Path
from typing import Any

from ultra_engine.engine import Engine
from ultra_engine.model import Model
from ultra_engine.request import Delta, Done, Event, Failed, Request, SampleDone, SamplingParams
from ultra_engine.runner import CHUNK

_ids = itertools.count()

ENDLESS: dict[str, Any] = {"temperature": 1.0, "logit_bias": dict.fromkeys((256, 257, 258), -1000.0)}
"""Options of a request on a tiny model that ends only where its context does: no end token is drawn."""


def open_engine(path: Path, **options: Any) -> Engine:
    return Engine.open(str(path), precision="float32", threads=1, **options)


class Collector:
    """A sink. ``wait`` gives the terminal event; ``text`` and ``tokens`` are those of one sample."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.first_delta = threading.Event()
        self._ended = threading.Event()

    def __call__(self, event: Event) -> None:
        assert not self._ended.is_set(), f"{event} after the terminal event"
        self.events.append(event)
        if isinstance(event, Delta):
            self.first_delta.set()
        if isinstance(event, (Done, Failed)):
            self._ended.set()

    def wait(self, seconds: float = 60) -> Done | Failed:
        assert self._ended.wait(seconds), f"no terminal event after {self.events[-3:]}"
        last = self.events[-1]
        assert isinstance(last, (Done, Failed))
        return last

    def deltas(self, sample: int = 0) -> list[Delta]:
        return [e for e in self.events if isinstance(e, Delta) and e.sample == sample]

    def text(self, sample: int = 0) -> str:
        return "".join(delta.text for delta in self.deltas(sample))

    def tokens(self, sample: int = 0) -> list[int]:
        return [token for delta in self.deltas(sample) for token in delta.tokens]

    def finishes(self) -> list[str]:
        return [event.finish for event in self.events if isinstance(event, SampleDone)]


def start(engine: Engine, prompt: str | None = "def f(x):", **options: Any) -> tuple[Request, Collector]:
    """Submit one request; sampling fields may be given beside those of `Request`."""
    names = SamplingParams.__dataclass_fields__
    sampling = SamplingParams(**{k: options.pop(k) for k in list(options) if k in names})
    if "messages" in options or "tokens" in options:
        prompt = None
    request = Request(f"r{next(_ids)}", prompt=prompt, sampling=sampling, **options)
    collector = Collector()
    engine.submit(request, collector)
    return request, collector


def run(engine: Engine, prompt: str | None = "def f(x):", **options: Any) -> Collector:
    """One request from start to end, its offsets and counts checked."""
    _, collector = start(engine, prompt, **options)
    done = collector.wait()
    for sample in {e.sample for e in collector.events if isinstance(e, Delta)}:
        offset = 0
        for delta in collector.deltas(sample):
            assert delta.offset == offset
            offset += len(delta.tokens)
    if isinstance(done, Done):
        count = sum(len(e.tokens) for e in collector.events if isinstance(e, Delta))
        assert done.stats.output_tokens == count
    return collector


def same_bits_whatever_ran_before(model: Model) -> None:
    """The kind of fault: KV left by decoding, or by a step of another size, differs in its last bits."""
    rng, runner = random.Random(3), model.runner
    ids = model.tokenizer.encode("".join(rng.choices("abcdef \n", k=400)))
    for length in (20, CHUNK, 200, len(ids)):
        runner.truncate(0)
        cold = runner.prefill(ids[:length], lambda: False, lambda done: None).copy()
        for _ in range(6):
            runner.truncate(rng.randrange(length))
            start = len(runner.tokens)
            for token in ids[start : start + rng.randrange(60)]:
                runner.decode(token, lambda: False)
            warm = runner.prefill(ids[:length], lambda: False, lambda done: None)
            assert warm.tobytes() == cold.tobytes()
