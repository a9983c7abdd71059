"""Policies: their decorators, matching, exemptions, registry and loader."""
