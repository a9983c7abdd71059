"""The script that builds the image, with a program in place of buildah that prints its arguments."""

import os
import subprocess
from pathlib import Path

from webhooks._version import __version__

SCRIPT = Path(__file__).parents[2] / "deploy" / "build-image"


def test_the_image_is_tagged_with_the_version(tmp_path: Path) -> None:
    buildah = tmp_path / "buildah"
    buildah.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    buildah.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [SCRIPT, "--build-arg", "BASE=debian"]
    arguments = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert f"cluster-webhooks:{__version__}" in arguments
    assert f"org.opencontainers.image.version={__version__}" in arguments
    assert arguments[-3:] == ["--build-arg", "BASE=debian", "."]
