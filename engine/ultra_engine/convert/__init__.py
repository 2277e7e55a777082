"""Checkpoints with their experts in MXFP4, made of checkpoints that have them in more bits."""
