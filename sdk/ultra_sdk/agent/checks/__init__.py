"""The project's own checks: found, run, and their output read."""
