"""The plugins that ship built in, written against the same interface as those of users' packages."""
