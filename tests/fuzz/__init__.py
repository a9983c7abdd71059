"""Bodies that nobody would write, and the laws that hold for all of them."""
