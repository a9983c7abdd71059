"""Evaluates a review: selects policies, runs them under a deadline, contains failures and merges a verdict."""
