"""The `ultra-chat` terminal app."""
