"""``webhooks manifests`` on the command line."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner, Result

from webhooks.certificates import issue
from webhooks.cli.main import main

Json = dict[str, Any]

ADMISSION_POLICIES = """
from webhooks import Allow, Replace, mutating, validating


@mutating("pods", operations=["CREATE"], timeout=4)
def defaults(review):
    return Replace(review.object)


@mutating("apps/deployments", labels={"tier": "front"}, timeout=7)
def fronts(review):
    return Replace(review.object)


@validating("core/v1/configmaps", "core/v1/secrets", namespaces=["team-*"], users=["jane", "bob"])
def named(review):
    return Allow()
"""
OTHER_POLICIES = """
from webhooks import Allow, Deny, NoOpinion, authenticating, authorizing, image_policy


@authorizing("core/secrets", verbs=["get", "list"], namespaces=["vault"], timeout=2)
def sealed(access):
    return Deny("sealed")


@authenticating
def known(review):
    return NoOpinion()


@image_policy
def registry(review):
    return Allow()
"""
HEADER = "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a certificate and policies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    issue(tmp_path / "certs", names=["webhooks.webhooks.svc"])
    (tmp_path / "mine.py").write_text(ADMISSION_POLICIES)
    (tmp_path / "others.py").write_text(OTHER_POLICIES)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["manifests", *map(str, arguments)], prog_name="webhooks")


def load_objects(*arguments: object) -> list[Json]:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def load_webhooks(*arguments: object) -> dict[str, Json]:
    configurations = load_objects("--only", "webhook-configurations", *arguments)
    return {webhook["name"]: webhook for configuration in configurations for webhook in configuration["webhooks"]}


def error_of(*arguments: object) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def write_policy(folder: Path, decorator: str) -> Path:
    file = folder / "one.py"
    file.write_text(f"from webhooks import *\n\n@{decorator}\ndef one(review):\n    return Allow()\n")
    return file


def write_configuration(folder: Path, text: str) -> str:
    (folder / "webhooks.yaml").write_text(HEADER + text)
    return HEADER + text


@pytest.mark.parametrize("version", ["1.25", "1.28", "1.32", "1.37"])
def test_all_objects_are_valid(version: str) -> None:
    objects = load_objects(
        "--policies", "mine.py", "--policies", "library:required_labels", "--cluster-version", version
    )
    assert [object_["kind"] for object_ in objects] == [
        *("Namespace", "ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    ]
    for object_ in objects:
        kubernetes_validate.validate(object_, version, strict=True)
    assert ("matchConditions" in objects[-1]["webhooks"][0]) is (version != "1.25")


def test_webhooks_are_derived_from_policies(folder: Path) -> None:
    webhooks = load_webhooks("--policies", "mine.py")
    mutate, validate = webhooks["mutate.webhooks.svc.io"], webhooks["validate.webhooks.svc.io"]
    assert [(rule["apiGroups"], rule["resources"], rule["operations"]) for rule in mutate["rules"]] == [
        (["*"], ["pods"], ["CREATE"]),
        (["apps"], ["deployments"], ["CREATE", "UPDATE", "CONNECT"]),
    ]
    assert mutate["timeoutSeconds"] == 12  # 4 and 7, one after another, and the way back
    assert mutate["reinvocationPolicy"] == "IfNeeded"
    assert mutate["clientConfig"]["service"]["path"] == "/admission/mutate"
    assert base64.b64decode(mutate["clientConfig"]["caBundle"]) == (folder / "certs" / "ca.pem").read_bytes()
    assert validate["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE", "CONNECT"],
            "resources": ["configmaps", "secrets"],
            "scope": "*",
        }
    ]
    assert validate["matchConditions"] == [
        {"name": "namespaces", "expression": "has(request.namespace) && (request.namespace.startsWith('team-'))"},
        {
            "name": "users",
            "expression": "has(request.userInfo.username) && (request.userInfo.username in ['jane', 'bob'])",
        },
    ]
    assert validate["failurePolicy"] == "Fail"
    assert validate["sideEffects"] == "None"


def test_a_webhook_for_each_policy() -> None:
    webhooks = load_webhooks("--policies", "mine.py", "--per-policy")
    assert list(webhooks) == [
        "defaults.mutate.webhooks.svc.io",
        "fronts.mutate.webhooks.svc.io",
        "named.validate.webhooks.svc.io",
    ]
    fronts = webhooks["fronts.mutate.webhooks.svc.io"]
    assert fronts["objectSelector"] == {"matchLabels": {"tier": "front"}}
    assert fronts["clientConfig"]["service"]["path"] == "/admission/mutate/fronts"
    assert fronts["timeoutSeconds"] == 10


def test_failure_policies_of_single_policies() -> None:
    webhooks = load_webhooks("--policies", "mine.py", "--failure-policy", "fronts=Ignore")
    assert {name: webhook["failurePolicy"] for name, webhook in webhooks.items()} == {
        "defaults.mutate.webhooks.svc.io": "Fail",
        "fronts.mutate.webhooks.svc.io": "Ignore",
        "validate.webhooks.svc.io": "Fail",
    }


def test_policies_that_are_not_enforced_are_not_required(folder: Path) -> None:
    write_configuration(folder, "policies: [{use: library:required_labels, mode: audit}]\n")
    [webhook] = load_webhooks("--config", "webhooks.yaml").values()
    assert webhook["failurePolicy"] == "Ignore"


def test_side_effects(folder: Path) -> None:
    file = write_policy(folder, 'validating("pods", side_effects="none_on_dry_run")')
    [webhook] = load_webhooks("--policies", file, "--policies", "library:required_labels").values()
    assert webhook["sideEffects"] == "NoneOnDryRun"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--include-namespace", "default"), "--include-namespace default: not an exempt namespace"),
        (("--failure-policy", "fail"), "must be Fail, Ignore, POLICY=Fail"),
        (("--url", "http://10.0.0.5"), "must have the form https://HOST"),
        (("--url", "https://user@10.0.0.5"), "must have the form https://HOST"),
        (("--url", "https://10.0.0.5:port"), "must have the form https://HOST"),
        (("--reached-by", "url"), "--reached-by url requires --url"),
        (
            ("--reached-by", "localhost", "--url", "https://10.0.0.5"),
            "--reached-by localhost and --url are mutually exclusive",
        ),
        (("--cluster-version", "new"), "'new' is not a version"),
        (("--ca-bundle", "nothing.pem"), "nothing.pem: no such file"),
        (("--ca-bundle", "certs/tls.pem"), "is not a CA certificate"),
        (("--ca-bundle", "mine.py"), "not a certificate in PEM form"),
        (("--ca-bundle", "certs/ca.pem", "--no-ca-bundle"), "are mutually exclusive"),
        (("--check", "--kubeconfig", "none.yaml"), "none.yaml: no such file"),
        (("--check",), "no access to a cluster"),
        (("--config", "webhooks.yaml"), "--config and --policies are mutually exclusive"),
    ],
)
def test_invalid_options(folder: Path, options: tuple[object, ...], message: str) -> None:
    file = write_policy(folder, 'validating("pods")')
    assert message in error_of("--policies", file, *options)
    assert not (folder / "out").exists()


def test_policies_are_required() -> None:
    assert "No policies: give --config, --policies or --admission-config." in error_of()


def test_the_default_bundle_must_exist(folder: Path) -> None:
    (folder / "certs" / "ca.pem").unlink()
    assert "certs/ca.pem: no such file. API servers need the CA" in error_of("--policies", "mine.py")


@pytest.mark.parametrize("text", ["v1.28", "1.28.3", "v1.28.0-rc.1"])
def test_spellings_of_versions(text: str, folder: Path) -> None:
    file = write_policy(folder, 'validating("*/*")')
    [webhook] = load_webhooks("--policies", file, "--cluster-version", text).values()
    assert [condition["name"] for condition in webhook["matchConditions"]] == ["not-cluster-startup"]


def test_an_included_namespace(folder: Path) -> None:
    file = write_policy(folder, 'validating("pods", namespaces=["kube-system"])')
    options = ("--include-namespace", "kube-system", "--failure-policy", "Ignore")
    [webhook] = load_webhooks("--policies", file, *options).values()
    assert webhook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--name", "other"), "give --name mine, or --ca-bundle"),
        (("--name", "mine", "--reached-by", "localhost", "--static"), "--static: no program sets caBundle in files"),
        (("--name", "mine", "--reached-by", "localhost"), "not in the files of API servers"),
    ],
)
def test_api_servers_must_trust_a_certificate(folder: Path, options: tuple[str, ...], message: str) -> None:
    policy = "" if "--static" in options else ", {use: others.py:known}"
    write_configuration(
        folder, f"server: {{syncCaBundle: mine}}\npolicies: [{{use: library:required_labels}}{policy}]\n"
    )
    assert message in error_of("--config", "webhooks.yaml", *options)
    options = ("--reached-by", "localhost", *options, "--ca-bundle", "certs/ca.pem")
    result = run("--config", "webhooks.yaml", *options)
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("options", "exempt"),
    [
        ((), ["kube-node-lease", "kube-public", "kube-system", "webhooks"]),
        (("--reached-by", "localhost"), ["kube-node-lease", "kube-public", "kube-system"]),
        (
            ("--exempt-namespace", "calico-system"),
            ["calico-system", "kube-node-lease", "kube-public", "kube-system", "webhooks"],
        ),
    ],
)
def test_exempt_namespaces(options: tuple[str, ...], exempt: list[str]) -> None:
    [webhook] = load_webhooks("--policies", "library:required_labels", *options).values()
    assert webhook["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}
    ]


def test_service_accounts_of_the_network_are_exempt(folder: Path) -> None:
    options = ("--exempt-namespace", "calico-system", "--reached-by", "localhost")
    text = run("--policies", write_policy(folder, 'validating("*/*")'), *options).stdout
    assert "'system:serviceaccounts:calico-system'" in text
    assert run("--policies", "others.py", *options, "-o", "out").exit_code == 0
    assert "'system:serviceaccounts:calico-system'" in (folder / "out/apiserver/authorization.yaml").read_text()


def test_exempt_namespaces_that_a_policy_lists_are_reported(folder: Path) -> None:
    file = write_policy(folder, 'validating("pods", namespaces=["kube-system", "a"])')
    result = run("--policies", file, "--only", "webhook-configurations")
    line = "Policy 'one' is not called for namespaces that are exempt: kube-system."
    assert result.stderr == f"webhooks: {line}\n"
    assert f"# {line}\n" in result.stdout
    assert run("--policies", file, "--only", "server").stderr == ""


def test_output_of_policies_is_not_part_of_the_manifests(folder: Path) -> None:
    file = write_policy(folder, 'validating("pods")')
    file.write_text(f"print('key: [')\n{file.read_text()}")
    result = run("--policies", file)
    assert result.exit_code == 0
    assert result.stderr == "key: [\n"
    assert len(list(yaml.safe_load_all(result.stdout))) == 8


def test_files_that_are_not_objects_are_not_printed() -> None:
    result = run("--policies", "others.py", "--reached-by", "localhost")
    assert result.stdout == ""
    assert "webhooks: apiserver/flags is not an object of the cluster: give -o DIR to write it\n" in result.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.removesuffix("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("kind: Namespace\n", "kind: Namespace\f\n"),
    ],
    ids=["no line break at the end", "other line breaks", "a form feed"],
)
def test_check_finds_differences_of_one_character(folder: Path, change: Callable[[str], str]) -> None:
    arguments = ("--policies", "mine.py", "-o", "out")
    run(*arguments)
    file = folder / "out" / "1-namespace.yaml"
    file.write_bytes(change(file.read_text()).encode())
    result = run(*arguments, "--check")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"--- {file.relative_to(folder)}")


def test_check_of_a_folder(folder: Path) -> None:
    arguments = ("--policies", "mine.py", "-o", "out")
    assert run(*arguments).stdout.splitlines() == [
        f"wrote out/{name}" for name in ("1-namespace.yaml", "2-server.yaml", "3-webhook-configurations.yaml")
    ]
    contents = {path: path.read_bytes() for path in folder.joinpath("out").iterdir()}
    assert run(*arguments).exit_code == 0
    assert {path: path.read_bytes() for path in folder.joinpath("out").iterdir()} == contents
    result = run(*arguments, "--check")
    assert (result.exit_code, result.stdout) == (0, "")
    result = run(*arguments, "--check", "--replicas", 3)
    assert result.exit_code == 1
    assert "-  replicas: 2\n+  replicas: 3\n" in result.stdout
    (folder / "out" / "2-server.yaml").unlink()
    for name in ("4-mine.yaml", "a.yml", "b.json", "c.txt"):
        (folder / "out" / name).touch()
    assert run(*arguments, "--check").stdout.splitlines() == [
        "out/2-server.yaml: missing",
        *(f"out/{name}: not expected" for name in ("4-mine.yaml", "a.yml", "b.json")),
    ]


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "1-namespace.yaml").mkdir()
    assert "out/1-namespace.yaml: cannot be written: Is a directory" in error_of("--policies", "mine.py", "-o", "out")


def test_the_server_has_the_files_of_its_configuration(folder: Path) -> None:
    (folder / "clients.pem").write_bytes((folder / "certs" / "ca.pem").read_bytes())
    (folder / "policies").mkdir()
    (folder / "policies" / "mine.py").write_text(ADMISSION_POLICIES)
    configuration = write_configuration(
        folder,
        "server: {clientCa: clients.pem, workers: 2, shutdownDelay: 20s, tokenFile: tokens.csv}\n"
        "policies: [{use: policies/mine.py:named}, {use: library:required_labels}]\n",
    )
    objects = load_objects("--config", "webhooks.yaml", "--only", "server")
    config_maps = {
        object_["metadata"]["name"]: object_["data"] for object_ in objects if object_["kind"] == "ConfigMap"
    }
    assert config_maps["webhooks-configuration"]["webhooks.yaml"] == configuration
    assert config_maps["webhooks-policies"] == {"mine.py": ADMISSION_POLICIES}
    [deployment] = [object_ for object_ in objects if object_["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == [
        "serve",
        "--config=/etc/webhooks/webhooks.yaml",
        "--client-ca=/etc/webhooks/client-ca.crt",
        "--token-file=/etc/webhooks/tokens/tokens.csv",
        "--host=0.0.0.0",
        "--port=8443",
        "--ops-port=8080",
        "--tls-cert=/etc/webhooks/tls/tls.crt",
        "--tls-key=/etc/webhooks/tls/tls.key",
    ]
    assert pod["terminationGracePeriodSeconds"] == 75


@pytest.mark.parametrize("server", ["{}", "{syncCaBundle: webhooks}"])
def test_the_command_for_the_secret_uses_the_issued_files(folder: Path, server: str) -> None:
    write_configuration(folder, f"server: {server}\npolicies: [{{use: mine.py}}]\n")
    assert run("--config", "webhooks.yaml", "--only", "server", "-o", "out").exit_code == 0
    lines = (folder / "out" / "2-server.yaml").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("# kubectl "))
    command = " ".join(line.removeprefix("# ").removesuffix("\\") for line in lines[start : start + 2]).split()
    assert command[:7] == ["kubectl", "-n", "webhooks", "create", "secret", "generic", "webhooks-tls"]
    files = dict(argument.removeprefix("--from-file=").split("=") for argument in command[7:])
    assert [file for file in files.values() if not Path(file).is_file()] == []
    [deployment] = [object_ for object_ in yaml.safe_load_all("\n".join(lines)) if object_["kind"] == "Deployment"]
    [volume, _] = deployment["spec"]["template"]["spec"]["volumes"]
    [secret] = [source["secret"] for source in volume["projected"]["sources"] if "secret" in source]
    assert {item["key"] for item in secret["items"]} <= files.keys()


def test_the_server_may_patch_its_webhook_configurations(folder: Path) -> None:
    write_configuration(folder, "server: {syncCaBundle: mine}\npolicies: [{use: library:required_labels}]\n")
    objects = load_objects("--config", "webhooks.yaml", "--name", "mine")
    [role] = [object_ for object_ in objects if object_["kind"] == "ClusterRole"]
    assert role["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "resourceNames": ["mine"],
            "verbs": ["get", "patch"],
        }
    ]
    assert "caBundle" not in objects[-1]["webhooks"][0]["clientConfig"]
    for object_ in objects:
        kubernetes_validate.validate(object_, "1.37", strict=True)


def test_files_for_flags(folder: Path) -> None:
    arguments = ("--policies", "others.py", "--policies", "mine.py", "--reached-by", "localhost", "-o", "out")
    assert run(*arguments).exit_code == 0
    files = folder / "out" / "apiserver"
    assert sorted(path.name for path in files.iterdir()) == [
        *("admission.yaml", "authenticate.yaml", "authorization.yaml", "authorize.yaml"),
        *("ca.pem", "flags", "images.yaml"),
    ]
    assert not (folder / "out" / "2-server.yaml").exists()
    assert (
        (files / "flags").read_text().startswith("--authorization-config=/etc/kubernetes/webhooks/authorization.yaml\n")
    )


def test_static_webhook_configurations(folder: Path) -> None:
    assert run("--policies", "mine.py", "--reached-by", "localhost", "--static", "-o", "out").exit_code == 0
    files = folder / "out" / "apiserver"
    admission = yaml.safe_load((files / "admission.yaml").read_text())
    folders = {plugin["name"]: plugin["configuration"]["staticManifestsDir"] for plugin in admission["plugins"]}
    assert folders == {
        "MutatingAdmissionWebhook": "/etc/kubernetes/webhooks/mutating",
        "ValidatingAdmissionWebhook": "/etc/kubernetes/webhooks/validating",
    }
    static = yaml.safe_load((files / "validating" / "webhooks.yaml").read_text())
    assert static["metadata"]["name"] == "webhooks.static.k8s.io"
    assert static["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:8443/admission/validate"
    kubernetes_validate.validate(static, "1.36", strict=True)
    assert not (folder / "out" / "3-webhook-configurations.yaml").exists()


def test_plugins_have_their_policies_and_files(folder: Path) -> None:
    (folder / "limits.yaml").write_text(
        "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"
        "limits: [{type: Namespace, qps: 5, burst: 10}]\n"
    )
    (folder / "plugins.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
        "plugins: [{name: EventRateLimit, path: limits.yaml}]\n"
    )
    arguments = ("--admission-config", "plugins.yaml", "--policies", "mine.py")
    objects = load_objects(*arguments, "--failure-policy", "event_rate_limit=Ignore")
    [files] = [object_["data"] for object_ in objects if object_["metadata"]["name"] == "webhooks-configuration"]
    assert files == {
        "admission.yaml": (folder / "plugins.yaml").read_text(),
        "limits.yaml": (folder / "limits.yaml").read_text(),
    }
    webhooks = {webhook["name"]: webhook for webhook in objects[-1]["webhooks"]}
    events = webhooks["event-rate-limit.validate.webhooks.svc.io"]
    assert (events["failurePolicy"], events["sideEffects"]) == ("Ignore", "NoneOnDryRun")
    assert {group: rule["resources"] for rule in events["rules"] for group in rule["apiGroups"]} == {
        "": ["events"],
        "events.k8s.io": ["events"],
        "events.svc.io": ["events"],
    }
