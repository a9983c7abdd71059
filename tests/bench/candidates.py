"""The servers that are measured: cluster-webhooks with several sets of policies, and other servers."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from tests.bench.servers import Candidate, NotInstalledError, ServerSetup

HERE = Path(__file__).parent
POLICIES = HERE / "policies"
OTHER_POLICIES = 199
NEVER_REACHED = 2**31 - 1
NGINX_CONFIG = """\
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 120s; default_type application/json;
  client_body_buffer_size 256k; client_max_body_size 8m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    location / {{ return 200 '{response}'; }}
  }}
}}
"""
# As long as a real response.
STATIC_RESPONSE = (
    '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002"'
    ',"allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy9hZG1pc3Npb24uZXh'
    'hbXBsZS5jb21+MWNoZWNrZWQiLCJ2YWx1ZSI6InRydWUifV0="}}'
)


def _serve(setup: ServerSetup, *options: str | Path, decision_log: str = "off") -> list[str]:
    command = [sys.executable, "-m", "webhooks", "serve", *map(str, options), "--host", "127.0.0.1"]
    command += ["--port", str(setup.port), "--ops-port", "0", "--shutdown-delay", "0"]
    command += ["--decision-log", decision_log]  # the other servers write none
    return [*command, "--tls-cert", str(setup.certificate), "--tls-key", str(setup.key)]


def _serve_many(setup: ServerSetup) -> list[str]:
    """Serve one policy that matches, among others for other resources and operations."""
    resources = ["configmaps", "secrets", "services", "apps/statefulsets", "batch/jobs"]
    source = [(POLICIES / "allowing.py").read_text()]
    for i in range(OTHER_POLICIES):
        same_resources = '"pods", "apps/deployments", operations=["DELETE"]'
        rule = same_resources if i % 2 else f'"{resources[i // 2 % 5]}"'
        source.append(f"\n\n@mutating({rule})\ndef other_{i}(review: AdmissionReview) -> Allow:\n    return Allow()\n")
    policies = setup.folder / "many.py"
    policies.write_text("".join(source))
    return _serve(setup, "--policies", policies)


def _serve_event_limits(setup: ServerSetup, backend: Mapping[str, object]) -> list[str]:
    """Serve one event rate limit that is never reached."""
    limits = [{"type": "Namespace", "qps": NEVER_REACHED, "burst": NEVER_REACHED}]
    kind = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    plugin = {"name": "EventRateLimit", "configuration": kind | {"limits": limits} | backend}
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    configuration = setup.folder / "admission.json"
    configuration.write_text(json.dumps(kind | {"plugins": [plugin]}))
    return _serve(setup, "--admission-config", configuration)


def _python(script: str, *needs: str) -> list[str]:
    missing = [module for module in needs if find_spec(module) is None]
    if missing:
        raise NotInstalledError(f"not installed: {', '.join(missing)}")
    return [sys.executable, str(HERE / "peers" / script)]


def _go(setup: ServerSetup) -> list[str]:
    if shutil.which("go") is None:
        raise NotInstalledError("no Go toolchain")
    binary = setup.folder / "typed"
    command = ["go", "build", "-buildvcs=false", "-o", str(binary), "."]
    built = subprocess.run(
        command,
        cwd=HERE / "go" / "typed",
        env=os.environ | {"CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
    )
    if built.returncode:
        raise NotInstalledError(f"go build failed: {built.stderr.strip()[-500:]}")
    return [str(binary), *setup.arguments]


def _nginx(setup: ServerSetup) -> list[str]:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if nginx is None:
        raise NotInstalledError("no nginx")
    configuration = setup.folder / "nginx.conf"
    configuration.write_text(
        NGINX_CONFIG.format(
            folder=setup.folder, port=setup.port, certificate=setup.certificate, key=setup.key, response=STATIC_RESPONSE
        )
    )
    return [nginx, "-p", str(setup.folder), "-c", str(configuration)]


def _peer(script: str, *needs: str) -> Callable[[ServerSetup], list[str]]:
    return lambda setup: [*_python(script, *needs), *setup.arguments]


def _ours(policies: str) -> Callable[[ServerSetup], list[str]]:
    return lambda setup: _serve(setup, "--policies", POLICIES / policies)


def event_limits_candidate(name: str, url: str = "") -> Candidate:
    """Return the server that limits events, with its buckets in memory or in Redis at a URL."""
    backend: Mapping[str, object] = {"backend": "redis", "redis": {"url": url, "timeout": "1s"}} if url else {}
    title = f"events, buckets in {name.removeprefix('events-')}"
    return Candidate(name, title, VALIDATE, lambda setup: _serve_event_limits(setup, backend), "allow", denies=False)


MUTATE, VALIDATE = "/admission/mutate", "/admission/validate"
NGINX_LIMIT = Candidate("nginx", "nginx, static response", "/", _nginx, "any", denies=False)
CEILING = Candidate("ceiling", "bare ceiling", "/admit", _peer("ceiling.py", "uvicorn", "uvloop", "httptools"))
GO = Candidate("go", "plain Go", "/admit", _go)
KOPF = Candidate("kopf", "kopf", "/admit", _peer("kopf_server.py", "kopf", "uvloop"))
OURS = Candidate("webhooks", "cluster-webhooks", MUTATE, _ours("pair.py"))
REPLACING = Candidate("replacing", "... by Replace of the whole object", MUTATE, _ours("replacing.py"))
CHECKING = Candidate("checking", "... the validating rule only", VALIDATE, _ours("checking.py"), "allow")
ALLOWING = Candidate("allowing", "... a policy that allows", MUTATE, _ours("allowing.py"), "allow", denies=False)
LOGGING = Candidate(
    "logging",
    "... the same, with the decision log",
    MUTATE,
    lambda setup: _serve(setup, "--policies", POLICIES / "allowing.py", decision_log="all"),
    "allow",
    denies=False,
)
MANY = Candidate("many", "... one of 200 policies", MUTATE, _serve_many, "allow", denies=False)
ONE_FIELD = Candidate("one-field", "... one field", f"{MUTATE}/patch", _ours("one_field.py"), denies=False)

PEERS = [NGINX_LIMIT, CEILING, GO, KOPF]
EXTRAS = [REPLACING, CHECKING, ALLOWING, LOGGING, MANY]
EVENTS = IN_MEMORY, IN_REDIS, IN_REDIS_BY_SOCKET = "events-memory", "events-redis", "events-redis-socket"
