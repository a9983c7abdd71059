"""Events are limited by ours as by the API server's own plugin, and whoever sends too many of them learns why."""

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
from .objects import everything, thing
from .processes import free_ports, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "rate-limits.md"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CORE, GROUP, OLD_GROUP = "/api/v1", "/apis/events.k8s.io/v1", "/apis/events.k8s.io/v1beta1"

DENIED = 'admission webhook "events.webhooks.svc.io" denied the request: '
REFUSED = "Too many requests: limit reached on type Namespace for key {}"
BURST = 3
TOKEN_SECONDS = 1  # in which no token comes back: what is allowed is a matter of bursts alone

LIMITS = {
    "Server": {"qps": 1, "burst": 90},
    "Namespace": {"qps": 1, "burst": 12, "cacheSize": 3},
    "User": {"qps": 1, "burst": 10, "cacheSize": 3},
    "SourceAndObject": {"qps": 1, "burst": 3, "cacheSize": 7},
}
COUNTS = NAMESPACES, USERS, SOURCES = 5, 6, 6
COUNT, SEED = 150, 39  # a series in which whatever can happen does
ATTEMPTS = 3

Answers = list[tuple[int, str]]


def configuration(folder: Path, *limits: Json) -> Path:
    """The file for both: the API servers' own plugin is configured by the same kinds."""
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


def registration(name: str, url: str, authority: Path) -> Json:
    """As the page has it, but for who is asked about which namespaces, and that nothing passes unasked."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [found] = [tree for tree in map(yaml.safe_load, blocks) if tree["kind"] == "ValidatingWebhookConfiguration"]
    found["metadata"]["name"] = name
    [webhook] = found["webhooks"]
    path = webhook["clientConfig"]["service"]["path"]
    webhook["clientConfig"] = {"url": url + path, "caBundle": base64.b64encode(authority.read_bytes()).decode()}
    webhook["namespaceSelector"] = {"matchLabels": {"limits": name}}
    webhook["failurePolicy"] = "Fail"
    return found


def limit_by_ours(cluster: Cluster, api: Api, name: str, admission: Path) -> None:
    """Have the events of a namespace of that name, and of all with that label, limited by a server of ours."""
    [port] = free_ports(1)
    namespace(api, name, name)
    api.create(REGISTRATIONS, registration(name, f"https://127.0.0.1:{port}", cluster.authority))
    # Nobody answers yet, which tells that somebody would be asked; and a dry run would take nothing.
    dry_run = f"{CORE}/namespaces/{name}/events?dryRun=All"
    wait_for("events are asked about", lambda: api.ask("POST", dry_run, event("any", name)).code == 500)
    cluster.serve(f"webhooks-{name}", port, "--admission-config", admission, "--ops-port", 0)


def namespace(api: Api, name: str, limits: str) -> str:
    api.create(f"{CORE}/namespaces", thing("v1", "Namespace", name, None, labels={"limits": limits}))
    return name


def event(name: str, namespace: str, source: int = 0) -> Json:
    """An event of the core group."""
    return thing(
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
    """An event of the group of that name."""
    return thing(
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


# The core group and the one of that name are two doors to the same storage.
DOORS: dict[str, tuple[str, Callable[[str, str], Json]]] = {"core": (CORE, event), "group": (GROUP, group_event)}


# What somebody meets who sends events.


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The administrator, of whom each namespace with the label takes a burst of events, and one more each second."""
    limit = {"type": "Namespace", "qps": 1, "burst": BURST}
    with cluster.api() as api:
        limit_by_ours(cluster, api, "limited", configuration(tmp_path_factory.mktemp("limited"), limit))
        yield api


@pytest.mark.parametrize("door", DOORS)
def test_a_burst_of_a_client_is_cut(api: Api, door: str) -> None:
    group, make = DOORS[door]
    name = namespace(api, f"burst-{door}", "limited")
    path = f"{group}/namespaces/{name}/events"
    *created, refused = (api.ask("POST", path, make(f"event-{number}", name)) for number in range(BURST + 1))
    assert [reply.code for reply in created] == [201] * BURST
    assert (refused.code, refused.headers["Retry-After"]) == (429, "1")
    assert refused.object["reason"] == "TooManyRequests"
    assert refused.object["message"] == DENIED + REFUSED.format(name)
    assert refused.object["details"] == {"retryAfterSeconds": 1}
    assert api.ask("GET", f"{path}/event-{BURST}").code == 404


def test_a_dry_run_takes_nothing(api: Api) -> None:
    name = namespace(api, "dry-runs", "limited")
    path = f"{CORE}/namespaces/{name}/events"
    for number in range(BURST + 1):
        assert api.ask("POST", f"{path}?dryRun=All", event(f"event-{number}", name)).code == 201
    codes = [api.ask("POST", path, event(f"event-{number}", name)).code for number in range(BURST + 1)]
    assert codes == [201] * BURST + [429]
    assert api.ask("POST", f"{path}?dryRun=All", event("another", name)).code == 201


@pytest.mark.parametrize("door", DOORS)
def test_a_series_that_goes_on_counts(api: Api, door: str) -> None:
    """Reporters patch the event that they have written before."""
    group, make = DOORS[door]
    name = namespace(api, f"series-{door}", "limited")
    api.create(f"{group}/namespaces/{name}/events", make("often", name))
    path = f"{group}/namespaces/{name}/events/often"
    patch = {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:05:06.000007Z"}}
    replies = [api.ask("PATCH", path, patch) for _ in range(BURST)]
    assert [reply.code for reply in replies] == [200] * (BURST - 1) + [429]
    assert REFUSED.format(name) in replies[-1].object["message"]


def test_kubectl_waits_as_it_is_told(cluster: Cluster, api: Api) -> None:
    """What is too much for the burst comes as the limit lets it."""
    name = namespace(api, "kubectl", "limited")
    given = everything(event(f"event-{number}", name) for number in range(BURST + 1))
    started = time.monotonic()
    output = cluster.admin("create", "-v=6", "-f", "-", given=given)
    assert time.monotonic() - started >= TOKEN_SECONDS
    assert output.out.splitlines() == [f"event/event-{number} created" for number in range(BURST + 1)]
    assert "429 Too Many Requests" in output.err
    assert "Got a Retry-After 1s response for attempt 1" in output.err


# The same series, put to both.


class Step(NamedTuple):
    """One request about an event; where, by whom and of what are numbers."""

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


def some_steps() -> Iterator[Step]:
    """Some namespaces, users and sources send much, others little."""
    choose = random.Random(SEED)
    for _ in range(COUNT):
        [verb] = choose.choices(["create", "patch", "dry-run"], [8, 3, 1])
        places = (choose.choices(range(count), [0.6**place for place in range(count)]) for count in COUNTS)
        yield Step(verb, *(place for [place] in places))


STEPS = list(some_steps())
TAKING = [step for step in STEPS if step.verb != "dry-run"]


def counted(limit: str) -> list[bool]:
    """Which of the steps a limit allows, counted by hand; dry runs left out."""
    burst, size = LIMITS[limit]["burst"], LIMITS[limit].get("cacheSize", 1)
    left: OrderedDict[object, int] = OrderedDict()
    allowed = []
    for step in TAKING:
        key = KEYS[limit](step)
        tokens = left.pop(key, burst)
        left[key] = max(tokens - 1, 0)
        allowed.append(tokens > 0)
        if len(left) > size:
            left.popitem(last=False)
    return allowed


def prepare(api: Api, prefix: str) -> None:
    """Make the namespaces, and the events to patch: by a door that the API server's own plugin does not look at."""
    for place in range(NAMESPACES):
        name = namespace(api, f"{prefix}-{place}", prefix)
        for source in range(SOURCES):
            about = {"deprecatedSource": component(source), "regarding": pod(name, source)}
            given = thing("events.k8s.io/v1beta1", "Event", f"series-{source}", name, reason="Started", **about)
            api.create(f"{OLD_GROUP}/namespaces/{name}/events", given)


def send(api: Api, prefix: str, step: Step, number: int) -> Reply:
    name = f"{prefix}-{step.namespace}"
    path, user = f"{CORE}/namespaces/{name}/events", f"user-{step.user}"
    if step.verb == "patch":
        return api.ask("PATCH", f"{path}/series-{step.source}", {"count": number}, user=user)
    dry_run = "?dryRun=All" if step.verb == "dry-run" else ""
    return api.ask("POST", path + dry_run, event(f"event-{number}", name, step.source), user=user)


def answered(limited: Callable[[str], Api]) -> Answers:
    """The codes of all steps from full buckets, and what the refused are told; begun again where it took too long."""
    for attempt in range(ATTEMPTS):
        prefix = f"series-{attempt}"
        with limited(prefix) as api:
            started = time.monotonic()
            replies = [send(api, prefix, step, number) for number, step in enumerate(STEPS)]
            if time.monotonic() - started < TOKEN_SECONDS:
                return [(reply.code, told(reply).replace(prefix, "series")) for reply in replies]
    pytest.fail(f"{COUNT} requests took more than {TOKEN_SECONDS} s, in which a token comes back")


def told(reply: Reply) -> str:
    """What is said of the limits. Theirs writes the parts of a source and object with nothing between them."""
    if reply.code < 400:
        return ""
    message = reply.object["message"].removeprefix(DENIED)
    return re.sub("(limit reached on type SourceAndObject for key ).*", r"\1", message)


@pytest.fixture(scope="module")
def ours(cluster: Cluster, admission: Path) -> Answers:
    def limited(prefix: str) -> Api:
        api = cluster.api()
        prepare(api, prefix)
        limit_by_ours(cluster, api, prefix, admission)
        return api

    return answered(limited)


@pytest.fixture(scope="module")
def theirs(cluster: Cluster, admission: Path) -> Answers:
    def limited(prefix: str) -> Api:
        api = cluster.limited(admission)
        prepare(api, prefix)
        return api

    return answered(limited)


@pytest.fixture(scope="module")
def admission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    limits = ({"type": limit, **fields} for limit, fields in LIMITS.items())
    return configuration(tmp_path_factory.mktemp("series"), *limits)


@pytest.mark.parametrize("limit", LIMITS)
def test_both_decide_alike(ours: Answers, theirs: Answers, limit: str) -> None:
    """Each limit is seen by itself, since all are asked of every event and those that refuse it are named."""
    expected = counted(limit)
    for answers in (ours, theirs):
        messages = [message for step, (_, message) in zip(STEPS, answers, strict=True) if step in TAKING]
        assert [f"reached on type {limit} for" not in message for message in messages] == expected
    allowed = Counter(KEYS[limit](step) for step in compress(TAKING, expected))
    assert (max(allowed.values()) > LIMITS[limit]["burst"]) == ("cacheSize" in LIMITS[limit])  # some had to give way
    assert not all(expected)


def test_both_say_the_same(ours: Answers, theirs: Answers) -> None:
    assert ours == theirs
    assert {code for code, _ in ours} == {200, 201, 429}
    assert {message.count("reached") for _, message in ours} == set(range(len(LIMITS) + 1))
    assert {answer for step, answer in zip(STEPS, ours, strict=True) if step.verb == "dry-run"} == {(201, "")}
