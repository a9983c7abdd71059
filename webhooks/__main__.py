"""``python -m webhooks``."""

from webhooks.cli import main

main()
