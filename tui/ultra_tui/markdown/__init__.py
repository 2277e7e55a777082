"""Markdown to rows of styled text, incrementally: closed blocks are cut off a stream once and for all."""
