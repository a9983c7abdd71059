"""Kubernetes objects as JSON: strict reading, lazy decoding, copy-on-write, JSON Patch, containers and images."""
