"""Client authentication: client certificates, token files and OIDC."""
