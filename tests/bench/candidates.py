"""The servers that are measured: ours with several sets of policies, and the peers."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from tests.bench.servers import Candidate, NotHereError, Place

HERE = Path(__file__).parent
POLICIES = HERE / "policies"
OTHERS = 199
MOST = 2**31 - 1
NGINX = """\
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
    location / {{ return 200 '{answer}'; }}
  }}
}}
"""
# Of the length of a real answer.
ANSWER = (
    '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002"'
    ',"allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy9hZG1pc3Npb24uZXh'
    'hbXBsZS5jb21+MWNoZWNrZWQiLCJ2YWx1ZSI6InRydWUifV0="}}'
)


def _serve(place: Place, *options: str | Path, decision_log: str = "off") -> list[str]:
    command = [sys.executable, "-m", "webhooks", "serve", *map(str, options), "--host", "127.0.0.1"]
    command += ["--port", str(place.port), "--ops-port", "0", "--shutdown-delay", "0"]
    command += ["--decision-log", decision_log]  # the peers have none
    return [*command, "--tls-cert", str(place.certificate), "--tls-key", str(place.key)]


def _many(place: Place) -> list[str]:
    """One policy that matches among others of the same kind of review, for other resources and operations."""
    resources = ["configmaps", "secrets", "services", "apps/statefulsets", "batch/jobs"]
    source = [(POLICIES / "allowing.py").read_text()]
    for i in range(OTHERS):
        same = '"pods", "apps/deployments", operations=["DELETE"]'
        wanted = same if i % 2 else f'"{resources[i // 2 % 5]}"'
        source.append(
            f"\n\n@mutating({wanted})\ndef other_{i}(review: AdmissionReview) -> Allow:\n    return Allow()\n"
        )
    policies = place.folder / "many.py"
    policies.write_text("".join(source))
    return _serve(place, "--policies", policies)


def _limiting(place: Place, backend: Mapping[str, object]) -> list[str]:
    """One limit, which is never reached."""
    limits = [{"type": "Namespace", "qps": MOST, "burst": MOST}]
    kind = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    plugin = {"name": "EventRateLimit", "configuration": kind | {"limits": limits} | backend}
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    configuration = place.folder / "admission.json"
    configuration.write_text(json.dumps(kind | {"plugins": [plugin]}))
    return _serve(place, "--admission-config", configuration)


def _python(script: str, *needs: str) -> list[str]:
    missing = [module for module in needs if find_spec(module) is None]
    if missing:
        raise NotHereError(f"not installed: {', '.join(missing)}")
    return [sys.executable, str(HERE / "peers" / script)]


def _go(place: Place) -> list[str]:
    if shutil.which("go") is None:
        raise NotHereError("no Go toolchain")
    binary = place.folder / "typed"
    command = ["go", "build", "-buildvcs=false", "-o", str(binary), "."]
    built = subprocess.run(
        command,
        cwd=HERE / "go" / "typed",
        env=os.environ | {"CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
    )
    if built.returncode:
        raise NotHereError(f"go build failed: {built.stderr.strip()[-500:]}")
    return [str(binary), *place.arguments]


def _nginx(place: Place) -> list[str]:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if nginx is None:
        raise NotHereError("no nginx")
    configuration = place.folder / "nginx.conf"
    configuration.write_text(
        NGINX.format(folder=place.folder, port=place.port, certificate=place.certificate, key=place.key, answer=ANSWER)
    )
    return [nginx, "-p", str(place.folder), "-c", str(configuration)]


def _peer(script: str, *needs: str) -> Callable[[Place], list[str]]:
    return lambda place: [*_python(script, *needs), *place.arguments]


def _ours(policies: str) -> Callable[[Place], list[str]]:
    return lambda place: _serve(place, "--policies", POLICIES / policies)


def limiting(name: str, url: str = "") -> Candidate:
    """The server that limits events by budgets in memory, or in the store at that URL."""
    backend: Mapping[str, object] = {"backend": "redis", "redis": {"url": url, "timeout": "1s"}} if url else {}
    title = f"events, {name.removeprefix('events-')}"
    return Candidate(name, title, VALIDATE, lambda place: _limiting(place, backend), "allow", denies=False)


MUTATE, VALIDATE = "/admission/mutate", "/admission/validate"
NGINX_LIMIT = Candidate("nginx", "nginx, static answer", "/", _nginx, "answer", denies=False)
CEILING = Candidate("ceiling", "bare ceiling", "/admit", _peer("ceiling.py", "uvicorn", "uvloop", "httptools"))
GO = Candidate("go", "plain Go", "/admit", _go)
KOPF = Candidate("kopf", "kopf", "/admit", _peer("kopf_server.py", "kopf", "uvloop"))
OURS = Candidate("webhooks", "webhooks", MUTATE, _ours("pair.py"))
REPLACING = Candidate("replacing", "webhooks, by Replace", MUTATE, _ours("replacing.py"))
CHECKING = Candidate("checking", "webhooks, validating alone", VALIDATE, _ours("checking.py"), "allow")
ALLOWING = Candidate("allowing", "webhooks, one that allows", MUTATE, _ours("allowing.py"), "allow", denies=False)
LOGGING = Candidate(
    "logging",
    "webhooks, one that allows, logged",
    MUTATE,
    lambda place: _serve(place, "--policies", POLICIES / "allowing.py", decision_log="all"),
    "allow",
    denies=False,
)
MANY = Candidate("many", "webhooks, one of 200", MUTATE, _many, "allow", denies=False)
ONE_FIELD = Candidate("one-field", "webhooks, one field", f"{MUTATE}/patch", _ours("one_field.py"), denies=False)

PEERS = [NGINX_LIMIT, CEILING, GO, KOPF]
EXTRAS = [REPLACING, CHECKING, ALLOWING, LOGGING, MANY]
EVENTS = IN_MEMORY, IN_REDIS, IN_REDIS_BY_SOCKET = "events-memory", "events-redis", "events-redis-socket"
