"""Certificates that are replaced under load."""

import itertools
import time
from pathlib import Path

from ..support.certificate_swaps import MountedServer, serve_mounted
from ..support.mounts import Contents, Mount, invalid_secrets, secret
from ..support.servers import await_true
from .figures import Figure, Size

FAILURES = "webhooks_certificate_reload_failures_total"


def shown_after(served: MountedServer, contents: Contents) -> float:
    """Return the seconds until the server presents a new certificate."""
    start = time.monotonic()
    await_true(lambda: served.presents(contents), "the new certificate is presented")
    return time.monotonic() - start


def test_item_06_swaps(size: Size, figure: Figure, tmp_path: Path) -> None:
    number = size.of(10, 100)
    secrets = [secret() for _ in range(7)]
    with serve_mounted(tmp_path, secrets) as served, served.under_load() as load:
        seconds = []
        for contents in itertools.islice(itertools.cycle(secrets[1:] + secrets[:1]), number):
            served.mount.put(contents)
            seconds.append(shown_after(served, contents))
    figure(
        6,
        f"{number} exchanges of the certificate and the CAs under load",
        f"{len(load.failures)} failures in {load.answered:,} calls, "
        f"a new certificate in use after {max(seconds):.1f} s at most",
        "0 failures, <= 10 s",
    )
    assert load.failures == []
    assert load.answered > number
    assert max(seconds) <= 10


def write_in_place(mount: Mount, contents: Contents) -> None:
    """Overwrite the files instead of replacing the folder."""
    for name in ("tls.crt", "tls.key"):
        path = (mount.folder / "..data" / name).resolve()
        if name in contents:
            path.write_bytes(contents[name])
        else:
            path.unlink(missing_ok=True)


def test_item_07_bad_pairs(size: Size, figure: Figure, tmp_path: Path) -> None:
    """They are written by rename or in place; a valid pair at the end is loaded."""
    number = size.of(6, 54)
    good, better = secret(), secret()
    with serve_mounted(tmp_path, [good, better]) as served, served.under_load() as load:
        unchanged, names = 0, set()
        invalid = itertools.islice(itertools.cycle(invalid_secrets().items()), number)
        for count, (name, contents) in enumerate(invalid, 1):
            names.add(name)
            if count % 2:
                served.mount.put(contents | {"ca.crt": good["ca.crt"]})
            else:
                write_in_place(served.mount, contents)
            await_true(lambda: served.metric_values(FAILURES) == {"": float(count)}, f"{name} is counted")  # noqa: B023
            unchanged += served.presents(good)
        served.mount.put(better)
        seconds = shown_after(served, better)
    figure(
        7,
        f"{number} invalid key pairs of {len(names)} kinds, by rename and in place, under load",
        f"the old pair stayed in use {unchanged} times, each counted, "
        f"{len(load.failures)} failures in {load.answered:,} calls, "
        f"then a valid pair in use after {seconds:.1f} s",
        "the old pair stays in use, each is counted, 0 failures",
    )
    assert unchanged == number
    assert load.failures == []
