"""Kubernetes API vocabulary as plain values: quantities, durations, selectors, rules, names and manifest YAML."""
