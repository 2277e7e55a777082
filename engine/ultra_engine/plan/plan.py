"""Whether a model fits on some GPUs, what a step reads there, and what speed that allows at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelError, ModelFileError
from ..models import config_from_json
from ..models.config import Mixture, ModelConfig, Role, Weight
from ..weights.json_file import read_object
from . import known
from .gpus import Node
from .step import Load, Step, drafter_bytes, drafter_parameters, kv_bytes, step
from .stored import FP8, HALF, MXFP4, bits, check_names

USABLE = 0.92
"""Of a GPU's memory: the rest is for activations, the driver and fragments."""

CONTEXT = 4096
"""Positions, unless others are asked for."""

BLOCKS = (1, 2, 4, 8, 16)
FAR = 131072
MIX_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Facts:
    """A model, as config.json has it. ``drafter`` is the drafter's config.json, if there is one."""

    name: str
    values: Mapping[str, Any]
    config: ModelConfig
    drafter: Mapping[str, Any] | None = None
    accept: float | None = None
    """Accept length that the drafter's authors publish."""

    @property
    def bits(self) -> Callable[[Weight], float]:
        return bits(self.config, self.values)

    @classmethod
    def known(cls, name: str) -> Facts | None:
        """A model that is built in, by its name."""
        key = known.find(name)
        if key is None:
            return None
        values = known.CONFIGS[key]
        config = config_from_json(key, values)
        return cls(key, values, config, known.DRAFTERS.get(key), known.ACCEPT.get(key))

    @classmethod
    def read(cls, path: Path) -> Facts:
        """From a config.json, or a folder with one, whose ``dflash`` may have the drafter's. Raises
        `ModelFileError` or `UnsupportedModel`."""
        file = path / "config.json" if path.is_dir() else path
        values = read_object(file)
        config = config_from_json(file.absolute(), values)
        check_names(file, values)
        drafter = file.parent / "dflash" / "config.json"
        given = read_object(drafter) if drafter.is_file() else None
        if given is not None:
            try:
                drafter_parameters(given)
                int(given.get("block_size") or 1)
            except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                raise ModelFileError(drafter, f"is no drafter's: {error!r}") from None
        return cls(file.absolute().parent.name, values, config, given)


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a plan: a step under some assumption, and tokens a step, expected."""

    name: str
    step: Step
    accept: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank."""

    weights: float
    drafter: float
    kv: float
    total: float
    """What the GPU has."""
    positions: int
    """Of one sequence that fit beside the weights, at most the model's context."""

    @property
    def fits(self) -> bool:
        return self.weights + self.drafter + self.kv <= self.total * USABLE


@dataclass(frozen=True, slots=True)
class Plan:
    """``base`` is the first of ``cases``; ``blocks`` are steps of other lengths, all else being equal."""

    facts: Facts
    node: Node
    load: Load
    memory: Memory
    cases: tuple[Case, ...]
    blocks: tuple[Step, ...]
    weights: float
    """Bytes of all weights, as stored."""
    warnings: tuple[str, ...]

    @property
    def base(self) -> Case:
        return self.cases[0]

    @property
    def break_even(self) -> float:
        """Accept length above which a block reads fewer bytes a token than one row at a time."""
        return self.base.step.bytes / self.blocks[0].bytes


def make(facts: Facts, node: Node, block: int | None, accept: float | None, context: int | None) -> Plan:
    """Raises `ModelError` for a block, accept length or context that makes no sense."""
    load, accept = _check(facts, block, accept, context)
    run = _run_bits(facts)

    def at(load: Load, how: Callable[[Weight], float] = run, drafter: float = 0.0) -> Step:
        return step(facts.config, how, load, node.ranks, drafter)

    blocks = tuple(at(Load(n, load.context)) for n in sorted({*BLOCKS, load.block}))
    weights = sum(w.size * facts.bits(w) / 8 for w in facts.config.weights())
    memory, warnings = _memory(facts, node, load), _warnings(facts, node)
    return Plan(facts, node, load, memory, _cases(facts, load, accept, at), blocks, weights, warnings)


def _check(facts: Facts, block: int | None, accept: float | None, context: int | None) -> tuple[Load, float]:
    if block is None:
        block = int(facts.drafter.get("block_size") or 1) if facts.drafter else 1
    if not 1 <= block <= 1024:
        raise ModelError(f"--block {block}: 1 to 1024 rows")
    if accept is None:
        accept = min(facts.accept or 1.0, block)
    if not 1 <= accept <= block:
        raise ModelError(f"--accept {accept:g}: a block of {block} yields 1 to {block} tokens")
    if context is None:
        context = min(CONTEXT, facts.config.context)
    if not 1 <= context <= facts.config.context:
        raise ModelError(f"--context {context}: the model takes 1 to {facts.config.context}")
    return Load(block, context), accept


def _run_bits(facts: Facts) -> Callable[[Weight], float]:
    """As stored, but all of attention in FP8 where q, k and v are: files of MiMo's leave out o alone."""
    stored = facts.bits
    if not _o_is_wider(facts):
        return stored
    return lambda w: FP8 if w.name.endswith(".o.weight") else stored(w)


def _o_is_wider(facts: Facts) -> bool:
    stored = {
        w.name.split(".")[-2]: facts.bits(w) for w in facts.config.weights() if w.role is Role.ATTENTION
    }
    return stored["q"] == FP8 and stored["o"] == HALF


def _cases(facts: Facts, load: Load, accept: float, at: Callable[..., Step]) -> tuple[Case, ...]:
    """The question that was asked, and what becomes of it under other assumptions."""
    mixture = any(isinstance(layer.mlp, Mixture) for layer in facts.config.layers)
    wider = _o_is_wider(facts)
    cases = [Case("attention in FP8, o_proj too" if wider else "as stored", at(load), accept)]
    if wider:
        cases.append(Case("o_proj in BF16, as stored", at(load, facts.bits), accept))
    if facts.drafter and load.block > 1:
        extra = drafter_bytes(facts.drafter, facts.config, facts.bits)
        cases.append(Case("with the drafter's pass", at(load, drafter=extra), accept))
    if load.context < FAR <= facts.config.context:
        cases.append(Case(f"context of {FAR}", at(Load(load.block, FAR)), accept))
    if mixture and load.block > 1:
        for shared in (0.2, 0.4, 0.6):
            name = f"rows share {shared:.0%} of experts"
            cases.append(Case(name, at(Load(load.block, load.context, shared)), accept))
    if mixture:
        cases.append(_other_experts(facts, load, accept, at))
    if load.block > 1:
        cases.append(Case("no speculation", at(Load(1, load.context)), 1.0))
    return tuple(cases)


def _other_experts(facts: Facts, load: Load, accept: float, at: Callable[..., Step]) -> Case:
    """What MXFP4 is worth."""
    run = _run_bits(facts)
    is_mxfp4 = next(facts.bits(w) for w in facts.config.weights() if w.role is Role.EXPERTS) == MXFP4
    name, other = ("experts in FP8", FP8) if is_mxfp4 else ("experts in MXFP4 (ultra convert)", MXFP4)

    def changed(weight: Weight) -> float:
        return other if weight.role is Role.EXPERTS and len(weight.shape) == 3 else run(weight)

    return Case(name, at(load, changed), accept)


def _memory(facts: Facts, node: Node, load: Load) -> Memory:
    """Of one rank. Routers and vectors are on every rank, all else is shared equally."""
    config, stored = facts.config, facts.bits
    weights = 0.0
    for weight in config.weights():
        whole = weight.role in (Role.ROUTER, Role.NORM)
        weights += weight.size * stored(weight) / 8 / (1 if whole else node.ranks)
    drafter = drafter_parameters(facts.drafter) * HALF / 8 / node.ranks if facts.drafter else 0.0
    kv = kv_bytes(config, load.context, node.ranks) / node.ranks
    left = node.gpu.memory * USABLE - weights - drafter
    return Memory(weights, drafter, kv, node.gpu.memory, _positions(config, node.ranks, left))


def _positions(config: ModelConfig, ranks: int, left: float) -> int:
    """The longest sequence whose KV fits into ``left`` bytes of a rank."""
    low, high = 0, config.context
    while low < high:
        middle = (low + high + 1) // 2
        if kv_bytes(config, middle, ranks) / ranks <= left:
            low = middle
        else:
            high = middle - 1
    return low


def _warnings(facts: Facts, node: Node) -> tuple[str, ...]:
    """Where ranks cannot share a weight equally."""
    found = []
    for layer in facts.config.layers:
        if layer.attention.heads % node.ranks:
            found.append(f"{layer.attention.heads} heads cannot be shared equally by {node.ranks} ranks")
        unit = MIX_BLOCK if isinstance(layer.mlp, Mixture) else 1
        if layer.mlp.wide % (node.ranks * unit):
            what = "columns of an expert" if isinstance(layer.mlp, Mixture) else "columns of an MLP"
            blocks = f" in groups of {unit}" if unit > 1 else ""
            found.append(f"{layer.mlp.wide} {what}{blocks} cannot be shared equally by {node.ranks} ranks")
    return tuple(dict.fromkeys(found))
