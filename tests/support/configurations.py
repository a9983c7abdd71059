"""Configuration files with policies to load, for tests of the package config."""

from pathlib import Path

import pytest

from webhooks.config import file as config_file
from webhooks.config.file import Configuration
from webhooks.errors import ConfigurationError
from webhooks.policy.model import AnyPolicy

HEAD = "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
POLICIES = """\
from webhooks import *


@validating("pods", "apps/deployments", operations=["CREATE", "UPDATE"], timeout=3)
def labelled(review, *, label: str, exempt_images: list[str] = [], maxAge: int = 1):
    return Deny(f"no label {label}") if label not in review.labels else Allow()


@mutating("pods", name="marked", isolation=True)
def mark(review, *, text: str = "yes"):
    pod = review.object
    pod["metadata"]["labels"] = {"mark": text}
    return Replace(pod)


@authorizing("pods", "secrets", paths=["/metrics", "/healthz"])
def reads(access):
    return Deny("no")


@authenticating
def tokens(token):
    return NoOpinion()


@image_policy
def images(review):
    return Deny("no")
"""


def read(folder: Path, text: str) -> Configuration:
    """Read a configuration file with this text after its header."""
    file = folder / "webhooks.yaml"
    file.write_text(HEAD + text)
    return config_file.read(file)


def load(folder: Path, text: str) -> dict[str, AnyPolicy]:
    """Load the policies of a configuration file by name."""
    return {policy.name: policy for policy in read(folder, text).load()}


def load_one(folder: Path, use: str, more: str = "") -> AnyPolicy:
    """Load a configuration file with a single policy."""
    [policy] = load(folder, f"policies:\n- use: {use}\n{more}").values()
    return policy


def errors(folder: Path, text: str) -> list[str]:
    """The errors of a configuration file, without the folder."""
    with pytest.raises(ConfigurationError) as raised:
        load(folder, text)
    return str(raised.value).replace(f"{folder}/", "").splitlines()
