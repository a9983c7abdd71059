"""Creates packages with plugins as if they were installed: a module, and the metadata that registers plugins."""

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, name: str, code: str, plugins: Mapping[str, str]) -> None:
    """Write a package into a folder on the module search path.

    Args:
        folder: the folder.
        name: the name of the package and its module.
        code: the code of the module.
        plugins: the functions that it registers, as ``module:function``, by the name of the plugin.
    """
    (folder / f"{name}.py").write_text(code)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{plugin} = {function}" for plugin, function in plugins.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[webhooks.plugins]", *lines, ""]))


# Denies gadgets, counts denials, and writes a line to a file when a process shuts down.
DENYING = """\
import os

from webhooks import *
from webhooks.plugins import Model


class Settings(Model):
    folder: str


def configure(document, context):
    folder = document.read(Settings).folder
    denied = context.metrics.counter("webhooks_denying_denied", "Reviews denied.", ("resource",))
    workers = context.metrics.gauge("webhooks_denying_workers", "Processes that denied a review.")

    @validating("gadgets")
    def denying(review):
        denied.add(review.resource.resource)
        workers.set(1)
        return Deny(f"{os.getpid()} of {context.workers}")

    async def close():
        with open(f"{folder}/ended", "a") as file:
            file.write(f"{os.getpid()}\\n")

    context.on_shutdown(close)
    return [denying]
"""


def denying(folder: Path) -> tuple[object, ...]:
    """Write a package with a plugin that denies gadgets, and return the options of a server that uses it."""
    install(folder, "denying", DENYING, {"Denying": "denying:configure"})
    file = folder / "admission.yaml"
    file.write_text(
        f"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
        f"plugins: [{{name: Denying, configuration: {{folder: {folder}}}}}]\n"
    )
    return ("--admission-config", file)
