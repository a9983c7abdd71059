"""Evaluates reviews: selects policies, runs them under a deadline, contains failures, and merges a verdict."""
