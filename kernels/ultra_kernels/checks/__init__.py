"""Proofs that a program is sound, made without running it."""

from .soundness import UnsoundProgram, check

__all__ = ["UnsoundProgram", "check"]
