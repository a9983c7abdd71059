"""Finds the pod spec of an object, its containers, and the images that they use."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from webhooks.objects.image_references import ImageReference

_Path = tuple[str, ...]  # the member names on the way to a pod spec

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_NOUNS = {
    "containers": "container",
    "initContainers": "init container",
    "ephemeralContainers": "ephemeral container",
    "volumes": "volume",
}
_POD_PATH: _Path = ("spec",)
_WORKLOAD_PATH: _Path = ("spec", "template", "spec")
_CRON_JOB_PATH: _Path = ("spec", "jobTemplate", "spec", "template", "spec")
_POD_TEMPLATE_PATH: _Path = ("template", "spec")
_PATHS = (_POD_PATH, _WORKLOAD_PATH, _CRON_JOB_PATH, _POD_TEMPLATE_PATH)
POD_SPEC_PATHS: dict[str, _Path] = {
    "Pod": _POD_PATH,
    "Deployment": _WORKLOAD_PATH,
    "ReplicaSet": _WORKLOAD_PATH,
    "StatefulSet": _WORKLOAD_PATH,
    "DaemonSet": _WORKLOAD_PATH,
    "Job": _WORKLOAD_PATH,
    "ReplicationController": _WORKLOAD_PATH,
    "CronJob": _CRON_JOB_PATH,
    "PodTemplate": _POD_TEMPLATE_PATH,
    # Older API servers send this object for pods/ephemeralcontainers. It has the list at the top.
    "EphemeralContainers": (),
}
_POINTERS = {path: "".join(f"/{key}" for key in path) for path in (*_PATHS, ())}


class ContainerIndex(msgspec.Struct, eq=False):
    """Maps JSON Pointers to the containers of an object. All are resolved at once, before the object can change.

    Attributes:
        pointers: the pointers of the containers.
    """

    pointers: list[str] = []
    _containers: dict[str, dict[str, Any]] | None = None

    def __repr__(self) -> str:  # without the containers, which may hold secrets
        return f"<{type(self).__name__}>"

    def resolve(self, obj: Any) -> dict[str, dict[str, Any]]:
        """Return the containers by pointer. Only the first call reads the object."""
        if self._containers is None:
            self._containers = {pointer: _resolve(obj, pointer) for pointer in self.pointers}
        return self._containers


def _resolve(obj: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        obj = obj[int(token)] if isinstance(obj, list) else obj[token]
    return obj


class Image(msgspec.Struct, frozen=True, eq=False):
    """An image that a pod uses: the image of a container, or of an image volume.

    ``str()`` names the container or volume: ``init container setup``, ``volume model``.

    Attributes:
        name: the name of the container or volume; empty if absent or not a string.
        image: the reference as written in the object; empty if absent or not a string.
        kind: ``containers``, ``initContainers``, ``ephemeralContainers`` or ``volumes``.
        pointer: the JSON Pointer of the container or volume, such as ``/spec/template/spec/containers/0``.
    """

    name: str
    image: str
    kind: str
    pointer: str

    def __str__(self) -> str:
        return f"{_NOUNS[self.kind]} {self.name}"

    @property
    def reference(self) -> ImageReference:
        """The parsed reference of the image.

        Raises:
            ValueError: the image is absent or malformed. The message has the JSON Pointer and the reason.
        """
        try:
            return ImageReference.parse(self.image)
        except ValueError as error:
            raise ValueError(f"{self.pointer}/image: {error}") from None

    def is_of(self, patterns: Collection[str]) -> bool:
        """Check whether the image matches one of these patterns; see `ImageReference.matches`.

        A malformed image matches no pattern.
        """
        if not patterns:
            return False
        try:
            reference = self.reference
        except ValueError:
            return False
        return any(reference.matches(pattern) for pattern in patterns)


class Container(Image, frozen=True, eq=False):
    """A container of a pod: regular, init or ephemeral."""

    _index: ContainerIndex
    _get_object: Callable[[], dict[str, Any]]

    @property
    def spec(self) -> dict[str, Any]:
        """The container itself, not a copy: a change of it changes the object."""
        return self._index.resolve(self._get_object())[self.pointer]


def find_containers(obj: dict[str, Any], get_object: Callable[[], dict[str, Any]] | None = None) -> list[Container]:
    """Return the containers of an object: the regular ones, then the init and the ephemeral containers.

    Args:
        obj: an object of any kind; see `find_pod_spec`. An object without a pod has no containers.
        get_object: returns the object that contains `Container.spec`, if that is a copy of `obj`.

    Raises:
        ValueError: the object is malformed, so that it could hide a container. The message starts with a JSON Pointer.
            If a policy does not catch the error, the request is denied.
    """
    containers: list[Container] = []
    index = ContainerIndex()
    get_object = get_object or (lambda: obj)
    for spec, base in _find_pod_specs(obj):
        for kind in _CONTAINER_LISTS:
            listed = spec.get(kind)
            if listed is None:
                continue
            if not isinstance(listed, list):
                raise ValueError(f"{base}/{kind}: must be a list")
            for number, container in enumerate(listed):
                pointer = f"{base}/{kind}/{number}"
                if not isinstance(container, dict):
                    raise ValueError(f"{pointer}: must be an object")
                name, image = container.get("name"), container.get("image")
                name = name if isinstance(name, str) else ""
                image = image if isinstance(image, str) else ""
                containers.append(Container(name, image, kind, pointer, index, get_object))
                index.pointers.append(pointer)
    return containers


def containers_from_outline(spec: Any, base: str, get_object: Callable[[], dict[str, Any]]) -> list[Container]:
    """Return the containers of a pod spec that was decoded by type.

    Args:
        spec: an object whose attributes are the three lists; a false value if there is no pod spec.
        base: the JSON Pointer of the pod spec.
        get_object: see `find_containers`.
    """
    containers: list[Container] = []
    index = ContainerIndex()
    if spec:
        for kind in _CONTAINER_LISTS:
            for number, container in enumerate(getattr(spec, kind) or ()):
                name, image = container.name or "", container.image or ""
                pointer = f"{base}/{kind}/{number}"
                containers.append(Container(name, image, kind, pointer, index, get_object))
                index.pointers.append(pointer)
    return containers


def find_image_volumes(obj: dict[str, Any]) -> list[Image]:
    """Return the images of the image volumes of an object.

    Args:
        obj: see `find_containers`.

    Raises:
        ValueError: the object is malformed, so that it could hide a volume. The message starts with a JSON Pointer.
    """
    images = []
    for spec, base in _find_pod_specs(obj):
        volumes = spec.get("volumes")
        if volumes is not None and not isinstance(volumes, list):
            raise ValueError(f"{base}/volumes: must be a list")
        for number, volume in enumerate(volumes or ()):
            pointer = f"{base}/volumes/{number}"
            if not isinstance(volume, dict):
                raise ValueError(f"{pointer}: must be an object")
            source = volume.get("image")
            if source is None:
                continue
            if not isinstance(source, dict):
                raise ValueError(f"{pointer}/image: must be an object")
            name, image = volume.get("name"), source.get("reference")
            name = name if isinstance(name, str) else ""
            images.append(Image(name, image if isinstance(image, str) else "", "volumes", pointer))
    return images


def image_volumes_from_outline(volumes: Sequence[Any], base: str) -> list[Image]:
    """Return the images of the image volumes of a pod spec that was decoded by type.

    Args:
        volumes: objects with a ``name``, and an ``image`` with a ``reference``.
        base: the JSON Pointer of the pod spec.
    """
    return [
        Image(volume.name or "", volume.image.reference or "", "volumes", f"{base}/volumes/{number}")
        for number, volume in enumerate(volumes)
        if volume.image
    ]


def _find_pod_specs(obj: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return the parts of an object that hold containers or volumes, with their JSON Pointers.

    An object of a built-in kind has at most one. In an object of a custom kind, all paths count.
    """
    if not _is_custom(obj):
        spec, base = find_pod_spec(obj)
        return [] if spec is None else [(spec, base)]
    specs = []
    for path in _PATHS:
        spec = _get_object_at(obj, path) or {}
        lists = {kind: spec[kind] for kind in (*_CONTAINER_LISTS, "volumes") if isinstance(spec.get(kind), list)}
        if lists:
            specs.append((lists, _POINTERS[path]))
    return specs


def find_pod_spec(obj: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the pod spec of an object and its JSON Pointer.

    The path of a built-in kind is that of the Kubernetes API reference. An object of a custom kind, such as a rollout,
    is searched at the same paths: the first with a list of ``containers`` counts.

    Args:
        obj: an object of any kind.

    Returns:
        The spec itself, not a copy, and its pointer, such as ``/spec/template/spec``. If there is no spec, None and the
        pointer for this kind, or an empty pointer for a kind without pods. An ``EphemeralContainers`` object is its own
        spec, at the empty pointer.

    Raises:
        ValueError: in an object of a built-in kind, the spec or one of its parents is null or not an object. The
            message starts with the JSON Pointer of that value.
    """
    if _is_custom(obj):
        return _search_pod_spec(obj)
    path = POD_SPEC_PATHS[obj["kind"]]
    node: dict[str, Any] = obj
    for depth, key in enumerate(path):
        if key not in node:
            return None, _POINTERS[path]
        node = node[key]
        if not isinstance(node, dict):
            raise ValueError(f"/{'/'.join(path[: depth + 1])}: must be an object")
    return node, _POINTERS[path]


def find_pod_template(obj: dict[str, Any]) -> dict[str, Any] | None:
    """Return the pod or pod template of an object: the parent of the pod spec, with the metadata of the pod.

    Args:
        obj: an object of any kind; see `find_pod_spec`.

    Returns:
        The pod or template itself, not a copy. None if there is no pod spec.

    Raises:
        ValueError: see `find_pod_spec`.
    """
    spec, pointer = find_pod_spec(obj)
    if spec is None or not pointer:
        return None if spec is None else {"spec": spec}
    template: dict[str, Any] = _resolve(obj, pointer.rpartition("/")[0])
    return template


def _is_custom(obj: dict[str, Any]) -> bool:
    """Check that an object is not of one of the built-in kinds with pods."""
    kind = obj.get("kind")
    return not isinstance(kind, str) or kind not in POD_SPEC_PATHS or _is_custom_group(obj.get("apiVersion"))


def _is_custom_group(api_version: object) -> bool:
    """Check the group of a kind. The names of custom groups have a dot, unlike the built-in groups with pods."""
    return isinstance(api_version, str) and "." in api_version


def _search_pod_spec(obj: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    for path in _PATHS:
        spec = _get_object_at(obj, path)
        if spec is not None and isinstance(spec.get("containers"), list):
            return spec, _POINTERS[path]
    return None, ""


def _get_object_at(obj: dict[str, Any], path: _Path) -> dict[str, Any] | None:
    node: Any = obj
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None
