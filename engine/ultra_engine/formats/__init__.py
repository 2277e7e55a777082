"""What a model writes, read as it comes: answer, reasoning and tool calls, in every family's form."""
