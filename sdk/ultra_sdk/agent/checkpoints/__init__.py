"""Turns that can be undone, with what shell commands changed, kept outside the user's version control."""
