"""Shell commands: confined by the strongest means that work here, bounded, and gone when they are over."""
