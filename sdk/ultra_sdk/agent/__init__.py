"""The coding agent without its model: what it may touch, how it edits, what it runs.

    workspace/    files inside one project root, bytes preserved; checkpoints and undo
    edits/        SEARCH/REPLACE blocks, unified diffs and whole files, applied exactly or refused
    tools/        read, grep, glob, edit, write, bash, check, done: calls and their schemas
    sandbox/      shell commands under bubblewrap or Landlock, with limits and without orphans
    permissions.py, redact.py, errors.py

Nothing here knows a terminal or a server.
"""
