"""The review protocols: requests and responses as JSON, reviews as policies see them, and the outcomes of policies."""
