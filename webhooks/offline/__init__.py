"""`webhooks review`: evaluates policies on manifests without a cluster, and writes reports."""
