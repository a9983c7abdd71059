"""Generate `webhooks.objects.typed_fields` from the published schemas of the Kubernetes API.

Run `python -m tests.generate.typed_fields` in the checkout, with the extra `test` installed. The schemas come from the
package `kubernetes-validate`, whose releases contain the last 13 or so Kubernetes releases. Fields are never removed:
older API servers still send them. The order of the fields is kept, because decoding is fastest in the order in which
API servers write them; the schemas do not have that order, so new fields are appended.
"""

import json
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from webhooks.objects import typed_fields

Fields = dict[str, tuple[str, ...]]
Release = tuple[int, int]

_CORE, _APPS, _BATCH = "io.k8s.api.core.v1.", "io.k8s.api.apps.v1.", "io.k8s.api.batch.v1."
_BATCH_BETA = "io.k8s.api.batch.v1beta1."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."

# The definitions whose fields each type has. A type with several has the fields of all of them.
DEFINITIONS = {
    "Object": (
        *(f"{_CORE}{kind}" for kind in ("Pod", "ReplicationController")),
        *(f"{_APPS}{kind}" for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
        *(f"{_BATCH}{kind}" for kind in ("Job", "CronJob")),
        f"{_BATCH_BETA}CronJob",
    ),
    "ObjectMeta": (f"{_META}ObjectMeta",),
    "Container": (f"{_CORE}Container", f"{_CORE}EphemeralContainer"),
    "Volume": (f"{_CORE}Volume",),
    "ImageVolumeSource": (f"{_CORE}ImageVolumeSource",),
    "PodSpec": (f"{_CORE}PodSpec",),
    "PodTemplateSpec": (f"{_CORE}PodTemplateSpec",),
    "DeploymentSpec": (f"{_APPS}DeploymentSpec",),
    "ReplicaSetSpec": (f"{_APPS}ReplicaSetSpec",),
    "ReplicationControllerSpec": (f"{_CORE}ReplicationControllerSpec",),
    "StatefulSetSpec": (f"{_APPS}StatefulSetSpec",),
    "DaemonSetSpec": (f"{_APPS}DaemonSetSpec",),
    "JobSpec": (f"{_BATCH}JobSpec",),
    "JobTemplateSpec": (f"{_BATCH}JobTemplateSpec", f"{_BATCH_BETA}JobTemplateSpec"),
    "CronJobSpec": (f"{_BATCH}CronJobSpec", f"{_BATCH_BETA}CronJobSpec"),
}

OLDEST = (1, 20)

_HEADER = '''"""Fields of the types in `typed_decoding`, from the published schemas of Kubernetes {} to {}.

Generated: renew it with `python -m tests.generate.typed_fields`. The order is that in which API servers write fields.
"""

RELEASES = ({!r}, {!r})

FIELDS: dict[str, tuple[str, ...]] = {{
'''


def published() -> dict[Release, Mapping[str, Any]]:
    """Read the definitions of each Kubernetes release that is installed with kubernetes-validate."""
    package = find_spec("kubernetes_validate")
    assert package is not None
    assert package.origin is not None
    schemas = {}
    for file in Path(package.origin).parent.glob("kubernetes-json-schema/v*-local/_definitions.json"):
        release = re.fullmatch(r"v(\d+)\.(\d+)\.\d+-local", file.parent.name)
        assert release is not None
        content = json.loads(file.read_text())
        schemas[int(release[1]), int(release[2])] = content.get("$defs") or content["definitions"]
    return {release: schemas[release] for release in sorted(schemas) if release >= OLDEST}


def merge(fields: Mapping[str, tuple[str, ...]], schemas: Mapping[Release, Mapping[str, Any]]) -> Fields:
    """Add the fields of published schemas to known fields."""
    return {
        type_: tuple(dict.fromkeys((*fields.get(type_, ()), *_fields_of(definitions, schemas))))
        for type_, definitions in DEFINITIONS.items()
    }


def _fields_of(definitions: tuple[str, ...], schemas: Mapping[Release, Mapping[str, Any]]) -> Iterator[str]:
    for schema in schemas.values():
        for definition in definitions:
            if definition in schema:
                yield from schema[definition]["properties"]


def merge_releases(known: tuple[str, str], schemas: Mapping[Release, Any]) -> tuple[str, str]:
    """Return the oldest and the newest release that the fields cover."""
    releases = [*(tuple(map(int, release.split("."))) for release in known), *schemas]
    (first, second), (third, fourth) = min(releases), max(releases)
    return f"{first}.{second}", f"{third}.{fourth}"


def render(fields: Mapping[str, tuple[str, ...]], releases: tuple[str, str]) -> str:
    """Return the source of the module."""
    lines = [_HEADER.format(*releases, *releases).replace("'", '"')]
    for type_, names in fields.items():
        lines += [f'    "{type_}": (\n', *(f'        "{name}",\n' for name in names), "    ),\n"]
    return "".join([*lines, "}\n"])


def generate() -> str:
    """Return the source of the module with all known and published fields."""
    schemas = published()
    return render(merge(typed_fields.FIELDS, schemas), merge_releases(typed_fields.RELEASES, schemas))


if __name__ == "__main__":
    path = Path(typed_fields.__file__)
    path.write_text(generate())
    print(f"{path}: written")
