"""GPUs: memory and bandwidth from their makers' public data sheets. Decimal units, as those have them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ModelError


@dataclass(frozen=True, slots=True)
class Gpu:
    """``memory`` in bytes, ``bandwidth`` in bytes a second."""

    name: str
    memory: float
    bandwidth: float


def _gpu(name: str, gigabytes: float, terabytes_a_second: float) -> Gpu:
    return Gpu(name, gigabytes * 1e9, terabytes_a_second * 1e12)


GPUS = {
    gpu.name.lower(): gpu
    for gpu in (
        _gpu("A100", 80, 2.039),  # SXM, 80 GB
        _gpu("H100", 80, 3.35),  # SXM
        _gpu("H200", 141, 4.8),
        _gpu("B200", 180, 8.0),  # HGX: eight have 64 TB/s together
        _gpu("MI300X", 192, 5.3),
        _gpu("RTX4090", 24, 1.008),
        _gpu("RTX5090", 32, 1.792),
    )
}


@dataclass(frozen=True, slots=True)
class Node:
    """So many of one kind, a rank each."""

    gpu: Gpu
    ranks: int

    @property
    def bandwidth(self) -> float:
        return self.gpu.bandwidth * self.ranks

    def __str__(self) -> str:
        return f"{self.ranks}x{self.gpu.name}"


_SYNTAX = re.compile(r"(?:(\d{1,4})x)?([a-z][\w -]*)(?::([\d.]+):([\d.]+))?", re.IGNORECASE | re.ASCII)


def parse(text: str) -> Node:
    """ "8xH200", "RTX 4090", or "2xcustom:GB:TB/s". Raises `ModelError` with what there is."""
    match = _SYNTAX.fullmatch(text.strip())
    if match is None:
        raise _wrong(text)
    ranks, name = int(match[1] or 1), re.sub(r"[\s_-]", "", match[2]).lower()
    if not 0 < ranks <= 1024:
        raise ModelError(f"--gpus {text}: 1 to 1024 of them")
    if name == "custom" and match[3]:
        try:
            memory, bandwidth = float(match[3]), float(match[4])
        except ValueError:
            raise _wrong(text) from None
        if not (0 < memory < 1e6 and 0 < bandwidth < 1e4):
            raise ModelError(f"--gpus {text}: memory in GB and bandwidth in TB/s, both above 0")
        return Node(_gpu("custom", memory, bandwidth), ranks)
    if name not in GPUS or match[3]:
        raise _wrong(text)
    return Node(GPUS[name], ranks)


def _wrong(text: str) -> ModelError:
    names = ", ".join(gpu.name for gpu in GPUS.values())
    return ModelError(f"--gpus {text}: write 8xH200, with one of {names}, or 1xcustom:GB:TB/s")
