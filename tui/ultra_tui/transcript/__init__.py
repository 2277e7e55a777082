"""The scrolling record of a conversation, drawn line by line by one widget."""
