"""The engine: checkpoint to program, requests to token streams."""
