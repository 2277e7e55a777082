"""The whole examination, and whether the engine can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import fits, machine, surroundings
from .findings import Finding, Verdict
from .fits import Fit


@dataclass(frozen=True, slots=True)
class Report:
    findings: tuple[Finding, ...]
    fits: tuple[Fit, ...]

    @property
    def runs(self) -> bool:
        """Whether nothing stands in the way."""
        return all(finding.verdict is not Verdict.FATAL for finding in self.findings)

    @property
    def advice(self) -> list[str]:
        """What there is to do, the worst first."""
        order = [Verdict.FATAL, Verdict.POOR, Verdict.GOOD]
        told = [finding for finding in self.findings if finding.advice]
        return [f"{f.label}: {f.advice}" for f in sorted(told, key=lambda f: order.index(f.verdict))]

    def json(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "findings": [finding.json() for finding in self.findings],
            "models": [fit.json() for fit in self.fits],
            "advice": self.advice,
        }


def examine(seconds: float = machine.SECONDS) -> Report:
    """Look at everything; memory is read for ``seconds``."""
    executor, memory = machine.executor(), machine.memory()
    speed, gpus = machine.bandwidth(seconds), machine.gpus()
    compiled = executor.data["executor"] == "cpu"
    here = fits.on_cpu(memory.data["available"], speed.data["bytes_per_second"], compiled)
    found = [machine.software(), machine.processors(), executor, machine.compiler()]
    found += [_enough(memory, here), speed, gpus, _to_have(machine.disk(), here)]
    found += [surroundings.runtime_folder(), surroundings.servers()]
    found += [surroundings.sandbox(), surroundings.search()]
    return Report(tuple(found), (*here, *fits.on_gpus(gpus.data["gpus"])))


def _enough(memory: Finding, here: list[Fit]) -> Finding:
    """Memory, judged by the models that it is for."""
    if any(fit.fits for fit in here):
        return memory
    least = min(fit.bytes for fit in here) + fits.OVERHEAD
    advice = f"even the smallest model needs {least / 1e9:.1f} GB: close other programs"
    return Finding(memory.label, memory.words, Verdict.FATAL, advice, memory.data)


def _to_have(disk: Finding, here: list[Fit]) -> Finding:
    """The cache, judged by whether a model is in it already."""
    if disk.data["writable"] or any(fit.downloaded for fit in here):
        return disk
    return Finding(disk.label, disk.words, Verdict.FATAL, disk.advice, disk.data)
