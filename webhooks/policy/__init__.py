"""What a policy is: decorators, matching, exemptions, the registry and the loader."""
