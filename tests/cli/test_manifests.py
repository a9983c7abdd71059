"""``webhooks manifests``, as somebody meets it who types."""

import base64
from collections.abc import Callable
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner, Result

from webhooks.certificates import issue
from webhooks.cli.main import main

Json = dict

POLICIES = """
from webhooks import Allow, Deny, NoOpinion, Replace, authenticating, authorizing, image_policy, mutating, validating


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
OTHERS = """
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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where somebody types, who has a certificate and some policies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    issue(tmp_path / "certs", names=["webhooks.webhooks.svc"])
    (tmp_path / "mine.py").write_text(POLICIES)
    (tmp_path / "others.py").write_text(OTHERS)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["manifests", *map(str, arguments)], prog_name="webhooks")


def written(*arguments: object) -> list[Json]:
    ended = run(*arguments)
    assert ended.exit_code == 0, ended.stderr
    return list(yaml.safe_load_all(ended.stdout))


def webhooks(*arguments: object) -> dict[str, Json]:
    registrations = written("--only", "webhook-configurations", *arguments)
    return {webhook["name"]: webhook for each in registrations for webhook in each["webhooks"]}


def refused(*arguments: object) -> str:
    ended = run(*arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    return ended.stderr


def policy(folder: Path, decorator: str) -> Path:
    file = folder / "one.py"
    file.write_text(f"from webhooks import *\n\n@{decorator}\ndef one(review):\n    return Allow()\n")
    return file


@pytest.mark.parametrize("version", ["1.25", "1.28", "1.32", "1.37"])
def test_every_object_is_one_that_clusters_know(version: str) -> None:
    found = written("--policies", "mine.py", "--policies", "library:required_labels", "--cluster-version", version)
    kinds = [each["kind"] for each in found]
    assert kinds == [
        *("Namespace", "ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    ]
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)
    assert ("matchConditions" in found[-1]["webhooks"][0]) is (version != "1.25")


def test_what_follows_from_the_policies(folder: Path) -> None:
    found = webhooks("--policies", "mine.py")
    mutate, validate = found["mutate.webhooks.svc.io"], found["validate.webhooks.svc.io"]
    assert [(rule["apiGroups"], rule["resources"], rule["operations"]) for rule in mutate["rules"]] == [
        (["*"], ["pods"], ["CREATE"]),
        (["apps"], ["deployments"], ["CREATE", "UPDATE", "CONNECT"]),
    ]
    assert mutate["timeoutSeconds"] == 12  # 4 and 7 one after another, and the way back
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
    found = webhooks("--policies", "mine.py", "--per-policy")
    assert list(found) == [
        "defaults.mutate.webhooks.svc.io",
        "fronts.mutate.webhooks.svc.io",
        "named.validate.webhooks.svc.io",
    ]
    fronts = found["fronts.mutate.webhooks.svc.io"]
    assert fronts["objectSelector"] == {"matchLabels": {"tier": "front"}}
    assert fronts["clientConfig"]["service"]["path"] == "/admission/mutate/fronts"
    assert fronts["timeoutSeconds"] == 10


def test_policies_that_differ_in_what_a_failure_means_are_registered_apart() -> None:
    found = webhooks("--policies", "mine.py", "--failure-policy", "fronts=Ignore")
    assert {name: webhook["failurePolicy"] for name, webhook in found.items()} == {
        "defaults.mutate.webhooks.svc.io": "Fail",
        "fronts.mutate.webhooks.svc.io": "Ignore",
        "validate.webhooks.svc.io": "Fail",
    }


@pytest.mark.parametrize(("other", "apart"), [("v2/", False), ("", True), ("v1/", True)])
def test_policies_that_name_different_versions_are_registered_apart(folder: Path, other: str, apart: bool) -> None:
    """Else the API server would not convert requests for the one, since the other takes them as they are."""
    (folder / "versions.py").write_text(
        "from webhooks import *\n\n"
        '@validating("autoscaling/v2/horizontalpodautoscalers")\ndef one(review):\n    return Allow()\n\n'
        f'@validating("autoscaling/{other}horizontalpodautoscalers")\ndef other(review):\n    return Allow()\n'
    )
    found = list(webhooks("--policies", "versions.py"))
    together = ["validate.webhooks.svc.io"]
    assert found == (["one.validate.webhooks.svc.io", "other.validate.webhooks.svc.io"] if apart else together)


def test_who_does_not_deny_does_not_hinder(folder: Path) -> None:
    (folder / "webhooks.yaml").write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        "policies: [{use: library:required_labels, mode: audit}]\n"
    )
    [webhook] = webhooks("--config", "webhooks.yaml").values()
    assert webhook["failurePolicy"] == "Ignore"


def test_side_effects_follow_from_the_policies(folder: Path) -> None:
    file = policy(folder, 'validating("pods", side_effects="none_on_dry_run")')
    [webhook] = webhooks("--policies", file, "--policies", "library:required_labels").values()
    assert webhook["sideEffects"] == "NoneOnDryRun"


@pytest.mark.parametrize(
    ("decorator", "options", "says"),
    [
        ('validating("pods", side_effects="some")', (), "it has side effects on dry runs"),
        (
            'validating("pods")',
            ("--include-namespace", "kube-system"),
            "--include-namespace kube-system: with failurePolicy Fail no pod could start",
        ),
        ('validating("pods")', ("--include-namespace", "webhooks"), "and the server runs there"),
        (
            'validating("pods")',
            ("--include-namespace", "default"),
            "--include-namespace default: not an exempt namespace",
        ),
        ('validating("*/*")', ("--cluster-version", "1.27"), "no node becomes ready, and the server never starts"),
        ('validating("nodes")', ("--cluster-version", "1.27"), "no node becomes ready, and the server never starts"),
        (
            'validating("pods", namespaces=["kube-system"])',
            (),
            "it matches only exempt namespaces, so it would never be called: kube-system",
        ),
        (
            'validating("pods", timeout=15)',
            ("--timeout", 10),
            "--timeout 10: validate.webhooks.svc.io: its policies may take 15 s",
        ),
        ('validating("pods", timeout=30)', (), "API servers wait for at most 30 s"),
        ('validating("pods", name="_")', ("--per-policy",), "its webhook would have the invalid name"),
        ('validating("pods")', ("--failure-policy", "two=Ignore"), "there is no policy with this name"),
        ('validating("pods")', ("--failure-policy", "fail"), "must be Fail, Ignore, POLICY=Fail"),
        ('validating("pods")', ("--url", "http://10.0.0.5"), "must have the form https://HOST"),
        ('validating("pods")', ("--reached-by", "url"), "--reached-by url requires --url"),
        ('validating("pods")', ("--static",), "--static: webhook configurations in files cannot use a Service"),
        (
            'validating("pods")',
            ("--static", "--reached-by", "localhost", "--cluster-version", "1.35"),
            "requires Kubernetes 1.36 or later, not 1.35",
        ),
        ('validating("pods")', ("--cluster-version", "1.15"), "the oldest supported version is 1.19"),
        ('validating("pods")', ("--cluster-version", "new"), "'new' is not a version"),
        ('validating("pods")', ("--ca-bundle", "nothing.pem"), "nothing.pem: no such file"),
        ('validating("pods")', ("--ca-bundle", "certs/tls.pem"), "is not a CA certificate"),
        ('validating("pods")', ("--ca-bundle", "mine.py"), "not a certificate in PEM form"),
        ('validating("pods")', ("--ca-bundle", "certs/ca.pem", "--no-ca-bundle"), "are mutually exclusive"),
        ('validating("pods")', ("--check", "--kubeconfig", "none.yaml"), "none.yaml: no such file"),
        ('validating("pods")', ("--check",), "no access to a cluster"),
        ("authenticating", (), "give --url, or --reached-by localhost"),
        ('validating("crd.projectcalico.org/*")', ("--cluster-version", "1.27"), "no node becomes ready"),
        (
            'validating("pods")',
            ("--static", "--reached-by", "localhost", "--no-ca-bundle"),
            "would trust no certificate",
        ),
        (
            'validating("pods")',
            ("--include-namespace", "webhooks", "--reached-by", "localhost"),
            "--include-namespace webhooks: not an exempt namespace",
        ),
        (
            'validating("pods")',
            ("--exempt-namespace", "a", "--include-namespace", "a"),
            "--include-namespace a and --exempt-namespace a are mutually exclusive",
        ),
        (
            'validating("pods")',
            ("--exempt-namespace", "Bad Name!"),
            "--exempt-namespace 'Bad Name!': not a valid namespace",
        ),
        ('validating("pods")', ("--namespace", "a.b"), "--namespace 'a.b': not a valid namespace"),
        ('validating("pods")', ("--name", "My_Name"), "--name 'My_Name': not a valid name"),
        ('validating("pods")', ("--name", "a" * 64), "not a valid name"),
    ],
)
def test_refusals(folder: Path, decorator: str, options: tuple[object, ...], says: str) -> None:
    file = policy(folder, decorator)
    assert says in refused("--policies", file, *options)
    assert not (folder / "out").exists()


def test_everything_may_be_wanted_where_the_clusters_start_can_be_exempt(folder: Path) -> None:
    [webhook] = webhooks("--policies", policy(folder, 'validating("*/*")'), "--cluster-version", "1.28").values()
    assert [each["name"] for each in webhook["matchConditions"]] == ["not-cluster-startup"]
    [webhook] = webhooks(
        "--policies", folder / "one.py", "--cluster-version", "1.27", "--failure-policy", "Ignore"
    ).values()
    assert "matchConditions" not in webhook


def test_who_looks_at_nodes_only_when_they_go_does_not_hinder_the_start(folder: Path) -> None:
    file = policy(folder, 'validating("nodes", operations=["DELETE"])')
    [webhook] = webhooks("--policies", file, "--cluster-version", "1.27").values()
    assert webhook["failurePolicy"] == "Fail"


def test_a_covered_namespace_is_asked_about(folder: Path) -> None:
    file = policy(folder, 'validating("pods", namespaces=["kube-system"])')
    [webhook] = webhooks(
        "--policies", file, "--include-namespace", "kube-system", "--failure-policy", "Ignore"
    ).values()
    assert webhook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--name", "other"), "give --name mine, or --ca-bundle"),
        (("--name", "mine", "--reached-by", "localhost", "--static"), "--static: no program sets caBundle in files"),
        (("--name", "mine", "--reached-by", "localhost"), "not in the files of API servers"),
    ],
)
def test_who_would_trust_nobody_is_refused(folder: Path, options: tuple[str, ...], says: str) -> None:
    flagged = "" if "--static" in options else ", {use: others.py:known}"
    (folder / "webhooks.yaml").write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        f"server: {{syncCaBundle: mine}}\npolicies: [{{use: library:required_labels}}{flagged}]\n"
    )
    assert says in refused("--config", "webhooks.yaml", *options)
    trusted = run("--config", "webhooks.yaml", "--reached-by", "localhost", *options, "--ca-bundle", "certs/ca.pem")
    assert trusted.exit_code == 0, trusted.stderr


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
def test_which_namespaces_are_exempt(options: tuple[str, ...], exempt: list[str]) -> None:
    [webhook] = webhooks("--policies", "library:required_labels", *options).values()
    assert webhook["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}
    ]
    text = run("--only", "webhook-configurations", "--policies", "library:required_labels", *options).stdout
    comment = text.replace("\n# ", " ")
    assert f"Exempt namespaces: {', '.join(exempt)}. They run what a cluster needs to start" in comment


def test_the_networks_service_accounts_are_told_of_where_they_are_exempt(folder: Path) -> None:
    told = (
        "--policies",
        policy(folder, 'validating("*/*")'),
        "--exempt-namespace",
        "calico-system",
        "--reached-by",
        "localhost",
    )
    text = run(*told).stdout
    assert "Components of the cluster, and service accounts of calico-system, are exempt" in text
    assert "'system:serviceaccounts:calico-system'" in text
    written("--policies", "others.py", "--exempt-namespace", "calico-system", "--reached-by", "localhost")
    assert run("--policies", "others.py", *told[2:], "-o", "out").exit_code == 0
    assert "'system:serviceaccounts:calico-system'" in (folder / "out/apiserver/authorization.yaml").read_text()


def test_a_policy_that_names_an_exempt_namespace_beside_others_is_told_of(folder: Path) -> None:
    file = policy(folder, 'validating("pods", namespaces=["kube-system", "a"])')
    ended = run("--policies", file, "--only", "webhook-configurations")
    line = "Policy 'one' is not called for namespaces that are exempt: kube-system."
    assert ended.stderr == f"webhooks: {line}\n"
    assert f"# {line}\n" in ended.stdout
    assert run("--policies", file, "--only", "server").stderr == ""


def test_what_policies_print_is_none_of_what_is_written(folder: Path) -> None:
    file = policy(folder, 'validating("pods")')
    file.write_text(f"print('key: [')\n{file.read_text()}")
    ended = run("--policies", file)
    assert ended.exit_code == 0
    assert ended.stderr == "key: [\n"
    assert len(list(yaml.safe_load_all(ended.stdout))) == 8


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.removesuffix("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("kind: Namespace\n", "kind: Namespace\f\n"),
    ],
    ids=["the last line's end", "other line ends", "a form feed"],
)
def test_what_is_different_by_a_character_is_told(folder: Path, change: Callable[[str], str]) -> None:
    told = ("--policies", "mine.py", "-o", "out")
    run(*told)
    file = folder / "out" / "1-namespace.yaml"
    file.write_bytes(change(file.read_text()).encode())
    ended = run(*told, "--check")
    assert ended.exit_code == 1
    assert ended.stdout.startswith(f"--- {file.relative_to(folder)}")


def test_other_files_that_kubectl_applies_are_told(folder: Path) -> None:
    told = ("--policies", "mine.py", "-o", "out")
    run(*told)
    for name in ("a.yml", "b.json", "c.txt"):
        (folder / "out" / name).touch()
    assert run(*told, "--check").stdout.splitlines() == [f"out/{name}: not expected" for name in ("a.yml", "b.json")]


def test_the_same_is_written_every_time_and_compared(folder: Path) -> None:
    told = ("--policies", "mine.py", "-o", "out")
    assert run(*told).stdout.splitlines() == [
        f"wrote out/{name}" for name in ("1-namespace.yaml", "2-server.yaml", "3-webhook-configurations.yaml")
    ]
    before = {path: path.read_bytes() for path in folder.joinpath("out").iterdir()}
    assert run(*told).exit_code == 0
    assert {path: path.read_bytes() for path in folder.joinpath("out").iterdir()} == before
    same = run(*told, "--check")
    assert (same.exit_code, same.stdout) == (0, "")
    different = run(*told, "--check", "--replicas", 3)
    assert different.exit_code == 1
    assert "-  replicas: 2\n+  replicas: 3\n" in different.stdout
    (folder / "out" / "2-server.yaml").unlink()
    (folder / "out" / "4-mine.yaml").touch()
    missing = run(*told, "--check")
    assert missing.stdout.splitlines() == [
        "out/2-server.yaml: missing",
        "out/4-mine.yaml: not expected",
    ]


def test_the_server_is_told_what_it_is_told_here(folder: Path) -> None:
    (folder / "callers.pem").write_bytes((folder / "certs" / "ca.pem").read_bytes())
    (folder / "policies").mkdir()
    (folder / "policies" / "mine.py").write_text(POLICIES)
    configuration = (
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        "server: {clientCa: callers.pem, workers: 2, shutdownDelay: 20s, tokenFile: tokens.csv}\n"
        "policies: [{use: policies/mine.py:named}, {use: library:required_labels}]\n"
    )
    (folder / "webhooks.yaml").write_text(configuration)
    found = written("--config", "webhooks.yaml", "--only", "server")
    maps = {each["metadata"]["name"]: each["data"] for each in found if each["kind"] == "ConfigMap"}
    assert maps["webhooks-configuration"]["webhooks.yaml"] == configuration
    assert maps["webhooks-policies"] == {"mine.py": POLICIES}
    [deployment] = [each for each in found if each["kind"] == "Deployment"]
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
    items = [
        item["path"]
        for source in pod["volumes"][0]["projected"]["sources"]
        for kind in source.values()
        for item in kind["items"]
    ]
    assert items == [
        "client-ca.crt",
        "webhooks.yaml",
        "policies/mine.py",
        "tls/tls.crt",
        "tls/tls.key",
        "tokens/tokens.csv",
    ]
    assert pod["terminationGracePeriodSeconds"] == 75
    assert pod["automountServiceAccountToken"] is False
    assert "Role" not in {each["kind"] for each in found}


@pytest.mark.parametrize("server", ["{}", "{syncCaBundle: webhooks}"])
def test_the_secret_is_made_of_the_files_that_are_issued(folder: Path, server: str) -> None:
    (folder / "webhooks.yaml").write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        f"server: {server}\npolicies: [{{use: mine.py}}]\n"
    )
    assert run("--config", "webhooks.yaml", "--only", "server", "-o", "out").exit_code == 0
    lines = (folder / "out" / "2-server.yaml").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("# kubectl "))
    command = " ".join(line.removeprefix("# ").removesuffix("\\") for line in lines[start : start + 2]).split()
    assert command[:7] == ["kubectl", "-n", "webhooks", "create", "secret", "generic", "webhooks-tls"]
    files = dict(word.removeprefix("--from-file=").split("=") for word in command[7:])
    assert [file for file in files.values() if not Path(file).is_file()] == []
    [deployment] = [each for each in yaml.safe_load_all("\n".join(lines)) if each["kind"] == "Deployment"]
    [volume, _] = deployment["spec"]["template"]["spec"]["volumes"]
    [secret] = [source["secret"] for source in volume["projected"]["sources"] if "secret" in source]
    assert {item["key"] for item in secret["items"]} <= files.keys()


def test_rights_come_with_the_feature_that_needs_them(folder: Path) -> None:
    (folder / "webhooks.yaml").write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        "server: {syncCaBundle: mine}\npolicies: [{use: library:required_labels}]\n"
    )
    found = written("--config", "webhooks.yaml", "--name", "mine")
    [role] = [each for each in found if each["kind"] == "ClusterRole"]
    assert role["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "resourceNames": ["mine"],
            "verbs": ["get", "patch"],
        }
    ]
    assert "caBundle" not in found[-1]["webhooks"][0]["clientConfig"]
    for each in found:
        kubernetes_validate.validate(each, "1.37", strict=True)


def test_files_for_flags(folder: Path) -> None:
    told = ("--policies", "others.py", "--policies", "mine.py", "--reached-by", "localhost", "-o", "out")
    assert run(*told).exit_code == 0
    files = folder / "out" / "apiserver"
    assert sorted(path.name for path in files.iterdir()) == [
        *(
            "admission.yaml",
            "authenticate.yaml",
            "authorization.yaml",
            "authorize.yaml",
            "ca.pem",
            "flags",
            "images.yaml",
        )
    ]
    assert not (folder / "out" / "2-server.yaml").exists()
    assert (files / "flags").read_text().splitlines() == [
        "--authorization-config=/etc/kubernetes/webhooks/authorization.yaml",
        "--authentication-token-webhook-version=v1",
        "--authentication-token-webhook-config-file=/etc/kubernetes/webhooks/authenticate.yaml",
        "--admission-control-config-file=/etc/kubernetes/webhooks/admission.yaml",
        "--enable-admission-plugins=ImagePolicyWebhook",
    ]
    authorization = yaml.safe_load((files / "authorization.yaml").read_text())
    assert authorization["apiVersion"] == "apiserver.config.k8s.io/v1"
    assert [each["type"] for each in authorization["authorizers"]] == ["Node", "Webhook", "RBAC"]
    webhook = authorization["authorizers"][1]["webhook"]
    assert webhook["failurePolicy"] == "Deny"
    assert webhook["connectionInfo"]["kubeConfigFile"] == "/etc/kubernetes/webhooks/authorize.yaml"
    assert webhook["matchConditions"][1]["expression"] == (
        "has(request.resourceAttributes) && request.resourceAttributes.group == '' && "
        "request.resourceAttributes.resource == 'secrets' && request.resourceAttributes.subresource == '' && "
        "(request.resourceAttributes.verb in ['get', 'list']) && (request.resourceAttributes.namespace == 'vault')"
    )


@pytest.mark.parametrize(("version", "says"), [("1.29", None), ("1.31", "v1beta1"), ("1.32", "v1")])
def test_authorization_of_older_clusters(folder: Path, version: str, says: str | None) -> None:
    told = ("--policies", "others.py", "--reached-by", "localhost", "-o", "out", "--cluster-version", version)
    assert run(*told).exit_code == 0
    file = folder / "out" / "apiserver" / "authorization.yaml"
    flags = (file.parent / "flags").read_text()
    assert ("--authorization-mode=Node,Webhook,RBAC" in flags) is (says is None)
    assert file.exists() is (says is not None)
    if says is not None:
        assert yaml.safe_load(file.read_text())["apiVersion"] == f"apiserver.config.k8s.io/{says}"


def test_registrations_from_files(folder: Path) -> None:
    assert run("--policies", "mine.py", "--reached-by", "localhost", "--static", "-o", "out").exit_code == 0
    files = folder / "out" / "apiserver"
    admission = yaml.safe_load((files / "admission.yaml").read_text())
    folders = {each["name"]: each["configuration"]["staticManifestsDir"] for each in admission["plugins"]}
    assert folders == {
        "MutatingAdmissionWebhook": "/etc/kubernetes/webhooks/mutating",
        "ValidatingAdmissionWebhook": "/etc/kubernetes/webhooks/validating",
    }
    static = yaml.safe_load((files / "validating" / "webhooks.yaml").read_text())
    assert static["metadata"]["name"] == "webhooks.static.k8s.io"
    assert static["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:8443/admission/validate"
    kubernetes_validate.validate(static, "1.36", strict=True)
    assert not (folder / "out" / "3-webhook-configurations.yaml").exists()


def test_event_limits_come_along_with_their_files(folder: Path) -> None:
    (folder / "limits.yaml").write_text(
        "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"
        "limits: [{type: Namespace, qps: 5, burst: 10}]\n"
    )
    (folder / "plugins.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
        "plugins: [{name: EventRateLimit, path: limits.yaml}]\n"
    )
    told = (
        "--admission-config",
        "plugins.yaml",
        "--policies",
        "mine.py",
        "--failure-policy",
        "event_rate_limit=Ignore",
    )
    found = written(*told)
    [files] = [each["data"] for each in found if each["metadata"]["name"] == "webhooks-configuration"]
    assert files == {
        "admission.yaml": (folder / "plugins.yaml").read_text(),
        "limits.yaml": (folder / "limits.yaml").read_text(),
    }
    by_name = {each["name"]: each for each in found[-1]["webhooks"]}
    events = by_name["event-rate-limit.validate.webhooks.svc.io"]
    assert (events["failurePolicy"], events["sideEffects"]) == ("Ignore", "NoneOnDryRun")
    assert {group: rule["resources"] for rule in events["rules"] for group in rule["apiGroups"]} == {
        "": ["events"],
        "events.k8s.io": ["events"],
        "events.svc.io": ["events"],
    }
    (folder / "plugins.yaml").write_text((folder / "plugins.yaml").read_text().replace("limits.yaml", "../limits.yaml"))
    assert "limits.yaml" in refused("--admission-config", "plugins.yaml")


def test_files_that_have_no_place_in_a_cluster(folder: Path) -> None:
    (folder / "deploy").mkdir()
    (folder / "deploy" / "webhooks.yaml").write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\npolicies: [{use: ../mine.py}]\n"
    )
    told = ("--config", "deploy/webhooks.yaml", "--ca-bundle", "certs/ca.pem")
    assert "mine.py is not in the folder of this file or below it" in refused(*told)
    (folder / "big.py").write_text(POLICIES + "#" * 1024 * 1024)
    assert "larger than 1 MiB" in refused("--policies", "big.py")
    (folder / "other").mkdir()
    (folder / "other" / "mine.py").write_text(OTHERS)
    assert "another file would have the same path" in refused(
        "--policies", "mine.py", "--policies", "other/mine.py", "--url", "https://x"
    )
