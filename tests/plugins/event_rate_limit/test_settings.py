import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhooks.config.strict_yaml import parse
from webhooks.errors import ConfigurationError
from webhooks.plugins.event_rate_limit import configure
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget
from webhooks.plugins.event_rate_limit.settings import RedisSettings, Settings
from webhooks.plugins.event_rate_limit.token_bucket import Limit
from webhooks.plugins.loader import PluginContext

from ...support.builders import GROUPS, AnyPolicy

FILE = Path("/etc/webhooks/limits.yaml")
SERVER = {"type": "Server", "qps": 5, "burst": 10}
Json = dict[str, Any]


def configuration(*limits: Any, **fields: Any) -> Json:
    """A configuration; `...` in place of a field's value leaves that field out."""
    tree = {
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
        "limits": list(limits) or [SERVER],
        **fields,
    }
    return {key: value for key, value in tree.items() if value is not ...}


def read(tree: Any) -> Settings:
    return parse(yaml.safe_dump(tree).encode(), FILE).read(Settings, FILE.parent)


def configured(tree: Any, workers: int = 1) -> AnyPolicy:
    [policy] = configure(parse(yaml.safe_dump(tree).encode(), FILE), PluginContext(workers))
    return policy


def findings(tree: Any, workers: int = 1) -> list[str]:
    """All that is wrong, without the places, in the order of the alphabet."""
    with pytest.raises(ConfigurationError) as error:
        configured(tree, workers)
    return sorted(line.split(": ", 1)[1] for line in str(error.value).split("\n"))


@pytest.mark.parametrize("group", GROUPS)
def test_every_spelling_of_the_group_is_read(group: str) -> None:
    tree = configuration(apiVersion=f"eventratelimit.admission.{group}/v1alpha1")
    assert [each.limit for each in read(tree).limits] == [Limit("Server", 5, 10, 1)]


LIMITS: dict[str, tuple[Json, Limit]] = {
    "of the server": (SERVER, Limit("Server", 5, 10, 1)),
    "as the specification writes it": ({**SERVER, "type": "server"}, Limit("Server", 5, 10, 1)),
    "a cache of the server": ({**SERVER, "cacheSize": 50}, Limit("Server", 5, 10, 1)),
    "a negative cache of the server": ({**SERVER, "cacheSize": -1}, Limit("Server", 5, 10, 1)),
    "of namespaces": ({"type": "Namespace", "qps": 1, "burst": 1}, Limit("Namespace", 1, 1, 4096)),
    "no cache": ({"type": "User", "qps": 1, "burst": 1, "cacheSize": 0}, Limit("User", 1, 1, 4096)),
    "null is not set": ({"type": "User", "qps": 1, "burst": 1, "cacheSize": None}, Limit("User", 1, 1, 4096)),
    "a small cache": ({"type": "User", "qps": 1, "burst": 1, "cacheSize": 1}, Limit("User", 1, 1, 1)),
    "the most": (
        {"type": "SourceAndObject", "qps": 2**31 - 1, "burst": 2**31 - 1, "cacheSize": 2**31 - 1},
        Limit("SourceAndObject", 2**31 - 1, 2**31 - 1, 2**31 - 1),
    ),
}


@pytest.mark.parametrize(("tree", "limit"), LIMITS.values(), ids=LIMITS)
def test_limits(tree: Json, limit: Limit) -> None:
    assert [each.limit for each in read(configuration(tree)).limits] == [limit]


def test_a_type_may_be_there_twice_and_the_order_stays() -> None:
    types = ["User", "Server", "User", "Namespace", "Server"]
    trees = [{"type": type_, "qps": number + 1, "burst": 1} for number, type_ in enumerate(types)]
    limits = [each.limit for each in read(configuration(*trees)).limits]
    assert [(limit.type, limit.qps) for limit in limits] == list(zip(types, range(1, 6), strict=True))


TYPES = 'supported values: "Server", "Namespace", "User", "SourceAndObject"'
TOO_MUCH = "must be less than or equal to 2147483647"
WRONG_NUMBERS: list[tuple[Any, str]] = [
    (0, "Invalid value: 0: must be positive"),
    (-1, "Invalid value: -1: must be positive"),
    (2**31, f"Invalid value: 2147483648: {TOO_MUCH}"),
    (-(2**31) - 1, "Invalid value: -2147483649: must be positive"),
    (2**63, f"Invalid value: 9223372036854775808: {TOO_MUCH}"),
    (10**40, f"Invalid value: {10**40}: {TOO_MUCH}"),
    (0.5, "Invalid value: 0.5: must be an integer"),
    (5.0, "Invalid value: 5.0: must be an integer"),
    (True, "Invalid value: true: must be an integer"),
    ("5", 'Invalid value: "5": must be an integer'),
    ([5], "Invalid value: a list: must be an integer"),
    ({}, "Invalid value: a mapping: must be an integer"),
    (None, "Required value"),
]


@pytest.mark.parametrize(("number", "what"), WRONG_NUMBERS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("name", ["qps", "burst"])
def test_wrong_numbers(name: str, number: Any, what: str) -> None:
    assert findings(configuration(SERVER, {**SERVER, name: number})) == [f"limits[1].{name}: {what}"]


WRONG_SIZES = [
    (-1, "Invalid value: -1: must not be negative"),
    (2**31, f"Invalid value: 2147483648: {TOO_MUCH}"),
    (1.5, "Invalid value: 1.5: must be an integer"),
    (False, "Invalid value: false: must be an integer"),
]


@pytest.mark.parametrize(("size", "what"), WRONG_SIZES)
@pytest.mark.parametrize("type_", ["Namespace", "User", "SourceAndObject"])
def test_wrong_cache_sizes(type_: str, size: Any, what: str) -> None:
    assert findings(configuration({**SERVER, "type": type_, "cacheSize": size})) == [f"limits[0].cacheSize: {what}"]


@pytest.mark.parametrize("type_", ["SERVER", "namespace", "", "Pod", "sourceAndObject", " Server"])
def test_types_are_exactly_those(type_: str) -> None:
    expected = f'limits[0].type: Unsupported value: "{type_}": {TYPES}'
    assert findings(configuration({**SERVER, "type": type_})) == [expected]


REDIS = {"url": "redis://limits.example.com"}
HERE = "there is no certificate to check: the url does not begin with rediss://"
WHOLE: dict[str, tuple[Any, list[str]]] = {
    "nothing": ({}, ["apiVersion: Required value", "kind: Required value", "limits: Required value"]),
    "no limits": (configuration(limits=...), ["limits: Required value"]),
    "an empty list": (configuration(limits=[]), ["limits: Required value: must not be empty"]),
    "no list": (configuration(limits={"type": "Server"}), ["limits: Invalid value: a mapping: must be a list"]),
    "no limit": (
        configuration(limits=[None, 5]),
        [f"limits[{n}]: Invalid value: {v}: must be a mapping" for n, v in ((0, "null"), (1, 5))],
    ),
    "another kind": (
        configuration(kind="Policy"),
        ['kind: Unsupported value: "Policy": supported values: "Configuration"'],
    ),
    "a field of another spelling": (
        configuration({**SERVER, "QPS": 5}, backend="memory", Redis=5),
        ["Redis: Forbidden: unknown field; did you mean redis?", "limits[0].QPS: Forbidden: unknown field"],
    ),
    "an unknown backend": (
        configuration(backend="Redis"),
        ['backend: Unsupported value: "Redis": supported values: "memory", "redis"'],
    ),
    "a store without need": (configuration(redis=REDIS), ["redis: Forbidden: only for backend: redis"]),
    "a store without need, and wrong": (configuration(redis={"url": 5}), ["redis: Forbidden: only for backend: redis"]),
    "a store that is not told": (configuration(backend="redis"), ["redis: Required value"]),
    "a store that is null": (configuration(backend="redis", redis=None), ["redis: Required value"]),
    "a store without a place": (configuration(backend="redis", redis={}), ["redis.url: Required value"]),
    "a certificate for nobody": (
        configuration(backend="redis", redis={**REDIS, "caFile": "ca.pem"}),
        [f"redis.caFile: Forbidden: {HERE}"],
    ),
    "per worker, in words": (
        configuration(acceptLimitsPerWorker="yes"),
        ['acceptLimitsPerWorker: Invalid value: "yes": must be true or false'],
    ),
    "all at once": (
        configuration(
            {"type": "Server", "qps": 0, "burst": -1},
            {"type": "All", "burst": 1.5, "cacheSize": -3},
            kind="config",
            backend="redis",
            redis={**REDIS, "timeout": "2s", "prefix": "a b", "password": "x"},
        ),
        [
            'kind: Unsupported value: "config": supported values: "Configuration"',
            "limits[0].burst: Invalid value: -1: must be positive",
            "limits[0].qps: Invalid value: 0: must be positive",
            "limits[1].burst: Invalid value: 1.5: must be an integer",
            "limits[1].cacheSize: Invalid value: -3: must not be negative",
            "limits[1].qps: Required value",
            f'limits[1].type: Unsupported value: "All": {TYPES}',
            "redis.password: Forbidden: unknown field; did you mean passwordFile?",
            'redis.prefix: Invalid value: "a b": must match ^[A-Za-z0-9._-]{1,64}$',
            'redis.timeout: Invalid value: "2s": must be between 0.001s and 1s',
        ],
    ),
}


@pytest.mark.parametrize(("tree", "expected"), WHOLE.values(), ids=WHOLE)
def test_everything_that_is_wrong_is_found_at_once(tree: Any, expected: list[str]) -> None:
    assert findings(tree) == expected


def test_several_workers_with_memory_are_refused() -> None:
    for tree in (configuration(), configuration(acceptLimitsPerWorker=False)):
        [finding] = findings(tree, workers=4)
        assert finding.startswith("acceptLimitsPerWorker: Required value: each of the 4 workers would count for itself")
        assert finding.endswith("backend: redis, or accept that by acceptLimitsPerWorker: true")


def test_several_workers_are_taken_with_open_eyes_or_a_store() -> None:
    assert configured(configuration(acceptLimitsPerWorker=True), workers=4)
    assert configured(configuration(backend="redis", redis=REDIS), workers=4)


def redis(**fields: Any) -> RedisSettings:
    settings = read(configuration(backend="redis", redis={**REDIS, **fields})).redis
    assert settings is not None
    return settings


GOOD_URLS = [
    "redis://limits",
    "redis://limits.example.com:6380",
    "redis://limits/",
    "redis://limits/15",
    "redis://10.0.0.1:6379/0",
    "redis://[::1]:6379/1",
    "rediss://limits.example.com",
    "rediss://events@limits.example.com/1",
    "unix:///run/redis.sock",
    "unix:///run/redis.sock?db=3",
    "unix://events@/run/redis.sock",
]
BAD_URLS = [
    "",
    "limits:6379",
    "redis:limits",
    "redis:///0",
    "redis://limits:0",
    "redis://limits:65536",
    "redis://limits:six",
    "redis://limits/a",
    "redis://limits/0/1",
    "redis://limits?db=1",
    "redis://limits#1",
    "redis://:6379",
    "redis://[::1",
    "http://limits",
    "unix://run/redis.sock",
    "unix://",
    "unix:///run/redis.sock?ssl=no",
]
SECRET_URLS = [
    "redis://:hush@limits",
    "redis://events:hush@limits:6379/0",
    "rediss://events:@limits",
    "redis://events:hu/sh@limits",
    "redis://events:hu@sh@limits",
    "redis://events:hush@limits:x",
    "redis://limits?password=hush",
    "unix:///run/redis.sock?password=hush",
    "unix://:hush@/run/redis.sock",
    "events:hush@limits",
    "hush",
]


@pytest.mark.parametrize("url", GOOD_URLS)
def test_good_urls(url: str) -> None:
    assert redis(url=url, passwordFile="password").url == url


def test_a_user_needs_a_password() -> None:
    for url in ("rediss://events@limits.example.com/1", "unix://events@/run/redis.sock"):
        [finding] = findings(configuration(backend="redis", redis={"url": url}))
        assert finding == "redis.url: Invalid value: a user needs a password, see passwordFile"


@pytest.mark.parametrize("url", BAD_URLS + SECRET_URLS)
def test_bad_urls_are_refused_and_never_shown(url: str) -> None:
    [finding] = findings(configuration(backend="redis", redis={"url": url}))
    assert finding in (
        "redis.url: Forbidden: a password belongs into a file, see passwordFile",
        "redis.url: Invalid value: must be as redis://host:6379/0, rediss://host:6379/0 or unix:///run/redis.sock?db=0",
    )


@pytest.mark.parametrize("url", SECRET_URLS[:3])
def test_who_writes_a_password_into_the_url_is_told_where_it_belongs(url: str) -> None:
    [finding] = findings(configuration(backend="redis", redis={"url": url}))
    assert finding.startswith("redis.url: Forbidden: a password belongs into a file")


@pytest.mark.parametrize(("text", "seconds"), [("50ms", 0.05), ("1s", 1.0), ("1ms", 1e-3), ("0.25s", 0.25)])
def test_timeouts(text: str, seconds: float) -> None:
    assert redis(timeout=text).timeout == seconds
    assert redis().timeout == 0.05


@pytest.mark.parametrize("timeout", ["0s", "-1s", "1us", "1001ms", "5", "", "fast", 50, 0.05, True, ["50ms"]])
def test_wrong_timeouts(timeout: Any) -> None:
    [finding] = findings(configuration(backend="redis", redis={**REDIS, "timeout": timeout}))
    assert finding.startswith("redis.timeout: Invalid value: ")


def test_files_are_beside_the_configuration() -> None:
    settings = redis(url="rediss://limits", passwordFile="secrets/password", caFile="/etc/ca.pem")
    assert (settings.password_file, settings.ca_file) == (FILE.parent / "secrets/password", Path("/etc/ca.pem"))


@pytest.mark.parametrize("prefix", ["", "a b", "a:b", "{a}", "a\n", "p" * 65])
def test_wrong_prefixes(prefix: str) -> None:
    [finding] = findings(configuration(backend="redis", redis={**REDIS, "prefix": prefix}))
    assert finding.startswith("redis.prefix: Invalid value: ")


def test_a_policy_in_memory_is_plain_and_one_with_a_store_waits_for_it() -> None:
    policies = configured(configuration()), configured(configuration(backend="redis", redis=REDIS))
    assert [(each.name, each.kind, each.is_async) for each in policies] == [
        ("event_rate_limit", "validating", False),
        ("event_rate_limit", "validating", True),
    ]


def test_what_is_wrong_is_told_with_its_place() -> None:
    header = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n"
    text = f"{header}- type: Server\n  qps: 5\n  burst: 0\n".encode()
    with pytest.raises(ConfigurationError) as error:
        configure(parse(text, FILE), PluginContext())
    assert str(error.value) == f"{FILE}:6:10: limits[0].burst: Invalid value: 0: must be positive"


def test_what_a_plugin_counts_is_there_before_anything_is_counted() -> None:
    site = PluginContext()
    configure(parse(yaml.safe_dump(configuration()).encode(), FILE), site)
    names = {name.removeprefix("webhooks_event_rate_limit_") for name in site.metrics.by_name}
    assert names == {"decisions", "keys", "evictions"}


def test_a_store_is_let_go_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[RedisBudget] = []

    async def close(budget: RedisBudget) -> None:
        ended.append(budget)

    monkeypatch.setattr(RedisBudget, "close", close)
    site = PluginContext()
    configure(parse(yaml.safe_dump(configuration(backend="redis", redis=REDIS)).encode(), FILE), site)
    asyncio.run(site.close())
    assert len(ended) == 1
