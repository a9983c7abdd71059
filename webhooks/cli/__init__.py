"""The command line: one module for each command. The only package that defines click commands."""
