"""Edits as models write them: applied where they fit exactly once, or refused with what to do instead."""
