"""Files inside one project root: paths that cannot escape, bytes that are preserved, turns to undo."""
