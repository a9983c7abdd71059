"""Policies on manifests without a cluster: ``webhooks review``."""
