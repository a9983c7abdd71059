"""The pods inside objects: where a kind keeps its pod spec, and every container of it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from webhooks.objects.image_references import ImageReference

_Place = tuple[str, ...]

_CONTAINER_KINDS = ("containers", "initContainers", "ephemeralContainers")
_WORDS = {
    "containers": "container",
    "initContainers": "init container",
    "ephemeralContainers": "ephemeral container",
    "volumes": "volume",
}
_POD: _Place = ("spec",)
_WORKLOAD: _Place = ("spec", "template", "spec")
_CRON_JOB: _Place = ("spec", "jobTemplate", "spec", "template", "spec")
_POD_TEMPLATE: _Place = ("template", "spec")
_PLACES = (_POD, _WORKLOAD, _CRON_JOB, _POD_TEMPLATE)
_PLACE_OF_KIND: dict[str, _Place] = {
    "Pod": _POD,
    "Deployment": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "DaemonSet": _WORKLOAD,
    "Job": _WORKLOAD,
    "ReplicationController": _WORKLOAD,
    "CronJob": _CRON_JOB,
    "PodTemplate": _POD_TEMPLATE,
    # The object of pods/ephemeralcontainers on older API servers holds the list itself.
    "EphemeralContainers": (),
}
_POINTERS = {place: "".join(f"/{key}" for key in place) for place in (*_PLACES, ())}


class ContainerIndex(msgspec.Struct, eq=False):
    """The containers of one object as they lie in it, found together, before their places in it can change.

    Attributes:
        pointers: where they are.
    """

    pointers: list[str] = []
    _found: dict[str, dict[str, Any]] | None = None

    def __repr__(self) -> str:  # what is in it may be secret
        return f"<{type(self).__name__}>"

    def find(self, obj: Any) -> dict[str, dict[str, Any]]:
        """The containers in an object, by their pointers: the object in which they were first looked for."""
        if self._found is None:
            self._found = {pointer: _resolved(obj, pointer) for pointer in self.pointers}
        return self._found


def _resolved(obj: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        obj = obj[int(token)] if isinstance(obj, list) else obj[token]
    return obj


class Image(msgspec.Struct, frozen=True, eq=False):
    """An image that a pod uses: one that a container runs, or one that a volume is filled from.

    ``str()`` says whose: ``init container setup``, ``volume model``.

    Attributes:
        name: the name of the container or volume; empty if absent or not a string.
        image: the image as it is written; empty if absent or not a string.
        kind: the list it is in: ``containers``, ``initContainers``, ``ephemeralContainers`` or ``volumes``.
        pointer: where that is in the object, a JSON pointer such as ``/spec/template/spec/containers/0``.
    """

    name: str
    image: str
    kind: str
    pointer: str

    def __str__(self) -> str:
        return f"{_WORDS[self.kind]} {self.name}"

    @property
    def reference(self) -> ImageReference:
        """The image, read.

        Raises:
            ValueError: for an image that is absent or malformed; the message says where and why.
        """
        try:
            return ImageReference.parse(self.image)
        except ValueError as error:
            raise ValueError(f"{self.pointer}/image: {error}") from None

    def is_of(self, patterns: Collection[str]) -> bool:
        """Whether it matches one of these, see `ImageReference.matches`; one that is malformed matches none."""
        if not patterns:
            return False
        try:
            reference = self.reference
        except ValueError:
            return False
        return any(reference.matches(pattern) for pattern in patterns)


class Container(Image, frozen=True, eq=False):
    """One container of a pod, of whichever of the three kinds, with its image."""

    _specs: ContainerIndex
    _owner: Callable[[], dict[str, Any]]

    @property
    def spec(self) -> dict[str, Any]:
        """The container itself, as it lies in the object: changing it changes the object."""
        return self._specs.find(self._owner())[self.pointer]


def containers(obj: dict[str, Any], owner: Callable[[], dict[str, Any]] | None = None) -> list[Container]:
    """Every container an object would run: the ordinary ones, then init, then ephemeral containers.

    Args:
        obj: an object of any kind, see `pod_spec`. One without a pod has no containers.
        owner: gives the object that `Container.spec` lies in, where that is a copy of this one.

    Raises:
        ValueError: where a container could hide in a malformed object; the message begins with a JSON
            pointer. A policy that lets the error pass denies the object.
    """
    found: list[Container] = []
    specs = ContainerIndex()
    owner = owner or (lambda: obj)
    for spec, base in _pod_specs(obj):
        for kind in _CONTAINER_KINDS:
            listed = spec.get(kind)
            if listed is None:
                continue
            if not isinstance(listed, list):
                raise ValueError(f"{base}/{kind}: must be a list")
            for index, container in enumerate(listed):
                pointer = f"{base}/{kind}/{index}"
                if not isinstance(container, dict):
                    raise ValueError(f"{pointer}: must be an object")
                name, image = container.get("name"), container.get("image")
                name = name if isinstance(name, str) else ""
                image = image if isinstance(image, str) else ""
                found.append(Container(name, image, kind, pointer, specs, owner))
                specs.pointers.append(pointer)
    return found


def outlined(spec: Any, base: str, owner: Callable[[], dict[str, Any]]) -> list[Container]:
    """Every container of a pod spec of which no more is known than these.

    Args:
        spec: an object with the three lists; anything false for none.
        base: its JSON pointer.
        owner: as in `containers`.
    """
    found: list[Container] = []
    specs = ContainerIndex()
    if spec:
        for kind in _CONTAINER_KINDS:
            for index, container in enumerate(getattr(spec, kind) or ()):
                pointer = f"{base}/{kind}/{index}"
                found.append(Container(container.name or "", container.image or "", kind, pointer, specs, owner))
                specs.pointers.append(pointer)
    return found


def image_volumes(obj: dict[str, Any]) -> list[Image]:
    """The image of every volume that is filled from one.

    Args:
        obj: as in `containers`.

    Raises:
        ValueError: where a volume could hide in a malformed object; the message begins with a JSON pointer.
    """
    found = []
    for spec, base in _pod_specs(obj):
        volumes = spec.get("volumes")
        if volumes is not None and not isinstance(volumes, list):
            raise ValueError(f"{base}/volumes: must be a list")
        for index, volume in enumerate(volumes or ()):
            pointer = f"{base}/volumes/{index}"
            if not isinstance(volume, dict):
                raise ValueError(f"{pointer}: must be an object")
            source = volume.get("image")
            if source is None:
                continue
            if not isinstance(source, dict):
                raise ValueError(f"{pointer}/image: must be an object")
            name, image = volume.get("name"), source.get("reference")
            name = name if isinstance(name, str) else ""
            found.append(Image(name, image if isinstance(image, str) else "", "volumes", pointer))
    return found


def outlined_image_volumes(volumes: Sequence[Any], base: str) -> list[Image]:
    """The image of every volume that is filled from one, of volumes of which no more is known than that.

    Args:
        volumes: each with a ``name`` and an ``image`` that has a ``reference``.
        base: the JSON pointer of the pod spec that they are in.
    """
    return [
        Image(volume.name or "", volume.image.reference or "", "volumes", f"{base}/volumes/{index}")
        for index, volume in enumerate(volumes)
        if volume.image
    ]


def _pod_specs(obj: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Wherever an object holds containers: one place of a built-in kind, perhaps several of a foreign one."""
    if not _is_searched(obj):
        spec, base = pod_spec(obj)
        return [] if spec is None else [(spec, base)]
    found = []
    for place in _PLACES:
        spec = _at(obj, place) or {}
        listed = {kind: spec[kind] for kind in (*_CONTAINER_KINDS, "volumes") if isinstance(spec.get(kind), list)}
        if listed:
            found.append((listed, _POINTERS[place]))
    return found


def pod_spec(obj: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The pod spec inside an object, and its JSON pointer.

    The kinds of the built-in API groups keep it where the Kubernetes API reference says. Any other kind (a
    rollout, a custom job) is searched in those same places: the first that holds a list of ``containers``
    counts.

    Args:
        obj: an object of any kind.

    Returns:
        The spec as it lies in the object and its pointer, such as ``/spec/template/spec``. The spec is None
        where there is none, and then the pointer is where this kind keeps it, or empty for a kind without
        pods. An ``EphemeralContainers`` object is its own spec, at the empty pointer.

    Raises:
        ValueError: where a built-in kind has something other than an object on the way to its pod spec, null
            included; the message begins with the JSON pointer of it.
    """
    if _is_searched(obj):
        return _searched(obj)
    place = _PLACE_OF_KIND[obj["kind"]]
    found: dict[str, Any] = obj
    for depth, key in enumerate(place):
        if key not in found:
            return None, _POINTERS[place]
        found = found[key]
        if not isinstance(found, dict):
            raise ValueError(f"/{'/'.join(place[: depth + 1])}: must be an object")
    return found, _POINTERS[place]


def pod_template(obj: dict[str, Any]) -> dict[str, Any] | None:
    """What holds the pod spec inside an object, and beside it the pod's own metadata: a pod, or a template of pods.

    Args:
        obj: an object of any kind, see `pod_spec`.

    Returns:
        It as it lies in the object; None where there is no pod spec.

    Raises:
        ValueError: as `pod_spec` does.
    """
    spec, pointer = pod_spec(obj)
    if spec is None or not pointer:
        return None if spec is None else {"spec": spec}
    found: dict[str, Any] = _resolved(obj, pointer.rpartition("/")[0])
    return found


def _is_foreign(api_version: object) -> bool:
    """Whether a kind is of somebody else's group: those have a dot in their name, unlike those with pods."""
    return isinstance(api_version, str) and "." in api_version


def _is_searched(obj: dict[str, Any]) -> bool:
    kind = obj.get("kind")
    return not isinstance(kind, str) or kind not in _PLACE_OF_KIND or _is_foreign(obj.get("apiVersion"))


def _at(obj: dict[str, Any], place: _Place) -> dict[str, Any] | None:
    found: Any = obj
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _searched(obj: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    for place in _PLACES:
        found = _at(obj, place)
        if found is not None and isinstance(found.get("containers"), list):
            return found, _POINTERS[place]
    return None, ""
