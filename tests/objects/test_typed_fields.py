from pathlib import Path

from webhooks.objects import typed_fields
from webhooks.objects.typed_fields import FIELDS, RELEASES

from ..generate.typed_fields import DEFINITIONS, OLDEST, generate, merge, merge_releases, published, render


def test_the_committed_module_equals_the_generated_one() -> None:
    """If this fails, new schemas are installed: run `python -m tests.generate.typed_fields`."""
    assert Path(typed_fields.__file__).read_text() == generate()


def test_every_definition_is_published() -> None:
    definitions = {definition for schema in published().values() for definition in schema}
    assert all(definitions.intersection(names) for names in DEFINITIONS.values())


def test_new_fields_are_appended_and_known_ones_are_kept() -> None:
    schemas = {(1, 50): {"io.k8s.api.core.v1.PodSpec": {"properties": {"containers": {}, "fieldOfTheFuture": {}}}}}
    fields = merge({**FIELDS, "PodSpec": ("removed", "containers")}, schemas)
    assert fields == {**FIELDS, "PodSpec": ("removed", "containers", "fieldOfTheFuture")}
    assert merge_releases(RELEASES, schemas) == (RELEASES[0], "1.50")


def test_the_releases_are_compared_as_numbers() -> None:
    assert merge_releases(("1.20", "1.37"), {(1, 9): {}, (2, 0): {}}) == ("1.9", "2.0")
    assert min(published()) >= OLDEST


def test_the_rendered_module_defines_the_fields() -> None:
    namespace: dict[str, object] = {}
    exec(render(FIELDS, RELEASES), namespace)
    assert (namespace["FIELDS"], namespace["RELEASES"]) == (FIELDS, RELEASES)
