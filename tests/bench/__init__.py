"""The benchmark: `python -m tests.bench`. It is not a test: compare only figures of one run."""
