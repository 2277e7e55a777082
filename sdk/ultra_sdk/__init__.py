"""Typed async client of an Ultra engine."""
