"""Denies changes outside of working hours, even if other authorizers allow them.

Reading is always allowed, and so are changes of the cluster itself (controllers, nodes, service accounts) and requests
of users about their own rights (``kubectl auth can-i``). API servers cache responses, so the hours start and end with a
delay.

Parameters:
    time_zone: a name such as ``Europe/Berlin``. Names other than ``UTC`` require the time zone data of the system.
    days: the working days, some of ``Mon``, ``Tue``, ``Wed``, ``Thu``, ``Fri``, ``Sat``, ``Sun``.
    start: the start of the hours, such as ``09:00``.
    end: the end of the hours. An end before the start is on the next day; an end equal to the start means all day.
    except_users: exempt users, as shell patterns.
    except_groups: groups whose members are exempt.
    now: a fixed time instead of the current one, for tests; with a UTC offset, such as ``2026-03-07T12:00:00Z``.

No opinion, with ``time_zone="Europe/Berlin", now="2026-03-06T16:59:00+01:00"``::

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
    """Deny changes outside of the hours."""
    if any(fnmatchcase(access.user, pattern) for pattern in except_users) or set(except_groups) & set(access.groups):
        return NoOpinion()
    if access.is_self_review:
        return NoOpinion()
    zone = UTC if time_zone == "UTC" else ZoneInfo(time_zone)
    local = datetime.now(zone) if now is None else now.astimezone(zone)
    if _is_in_hours(local, days, time.fromisoformat(start), time.fromisoformat(end)):
        return NoOpinion()
    hours = f"{', '.join(days)} from {start} to {end} {time_zone}"
    return Deny(f"changes are allowed only on {hours}; now it is {_DAYS[local.weekday()]} {local:%H:%M}")


def _is_in_hours(local: datetime, days: Sequence[Day], start: time, end: time) -> bool:
    today, yesterday = _DAYS[local.weekday()], _DAYS[local.weekday() - 1]
    if start < end:
        return today in days and start <= local.time() < end
    return (today in days and local.time() >= start) or (yesterday in days and local.time() < end)
