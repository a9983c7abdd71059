"""Kubeconfigs and credential plugins."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

Json = dict[str, Any]

# Prints an ExecCredential whose token is its process ID; the argument is the expiry.
PLUGIN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["kind"] == "ExecCredential" and os.environ["REGION"] == "eu"
expiry = {"expirationTimestamp": sys.argv[1]} if sys.argv[1:] else {}
status = {"token": str(os.getpid()), **expiry}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def forget_clusters(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one that has no access to a cluster."""
    monkeypatch.setenv("HOME", str(home))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def write_kubeconfig(folder: Path, name: str = "config", user: Json | None = None, **cluster: Any) -> Path:
    """Write a kubeconfig with one context. Its name is also that of the file."""
    path = folder / name
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": f"{name}-cluster", "cluster": {"server": f"https://{name}:6443/"} | cluster}],
        "users": [{"name": f"{name}-me", "user": user or {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": f"{name}-cluster", "user": f"{name}-me", "namespace": "x"}}],
        "current-context": name,
    }
    path.write_text(yaml.safe_dump(tree))
    return path


def plugin_user(folder: Path, *arguments: str, text: str = PLUGIN) -> Json:
    """Return the user of a kubeconfig whose credentials a Python program provides."""
    (folder / "plugin.py").write_text(text)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(folder / "plugin.py"), *arguments],
            "env": [{"name": "REGION", "value": "eu"}],
            "interactiveMode": "Never",
        }
    }
