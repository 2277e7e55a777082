"""The arithmetic of a mixture of experts, in PyTorch: what ROUTE and the expert ops mean."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from .program import Attributes, Scoring


def choose(logits: Tensor, correction: Tensor | None, at: Attributes) -> tuple[Tensor, Tensor]:
    """float32 [rows, experts] -> ids int64 and gates float32, both [rows, top_k]: see `Scoring`."""
    scores = logits.sigmoid() if at.scoring is Scoring.SIGMOID else logits
    choice = scores if correction is None else scores + correction
    ids = choice.sort(dim=-1, descending=True, stable=True).indices[:, : at.top_k]
    gates = scores.softmax(-1).gather(1, ids) if at.scoring is Scoring.SOFTMAX else scores.gather(1, ids)
    if at.scoring is Scoring.CHOSEN:
        gates = gates.softmax(-1)
    if at.normalise:
        gates = gates / (gates.sum(-1, keepdim=True) + 1e-20)
    return ids, (gates * at.scale).masked_fill(choice.isnan().any(-1, keepdim=True), torch.nan)


def chosen(experts: Tensor, count: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Every expert below ``count`` that somebody chose: its id, and the rows and slots where it stands in
    ``experts`` [rows, top_k]."""
    for expert in sorted(set(experts.flatten().tolist())):
        if 0 <= expert < count:
            rows, slots = (experts == expert).nonzero(as_tuple=True)
            yield expert, rows, slots


def act(gate: Tensor, up: Tensor, at: Attributes) -> Tensor:
    """SwiGLU, or gpt-oss's clamped form of it where the node has a limit."""
    if not at.limit:
        return functional.silu(gate) * up
    gate, up = gate.clamp(max=at.limit), up.clamp(-at.limit, at.limit)
    return (up + 1) * gate * torch.sigmoid(at.alpha * gate)
