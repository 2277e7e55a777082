"""The engine: checkpoint to program, requests to token streams."""

__version__ = "0.1.0"
