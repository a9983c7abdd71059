"""Checks for every bundled policy."""

import ast
import sys
from pathlib import Path

import pytest

from webhooks.engine.dispatcher import Verdict
from webhooks.policy.loader import bundled_files, load
from webhooks.reviews import admission_codec, authorization, images
from webhooks.reviews.kinds import CODECS

from ..support.api_server import accept_admission, accept_authorization, accept_images
from ..support.builders import GROUPS, decide, encode_body, encode_response, recorded_bodies, with_api_version

PATHS = {
    admission_codec.CODEC: ("/mutate", "/validate"),
    authorization.CODEC: ("/authorize",),
    images.CODEC: ("/images",),
}

NOT_RECORDED = {  # policies that match none of the recorded requests
    "disallow_impersonation",
    "external_ips",
    "horizontal_pod_autoscaler",
    "pod_disruption_budget",
    "protect_namespaces",
    "service_types",
    "storage_class",
}

every_policy = pytest.mark.parametrize("path", bundled_files().values(), ids=bundled_files())


@every_policy
def test_the_policy_has_the_name_of_its_file(path: Path) -> None:
    assert [policy.name for policy in load([str(path)])] == [path.stem]


@every_policy
def test_it_imports_only_webhooks(path: Path, tmp_path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {str(name).partition(".")[0] for name in imported} <= {"webhooks", *sys.stdlib_module_names}
    assert not any(str(name).startswith("webhooks.") for name in imported)
    copied = tmp_path / path.name
    copied.write_bytes(path.read_bytes())
    assert len(load([str(copied)])) == 1


@every_policy
@pytest.mark.parametrize("group", GROUPS)
def test_recorded_requests_never_fail(path: Path, group: str) -> None:
    [policy] = load([str(path)])
    codec = CODECS[policy.kind]
    bodies = recorded_bodies(*PATHS[codec])
    matched = 0
    for body in (with_api_version(body, group) for body in bodies.values()):
        review = codec.decode(encode_body(body))
        if not (policy.match.matches_resource(review) and policy.match.matches(review)):
            continue
        matched += 1
        verdict: Verdict = decide(review, policy, inline=True)
        assert verdict.results[0].failure is None
        response = encode_response(policy.kind, review, verdict)
        if codec is admission_codec.CODEC:
            accept_admission(body, response, mutating=policy.kind == "mutating")
        elif codec is authorization.CODEC:
            accept_authorization(body, response)
        else:
            accept_images(body, response)
    assert (matched > 0) is (path.stem not in NOT_RECORDED)
