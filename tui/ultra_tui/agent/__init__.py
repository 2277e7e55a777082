"""The coding agent at a terminal: one turn without the app, and its place in the app."""
