"""Metric types, JSON logs, the log writer and redaction."""
