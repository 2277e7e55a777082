"""What a model costs on a machine that need not be there: arithmetic on a config.json."""
