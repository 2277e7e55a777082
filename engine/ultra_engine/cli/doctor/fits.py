"""Which models this machine can hold, and how fast memory lets them be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import ModelError
from ...plan import gpus, known
from ...plan.description import describe, opened
from ...plan.plan import Facts, make
from ...weights import hub, registry
from ...weights.registry import Model

OVERHEAD = 300e6
"""Bytes beside the weights: Python, PyTorch, KV of a short context, activations."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One model here. ``read`` is bytes a token reads, ``speed`` tokens a second at most; 0 is not known."""

    name: str
    bytes: float
    read: float
    fits: bool
    speed: float
    downloaded: bool
    where: str

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "where": self.where, "fits": self.fits}
        found |= {"bytes": round(self.bytes), "read_bytes_per_token": round(self.read)}
        return found | {"tokens_per_second_at_most": round(self.speed, 1), "downloaded": self.downloaded}


def on_cpu(available: float, bandwidth: float, compiled: bool) -> list[Fit]:
    """The models that have a name, in ``available`` bytes of memory read at ``bandwidth``. ``compiled``: the
    CPU machine runs them; the reference executor unpacks weights to bfloat16."""
    found = []
    for model in registry.MODELS.values():
        size = float(model.bytes if compiled else 2 * model.parameters)
        read = _read(model) if compiled else size
        fits = size + OVERHEAD <= available
        here = hub.path_of(model).is_file()
        found.append(Fit(model.name, size, read, fits, bandwidth / read if read else 0.0, here, "cpu"))
    return found


def _read(model: Model) -> float:
    """Bytes that a token reads: by the file's header where the file is there, else those of the file."""
    path = hub.path_of(model)
    if path.is_file():
        try:
            with opened(path) as source:
                return describe(source).read
        except ModelError:
            pass  # a damaged file, which `ultra models verify` tells of
    return float(model.bytes)


def on_gpus(found: list[dict[str, Any]]) -> list[Fit]:
    """The models whose sizes are built in, on the GPUs that are there, if their kind is known."""
    node = _node(found)
    if node is None:
        return []
    fits = []
    for name in known.CONFIGS:
        facts = Facts.known(name)
        assert facts is not None
        plan = make(facts, node, 1, None, None)
        speed = plan.base.accept / plan.base.step.seconds(node.bandwidth)
        size, read = plan.weights, plan.base.step.bytes
        fits.append(Fit(name, size, read, plan.memory.fits, speed, False, str(node)))
    return fits


def _node(found: list[dict[str, Any]]) -> gpus.Node | None:
    """All GPUs as one node, where they are alike and their bandwidth is known."""
    if not found or len({gpu["name"] for gpu in found}) > 1:
        return None
    name = str(found[0]["name"]).lower().replace(" ", "")
    kind = next((gpu for key, gpu in gpus.GPUS.items() if key in name), None)
    if kind is None:
        return None
    return gpus.Node(
        gpus.Gpu(kind.name, min(kind.memory, float(found[0]["memory"])), kind.bandwidth), len(found)
    )
