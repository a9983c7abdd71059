"""The configuration file: strict YAML, validation, models, and policies from their entries."""
