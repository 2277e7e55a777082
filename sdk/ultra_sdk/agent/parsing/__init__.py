"""What a model wrote: its words, its tool calls in whatever form, and its whole files."""
