"""The benchmark: `python -m tests.bench`. Not a test: only the ratios within one run mean something."""
