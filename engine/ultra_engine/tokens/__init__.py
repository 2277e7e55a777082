"""Text to token ids and back: tokenizers, streaming text, stop strings, chat templates."""
