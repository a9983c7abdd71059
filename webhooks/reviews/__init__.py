"""One module for each review protocol: bytes to a review, a verdict to bytes. Also the outcomes of policies."""
