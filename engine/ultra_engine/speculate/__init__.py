"""Speculation: tokens guessed ahead, which the target checks in one step."""
