"""Events are limited as by the API server's own plugin, and clients that send too many see why."""

import base64
import random
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from .api import Api, Reply
from .cluster import Cluster
from .kubectl import Json
from .objects import make_object, object_list
from .processes import free_ports, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "rate-limits.md"
CONFIGURATIONS_PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CORE, GROUP, OLD_GROUP = "/api/v1", "/apis/events.k8s.io/v1", "/apis/events.k8s.io/v1beta1"

DENIED = 'admission webhook "events.webhooks.svc.io" denied the request: '
LIMIT_REACHED = "Too many requests: limit reached on type Namespace for key {}"
BURST = 3
TOKEN_SECONDS = 1  # the time to the next token: within it only the burst is allowed

LIMITS = {
    "Server": {"qps": 1, "burst": 90},
    "Namespace": {"qps": 1, "burst": 12, "cacheSize": 3},
    "User": {"qps": 1, "burst": 10, "cacheSize": 3},
    "SourceAndObject": {"qps": 1, "burst": 3, "cacheSize": 7},
}
COUNTS = NAMESPACES, USERS, SOURCES = 5, 6, 6
COUNT, SEED = 150, 39  # a series with all cases
ATTEMPTS = 3

Responses = list[tuple[int, str]]


def configuration(folder: Path, *limits: Json) -> Path:
    """Write the configuration, which is the same for both implementations."""
    plugin = {
        "name": "EventRateLimit",
        "configuration": {
            "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
            "kind": "Configuration",
            "limits": limits,
        },
    }
    file = folder / "admission.yaml"
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(yaml.safe_dump(kind | {"plugins": [plugin]}))
    return file


def webhook_configuration(name: str, url: str, ca: Path) -> Json:
    """Return the webhook configuration of the page for other namespaces, with failure policy Fail."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [tree] = [tree for tree in map(yaml.safe_load, blocks) if tree["kind"] == "ValidatingWebhookConfiguration"]
    tree["metadata"]["name"] = name
    [webhook] = tree["webhooks"]
    path = webhook["clientConfig"]["service"]["path"]
    webhook["clientConfig"] = {"url": url + path, "caBundle": base64.b64encode(ca.read_bytes()).decode()}
    webhook["namespaceSelector"] = {"matchLabels": {"limits": name}}
    webhook["failurePolicy"] = "Fail"
    return tree


def start_limiting_server(cluster: Cluster, api: Api, name: str, admission: Path) -> None:
    """Start a webhook server that limits the events of a new namespace, and of all with the same label."""
    [port] = free_ports(1)
    namespace(api, name, name)
    api.create(CONFIGURATIONS_PATH, webhook_configuration(name, f"https://127.0.0.1:{port}", cluster.ca))
    # An error shows that the webhook is called, since its server is not running. A dry run takes no token.
    dry_run = f"{CORE}/namespaces/{name}/events?dryRun=All"
    wait_for("the webhook is called for events", lambda: api.request("POST", dry_run, event("any", name)).code == 500)
    cluster.serve(f"webhooks-{name}", port, "--admission-config", admission, "--ops-port", 0)


def namespace(api: Api, name: str, limits: str) -> str:
    api.create(f"{CORE}/namespaces", make_object("v1", "Namespace", name, None, labels={"limits": limits}))
    return name


def event(name: str, namespace: str, source: int = 0) -> Json:
    """Return an event of the core group."""
    return make_object(
        "v1",
        "Event",
        name,
        namespace,
        source=component(source),
        involvedObject=pod(namespace, source),
        reason="Started",
        message="Started it",
        type="Normal",
    )


def group_event(name: str, namespace: str) -> Json:
    """Return an event of the group events.k8s.io."""
    return make_object(
        "events.k8s.io/v1",
        "Event",
        name,
        namespace,
        reportingController="example.com/controller",
        reportingInstance="controller-1",
        regarding=pod(namespace, 0),
        eventTime="2026-01-02T03:04:05.000006Z",
        action="Start",
        reason="Started",
        note="Started it",
        type="Normal",
    )


def component(source: int) -> Json:
    return {"component": f"component-{source}", "host": "node-1"}


def pod(namespace: str, source: int) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": f"pod-{source}"}


# Both groups share the same storage.
GROUPS: dict[str, tuple[str, Callable[[str, str], Json]]] = {"core": (CORE, event), "group": (GROUP, group_event)}


# Clients that send events.


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A connection of the administrator; each namespace with the label allows a burst and one event per second."""
    limit = {"type": "Namespace", "qps": 1, "burst": BURST}
    with cluster.api() as api:
        start_limiting_server(cluster, api, "limited", configuration(tmp_path_factory.mktemp("limited"), limit))
        yield api


@pytest.mark.parametrize("group_name", GROUPS)
def test_a_burst_is_limited(api: Api, group_name: str) -> None:
    group, make = GROUPS[group_name]
    name = namespace(api, f"burst-{group_name}", "limited")
    path = f"{group}/namespaces/{name}/events"
    *created, rejected = (api.request("POST", path, make(f"event-{number}", name)) for number in range(BURST + 1))
    assert [reply.code for reply in created] == [201] * BURST
    assert (rejected.code, rejected.headers["Retry-After"]) == (429, "1")
    assert rejected.object["reason"] == "TooManyRequests"
    assert rejected.object["message"] == DENIED + LIMIT_REACHED.format(name)
    assert rejected.object["details"] == {"retryAfterSeconds": 1}
    assert api.request("GET", f"{path}/event-{BURST}").code == 404


def test_a_dry_run_takes_no_token(api: Api) -> None:
    name = namespace(api, "dry-runs", "limited")
    path = f"{CORE}/namespaces/{name}/events"
    for number in range(BURST + 1):
        assert api.request("POST", f"{path}?dryRun=All", event(f"event-{number}", name)).code == 201
    codes = [api.request("POST", path, event(f"event-{number}", name)).code for number in range(BURST + 1)]
    assert codes == [201] * BURST + [429]
    assert api.request("POST", f"{path}?dryRun=All", event("another", name)).code == 201


@pytest.mark.parametrize("group_name", GROUPS)
def test_updates_of_a_series_count(api: Api, group_name: str) -> None:
    """Clients patch the event of a series."""
    group, make = GROUPS[group_name]
    name = namespace(api, f"series-{group_name}", "limited")
    api.create(f"{group}/namespaces/{name}/events", make("often", name))
    path = f"{group}/namespaces/{name}/events/often"
    patch = {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:05:06.000007Z"}}
    replies = [api.request("PATCH", path, patch) for _ in range(BURST)]
    assert [reply.code for reply in replies] == [200] * (BURST - 1) + [429]
    assert LIMIT_REACHED.format(name) in replies[-1].object["message"]


def test_kubectl_waits_for_retry_after(cluster: Cluster, api: Api) -> None:
    """Events beyond the burst are created later."""
    name = namespace(api, "kubectl", "limited")
    body = object_list(event(f"event-{number}", name) for number in range(BURST + 1))
    started = time.monotonic()
    output = cluster.admin("create", "-v=6", "-f", "-", body=body)
    assert time.monotonic() - started >= TOKEN_SECONDS
    assert output.out.splitlines() == [f"event/event-{number} created" for number in range(BURST + 1)]
    assert "429 Too Many Requests" in output.err
    assert "Got a Retry-After 1s response for attempt 1" in output.err


# The same series for both implementations.


class Step(NamedTuple):
    """A request about an event; namespaces, users and sources are numbers."""

    verb: str
    namespace: int
    user: int
    source: int


KEYS: dict[str, Callable[[Step], object]] = {
    "Server": lambda step: None,
    "Namespace": lambda step: step.namespace,
    "User": lambda step: step.user,
    "SourceAndObject": lambda step: (step.namespace, step.source),
}


def make_steps() -> Iterator[Step]:
    """Yield a series in which some namespaces, users and sources have many events, others few."""
    rng = random.Random(SEED)
    for _ in range(COUNT):
        [verb] = rng.choices(["create", "patch", "dry-run"], [8, 3, 1])
        places = (rng.choices(range(count), [0.6**place for place in range(count)]) for count in COUNTS)
        yield Step(verb, *(place for [place] in places))


STEPS = list(make_steps())
COUNTED_STEPS = [step for step in STEPS if step.verb != "dry-run"]


def simulate(limit: str) -> list[bool]:
    """Return which steps a limit allows, by a simple model, without dry runs."""
    burst, size = LIMITS[limit]["burst"], LIMITS[limit].get("cacheSize", 1)
    buckets: OrderedDict[object, int] = OrderedDict()
    allowed = []
    for step in COUNTED_STEPS:
        key = KEYS[limit](step)
        tokens = buckets.pop(key, burst)
        buckets[key] = max(tokens - 1, 0)
        allowed.append(tokens > 0)
        if len(buckets) > size:
            buckets.popitem(last=False)
    return allowed


def prepare(api: Api, prefix: str) -> None:
    """Create the namespaces and the events to patch, with a version that the API server's own plugin ignores."""
    for place in range(NAMESPACES):
        name = namespace(api, f"{prefix}-{place}", prefix)
        for source in range(SOURCES):
            source_fields = {"deprecatedSource": component(source), "regarding": pod(name, source)}
            body = make_object(
                "events.k8s.io/v1beta1", "Event", f"series-{source}", name, reason="Started", **source_fields
            )
            api.create(f"{OLD_GROUP}/namespaces/{name}/events", body)


def send(api: Api, prefix: str, step: Step, number: int) -> Reply:
    name = f"{prefix}-{step.namespace}"
    path, user = f"{CORE}/namespaces/{name}/events", f"user-{step.user}"
    if step.verb == "patch":
        return api.request("PATCH", f"{path}/series-{step.source}", {"count": number}, user=user)
    dry_run = "?dryRun=All" if step.verb == "dry-run" else ""
    return api.request("POST", path + dry_run, event(f"event-{number}", name, step.source), user=user)


def send_steps(start: Callable[[str], Api]) -> Responses:
    """Return the codes and error messages of all steps from full buckets; repeat them if they took too long."""
    for attempt in range(ATTEMPTS):
        prefix = f"series-{attempt}"
        with start(prefix) as api:
            started = time.monotonic()
            replies = [send(api, prefix, step, number) for number, step in enumerate(STEPS)]
            if time.monotonic() - started < TOKEN_SECONDS:
                return [(reply.code, limit_message(reply).replace(prefix, "series")) for reply in replies]
    pytest.fail(f"{COUNT} requests took more than {TOKEN_SECONDS} s, the time to the next token")


def limit_message(reply: Reply) -> str:
    """Return the error message. The API server's plugin formats the key of a source and object differently."""
    if reply.code < 400:
        return ""
    message = reply.object["message"].removeprefix(DENIED)
    return re.sub("(limit reached on type SourceAndObject for key ).*", r"\1", message)


@pytest.fixture(scope="module")
def ours(cluster: Cluster, admission: Path) -> Responses:
    def start(prefix: str) -> Api:
        api = cluster.api()
        prepare(api, prefix)
        start_limiting_server(cluster, api, prefix, admission)
        return api

    return send_steps(start)


@pytest.fixture(scope="module")
def theirs(cluster: Cluster, admission: Path) -> Responses:
    def start(prefix: str) -> Api:
        api = cluster.start_limiting_api_server(admission)
        prepare(api, prefix)
        return api

    return send_steps(start)


@pytest.fixture(scope="module")
def admission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    limits = ({"type": limit, **fields} for limit, fields in LIMITS.items())
    return configuration(tmp_path_factory.mktemp("series"), *limits)


@pytest.mark.parametrize("limit", LIMITS)
def test_both_decide_alike(ours: Responses, theirs: Responses, limit: str) -> None:
    """Each limit is compared separately: messages list all limits that were reached."""
    expected = simulate(limit)
    for responses in (ours, theirs):
        messages = [message for step, (_, message) in zip(STEPS, responses, strict=True) if step in COUNTED_STEPS]
        assert [f"reached on type {limit} for" not in message for message in messages] == expected
    allowed = Counter(KEYS[limit](step) for step in compress(COUNTED_STEPS, expected))
    assert (max(allowed.values()) > LIMITS[limit]["burst"]) == ("cacheSize" in LIMITS[limit])  # keys were evicted
    assert not all(expected)


def test_both_respond_alike(ours: Responses, theirs: Responses) -> None:
    assert ours == theirs
    assert {code for code, _ in ours} == {200, 201, 429}
    assert {message.count("reached") for _, message in ours} == set(range(len(LIMITS) + 1))
    assert {response for step, response in zip(STEPS, ours, strict=True) if step.verb == "dry-run"} == {(201, "")}
