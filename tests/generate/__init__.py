"""Generators of documentation pages. Run ``python -m tests.generate.reference`` to write them."""
