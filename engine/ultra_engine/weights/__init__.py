"""Model files: names, downloads, and what is in a GGUF file."""
