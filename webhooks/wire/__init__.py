"""The protocols: one module each, from bytes to a review and from a verdict to bytes."""
