"""Cluster manifests from policies: webhook configurations, CEL conditions, a Deployment, API-server files, drift."""
