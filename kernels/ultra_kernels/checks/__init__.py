"""Proofs that a program is sound, made without running it."""

from .fault import UnsoundProgram
from .soundness import check

__all__ = ["UnsoundProgram", "check"]
