"""Changes are made while there is somebody to see what they do.

Reading stays free at all hours. Whoever works for the cluster itself (controllers, nodes, service accounts) and not by
the clock is left alone, and so are questions about oneself (``kubectl auth can-i``), which change nothing. An API
server may keep an answer for as long as its cache says, so that the hours begin and end that much later.

Parameters:
    time_zone: a name such as ``Europe/Berlin``; other names than ``UTC`` need the system's time zone data.
    days: the days, of ``Mon``, ``Tue``, ``Wed``, ``Thu``, ``Fri``, ``Sat``, ``Sun``.
    start: when the hours begin, such as ``09:00``.
    end: when they are over. An end before the start is on the next day; the same as the start means all day.
    except_users: users whom the hours do not bind, as names or shell patterns.
    except_groups: groups whose members the hours do not bind.
    now: the time to go by in place of the present one, to try what happens then; with a UTC offset, such as
        ``2026-03-07T12:00:00Z``.

Left to other authorizers, with ``time_zone="Europe/Berlin", now="2026-03-06T16:59:00+01:00"``::

    spec: {user: jane, resourceAttributes: {verb: delete, resource: pods, namespace: prod, name: web}}

Denied, with ``time_zone="Europe/Berlin", now="2026-03-06T17:00:00+01:00"``::

    spec: {user: jane, resourceAttributes: {verb: delete, resource: pods, namespace: prod, name: web}}

Denied, with ``now="2026-03-07T12:00:00Z"``::

    spec: {user: jane, resourceAttributes: {verb: create, resource: deployments, group: apps, namespace: prod}}
"""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from fnmatch import fnmatchcase
from typing import Literal
from zoneinfo import ZoneInfo

from webhooks import AccessReview, Deny, NoOpinion, Opinion, authorizing

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

_DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_REVIEW_GROUPS = ("authorization.k8s.io", "authentication.k8s.io", "authorization.svc.io", "authentication.svc.io")


@authorizing("*/*", verbs=["create", "update", "patch", "delete", "deletecollection"], on_error="deny")
def working_hours(
    access: AccessReview,
    *,
    time_zone: str = "UTC",
    days: Sequence[Day] = ("Mon", "Tue", "Wed", "Thu", "Fri"),
    start: str = "09:00",
    end: str = "17:00",
    except_users: Sequence[str] = ("system:*",),
    except_groups: Sequence[str] = (),
    now: datetime | None = None,
) -> Opinion:
    """Deny changes outside the hours."""
    if any(fnmatchcase(access.user, pattern) for pattern in except_users) or set(except_groups) & set(access.groups):
        return NoOpinion()
    if access.group in _REVIEW_GROUPS and access.resource.startswith("selfsubject"):
        return NoOpinion()
    zone = UTC if time_zone == "UTC" else ZoneInfo(time_zone)
    local = datetime.now(zone) if now is None else now.astimezone(zone)
    if _is_within(local, days, time.fromisoformat(start), time.fromisoformat(end)):
        return NoOpinion()
    hours = f"{', '.join(days)} from {start} to {end} {time_zone}"
    return Deny(f"changes are made {hours}; it is {_DAYS[local.weekday()]} {local:%H:%M}")


def _is_within(local: datetime, days: Sequence[Day], start: time, end: time) -> bool:
    today, yesterday = _DAYS[local.weekday()], _DAYS[local.weekday() - 1]
    if start < end:
        return today in days and start <= local.time() < end
    return (today in days and local.time() >= start) or (yesterday in days and local.time() < end)
