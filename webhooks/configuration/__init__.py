"""Configuration files: read strictly, and everything that is wrong with one said at once, with its place."""
