"""What a cluster needs to ask a server: written from its policies and settings, and compared with what is there."""
