"""Tensors over memory that is somebody else's."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch


def borrow(data: npt.NDArray[np.uint8]) -> torch.Tensor:
    """A tensor over a read-only file; torch has no read-only tensors and warns, and nothing here writes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(data)
