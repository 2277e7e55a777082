"""The tools that a model calls: typed parameters in, a typed result and a short text out."""
