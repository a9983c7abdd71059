"""The files that go into the cluster."""

from pathlib import Path
from typing import Any

import pytest

from webhooks.config import file as config_file
from webhooks.errors import ConfigurationError
from webhooks.manifests.server_files import ServerFiles, collect
from webhooks.policy.loader import load
from webhooks.settings import Limits, Settings

POLICY = "from webhooks import *\n\n\n@validating('pods')\ndef {name}(review):\n    return Allow()\n"
HEADER = "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(POLICY.format(name="mine"))
    return tmp_path


def collect_configuration(text: str) -> ServerFiles:
    Path("webhooks.yaml").write_text(HEADER + text)
    configuration = config_file.read(Path("webhooks.yaml"))
    return collect(configuration.settings, configuration.load(), configuration)


def test_policies_from_options() -> None:
    files = collect(Settings(), load(["mine.py", "library:required_labels"]), None)
    assert files.policies == {"policies/mine.py": Path("mine.py").read_text()}
    assert files.arguments == ["--policies=/etc/webhooks/policies/mine.py", "--policies=library:required_labels"]


def test_settings_from_options() -> None:
    Path("clients.pem").write_text("PEM")
    settings = Settings(
        client_ca=Path("clients.pem"),
        allow_client=("a", "b"),
        token_file=Path("tokens.csv"),
        tracing=True,
        grace=1.5,
        limits=Limits(max_queue=5),
        port=1,
        tls_cert=Path("tls.crt"),
    )
    files = collect(settings, [], None)
    assert files.configuration == {"client-ca.crt": "PEM"}
    assert files.secrets == ["tokens/tokens.csv"]
    assert files.arguments == [
        "--client-ca=/etc/webhooks/client-ca.crt",
        "--token-file=/etc/webhooks/tokens/tokens.csv",
        "--allow-client=a",
        "--allow-client=b",
        "--grace=1.5s",
        "--tracing",
        "--max-queue=5",
    ]


def test_a_configuration_keeps_the_paths_of_its_policies(folder: Path) -> None:
    (folder / "policies").mkdir()
    (folder / "policies" / "deep.py").write_text(POLICY.format(name="deep"))
    files = collect_configuration(
        "policies: [{use: mine.py}, {use: policies/deep.py}, {use: library:required_labels}]\n"
    )
    assert sorted(files.policies) == ["mine.py", "policies/deep.py"]
    assert list(files.configuration) == ["webhooks.yaml"]
    assert files.arguments == ["--config=/etc/webhooks/webhooks.yaml"]


def test_the_files_of_plugins(folder: Path) -> None:
    (folder / "plugins.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
        "plugins: [{name: EventRateLimit, path: limits.yaml}]\n"
    )
    (folder / "limits.yaml").write_text("limits")
    files = collect(Settings(admission_config=Path("plugins.yaml")), [], None)
    assert sorted(files.configuration) == ["admission.yaml", "limits.yaml"]
    assert files.arguments == ["--admission-config=/etc/webhooks/admission.yaml"]
    (folder / "plugins.yaml").write_text((folder / "plugins.yaml").read_text().replace("limits", "../limits"))
    with pytest.raises(ConfigurationError, match=r"plugins\.yaml: .*limits\.yaml is not in the folder of this file"):
        collect(Settings(admission_config=Path("plugins.yaml")), [], None)


def test_policies_outside_of_the_folder_of_the_configuration(folder: Path) -> None:
    (folder / "deploy").mkdir()
    (folder / "deploy" / "webhooks.yaml").write_text(f"{HEADER}policies: [{{use: ../mine.py}}]\n")
    configuration = config_file.read(Path("deploy/webhooks.yaml"))
    with pytest.raises(ConfigurationError, match=r"mine\.py is not in the folder of this file or below it"):
        collect(configuration.settings, configuration.load(), configuration)


def test_policy_files_of_the_same_name(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "mine.py").write_text(POLICY.format(name="other"))
    with pytest.raises(ConfigurationError, match="another file would have the same path in the cluster"):
        collect(Settings(), load(["mine.py", "other/mine.py"]), None)


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file or directory"), (b"\xff", "invalid start byte")])
def test_files_that_cannot_be_read(folder: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        (folder / "clients.pem").write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"^clients\.pem: cannot be read: .*{reason}"):
        collect(Settings(client_ca=Path("clients.pem")), [], None)


def test_the_digest_changes_with_the_files() -> None:
    def digest(**files: Any) -> str:
        return ServerFiles(**files).digest

    assert digest() == digest(secrets=["tokens/a"])
    assert (
        len({digest(), digest(policies={"a": "1"}), digest(policies={"a": "2"}), digest(configuration={"a": "1"})}) == 4
    )
