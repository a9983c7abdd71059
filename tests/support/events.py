"""Events of both API groups."""

from typing import Any

Json = dict[str, Any]

ABOUT = {"kind": "Pod", "namespace": "team-a", "name": "web", "uid": "u-1", "apiVersion": "v1"}


def core_event(**fields: Any) -> Json:
    """An event of the core group; `...` as the value of a field omits it."""
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.17", "namespace": "team-a"},
        "involvedObject": ABOUT,
        "reason": "Pulled",
        "message": "Successfully pulled image",
        "source": {"component": "kubelet", "host": "node-1"},
        "type": "Normal",
        "count": 1,
        "eventTime": None,
        "reportingComponent": "kubelet",
        "reportingInstance": "node-1",
        **fields,
    }
    return {key: value for key, value in event.items() if value is not ...}


def event(api_version: str = "events.k8s.io/v1", **fields: Any) -> Json:
    """An event of the events group; `...` as the value of a field omits it."""
    event = {
        "apiVersion": api_version,
        "kind": "Event",
        "metadata": {"name": "web.17", "namespace": "team-a"},
        "eventTime": "2026-11-20T10:00:00.123456Z",
        "reportingController": "kubelet",
        "reportingInstance": "node-1",
        "action": "Pulling",
        "reason": "Pulled",
        "regarding": ABOUT,
        "note": "Successfully pulled image",
        "type": "Normal",
        "deprecatedSource": {},
        **fields,
    }
    return {key: value for key, value in event.items() if value is not ...}
