"""The `ultra-chat` terminal app."""

__version__ = "0.1.0"
