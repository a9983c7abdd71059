import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.objects.image_references import ImageReference

SHA256 = "sha256:" + "0123456789abcdef" * 4
SHA512 = "sha512:" + "0123456789abcdef" * 8

FULL = {
    "nginx": "docker.io/library/nginx:latest",
    "nginx:1.25": "docker.io/library/nginx:1.25",
    "docker.io/nginx": "docker.io/library/nginx:latest",
    "index.docker.io/nginx": "docker.io/library/nginx:latest",
    "index.docker.io/team/app": "docker.io/team/app:latest",
    "team/app": "docker.io/team/app:latest",
    "library/nginx": "docker.io/library/nginx:latest",
    "team/a/b": "docker.io/team/a/b:latest",
    f"nginx@{SHA256}": f"docker.io/library/nginx@{SHA256}",
    f"nginx:1.25@{SHA512}": f"docker.io/library/nginx:1.25@{SHA512}",
    "gcr.io/app": "gcr.io/app:latest",
    "gcr.io/docker.io/nginx": "gcr.io/docker.io/nginx:latest",
    "localhost": "docker.io/library/localhost:latest",
    "localhost/app": "localhost/app:latest",
    "localhost:5000": "docker.io/library/localhost:5000",
    "localhost:5000/app:2": "localhost:5000/app:2",
    "host:5000/app": "host:5000/app:latest",
    "host/app": "docker.io/host/app:latest",
    "Host/app": "Host/app:latest",
    "GCR.io/app": "GCR.io/app:latest",
    "127.0.0.1:5000/a": "127.0.0.1:5000/a:latest",
    "[::1]:5000/a/b:c": "[::1]:5000/a/b:c",
    "[2001:db8::1]/a": "[2001:db8::1]/a:latest",
    "a__b/c.d-e--f_g": "docker.io/a__b/c.d-e--f_g:latest",
    "a:" + "T" * 128: "docker.io/library/a:" + "T" * 128,
    "gcr.io/" + "a" * 255: "gcr.io/" + "a" * 255 + ":latest",
    "a" * 247: "docker.io/library/" + "a" * 247 + ":latest",
}

BAD = {
    "": "repository is missing",
    ":1": "repository is missing",
    f"@{SHA256}": "repository is missing",
    "gcr.io/": "repository is missing",
    "gcr.io/:1": "repository is missing",
    "a" * 64: "ID of an image",
    "Nginx": "lower case",
    "gcr.io/App": "lower case",
    "nginx:": "tag",
    "nginx:a b": "tag",
    "nginx:-a": "tag",
    "nginx:1:2": "tag",
    "nginx:" + "a" * 129: "tag",
    "nginx:1\n": "tag",
    "nginx\n": "letters and digits",
    " nginx": "letters and digits",
    "nginx@": "digest",
    "nginx@sha256:0123": "digest",
    "nginx@sha256:" + "A" * 64: "digest",
    "nginx@md5:" + "a" * 32: "digest",
    f"nginx@{SHA256}@{SHA256}": "digest",
    f"nginx@{SHA256}:1": "digest",
    "/nginx": "letters and digits",
    "gcr.io//nginx": "letters and digits",
    "gcr.io/nginx/": "letters and digits",
    "a___b": "letters and digits",
    "a..b": "letters and digits",
    "-a": "letters and digits",
    "a_": "letters and digits",
    "n\u00e4me": "letters and digits",
    "\u0661": "letters and digits",
    "-gcr.io/a": "host",
    "gcr..io/a": "host",
    "gcr_x.io/a": "host",
    "gcr.io:/a": "host",
    "a." * 130 + "io/a": "host",
    "gcr.io:port/a": "host",
    "[::1/a": "host",
    "[fe80::1%eth0]/a": "host",
    "https://gcr.io/a": "host",
    "gcr.io/" + "a" * 256: "longer than 255",
    "a" * 248: "longer than 255",
}


@pytest.mark.parametrize(("text", "full"), FULL.items(), ids=lambda text: text[:40])
def test_the_full_form(text: str, full: str) -> None:
    reference = ImageReference.parse(text)
    assert str(reference) == full
    assert ImageReference.parse(full) == reference


def test_the_parts() -> None:
    assert ImageReference.parse(f"localhost:5000/team/app:2@{SHA256}") == ImageReference(
        registry="localhost:5000", repository="team/app", tag="2", digest=SHA256
    )
    assert ImageReference.parse(f"nginx@{SHA256}").tag is None
    assert ImageReference.parse("nginx").digest is None


@pytest.mark.parametrize(("text", "reason"), BAD.items(), ids=lambda text: ascii(text)[:40])
def test_the_message_has_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        ImageReference.parse(text)
    assert str(error.value).startswith("invalid image reference '")


def test_a_long_text_is_truncated_in_the_message() -> None:
    with pytest.raises(ValueError, match="invalid image reference") as error:
        ImageReference.parse("-" * 100_000)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("image", "prefix", "inside"),
    [
        ("gcr.io/app", "gcr.io", True),
        ("gcr.io/app", "gcr.io/", True),
        ("gcr.io/app", "GCR.IO", True),
        ("GCR.io/app", "gcr.io", True),
        ("gcr.io/team/app", "gcr.io/team", True),
        ("gcr.io/team/app", "gcr.io/team/", True),
        ("gcr.io/team/app:1", "gcr.io/team/app", True),
        (f"gcr.io/team/app@{SHA256}", "gcr.io/team/app", True),
        ("gcr.io/team/app", "gcr.io/team/app/sub", False),
        ("gcr.io/teams/app", "gcr.io/team", False),
        ("gcr.io/x/team/app", "gcr.io/team", False),
        ("gcr.io.evil.org/app", "gcr.io", False),
        ("gcr.io.evil.org/team/app", "gcr.io/team", False),
        ("evil.org/gcr.io/app", "gcr.io", False),
        ("gcr.io/app", "gcr.io:443", False),
        ("gcr.io:443/app", "gcr.io", False),
        ("gcr.io:443/app", "gcr.io:443", True),
        ("localhost/app", "localhost", True),
        ("localhost:5000/app", "localhost:5000/", True),
        ("localhost:5000/app", "localhost", False),
        ("[::1]:5000/app", "[::1]:5000", True),
        ("nginx", "docker.io", True),
        ("nginx", "index.docker.io", True),
        ("nginx", "docker.io/library", True),
        ("nginx", "library", True),
        ("nginx", "library/nginx", True),
        ("nginx", "nginx", False),
        ("nginx/unit", "nginx", True),
        ("nginx", "docker.io/nginx", False),
        ("bitnami/redis", "bitnami", True),
        ("bitnami/redis", "bitnami/redis", True),
        ("bitnami/redis-cluster", "bitnami/redis", False),
        ("gcr.io/bitnami/redis", "bitnami", False),
    ],
)
def test_within(image: str, prefix: str, inside: bool) -> None:
    assert ImageReference.parse(image).within(prefix) is inside


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "/",
        "//",
        "gcr.io//",
        "gcr.io//team",
        "gcr.io/*",
        "*",
        "*.gcr.io",
        "https://gcr.io",
        "gcr.io/Team",
        "gcr.io/app:1",
        "nginx:1.25",
        f"nginx@{SHA256}",
        " gcr.io",
        "gcr.io ",
        "gcr.io/team/-",
    ],
)
def test_invalid_prefixes_are_rejected(prefix: str) -> None:
    with pytest.raises(ValueError, match=r"prefix|reference"):
        ImageReference.parse("nginx").within(prefix)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("nginx", ["nginx", "nginx:latest", "docker.io/library/nginx"], ["nginx:1", f"nginx@{SHA256}", "gcr.io/nginx"]),
        ("nginx:1", ["nginx:1", "library/nginx:1"], ["nginx:12", "nginx", "nginx:1-a", "xnginx:1"]),
        (f"nginx@{SHA256}", [f"nginx@{SHA256}"], ["nginx", f"nginx@{SHA512}", f"nginx:1@{SHA256}"]),
        ("GCR.io/a", ["gcr.io/a", "GCR.IO/a:latest"], ["gcr.io/b"]),
        ("*", ["nginx", "gcr.io/a", f"localhost:5000/a@{SHA256}"], []),
        ("nginx*", ["nginx", "nginx:1", "nginx-unit", f"nginx@{SHA256}"], ["team/nginx", "nginx/unit", "gcr.io/nginx"]),
        ("nginx:1.*", ["nginx:1.2", f"nginx:1.2@{SHA256}"], ["nginx:1", "nginx:12", "nginx"]),
        ("nginx@*", [f"nginx@{SHA256}"], ["nginx:1", f"nginx:1@{SHA256}"]),
        ("team/*", ["team/a", "docker.io/team/a/b:1"], ["teams/a", "gcr.io/team/a"]),
        ("team/a*", ["team/a", "team/a:1", "team/ab", "team/a/b"], ["team/b", "team/b/a"]),
        ("gcr.io/*", ["gcr.io/a", "GCR.io/a/b"], ["gcr.io.example.org/a", "gcr.io:443/a", "nginx", "xgcr.io/a"]),
        ("gcr.io/team*", ["gcr.io/team/a", "gcr.io/teams/a", "gcr.io/team"], ["gcr.io/a/team", "gcr.io.org/team"]),
        ("gcr.io*", [], ["gcr.io/a", "gcr.io.example.org/a"]),
        ("localhost:5000/*", ["localhost:5000/a"], ["localhost:50001/a", "localhost/a"]),
        ("docker.io/*", ["nginx", "team/a"], ["gcr.io/a"]),
        ("index.docker.io/team/*", ["team/a"], ["teams/a"]),
    ],
)
def test_patterns(pattern: str, good: list[str], bad: list[str]) -> None:
    for image in good:
        assert ImageReference.parse(image).matches(pattern), image
    for image in bad:
        assert not ImageReference.parse(image).matches(pattern), image


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        " *",
        "a b*",
        "**",
        "*nginx",
        "ng*x",
        "gcr.io/*/a*",
        "Nginx",
        "gcr.io/A*",
        "nginx:",
        "gcr..io/*",
        "nginx:1:2*",
    ],
)
def test_invalid_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match="invalid image reference"):
        ImageReference.parse("nginx").matches(pattern)


label = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?", fullmatch=True)
registries = st.sampled_from(["docker.io", "localhost", "[::1]:1", "Upper"]) | st.builds("{}.{}".format, label, label)
component = st.from_regex(r"[a-z0-9]{1,4}((\.|_|__|--?)[a-z0-9]{1,4})?", fullmatch=True)
repositories = st.lists(component, min_size=2, max_size=4).map("/".join)
tags = st.none() | st.from_regex(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,9}", fullmatch=True)
references = st.builds(ImageReference, registries, repositories, tags, st.sampled_from([None, SHA256, SHA512])).filter(
    lambda reference: reference.tag or reference.digest
)


@given(references)
def test_the_full_form_parses_to_an_equal_reference(reference: ImageReference) -> None:
    assert ImageReference.parse(str(reference)) == reference


@given(references)
def test_an_image_is_within_its_ancestors_only(
    reference: ImageReference,
) -> None:
    path = f"{reference.registry}/{reference.repository}".split("/")
    for length in range(1, len(path) + 1):
        prefix = "/".join(path[:length])
        assert reference.within(prefix)
        assert reference.within(prefix + "/")
        assert not reference.within(f"{reference.registry}/{reference.repository}/below")
    assert not reference.within(f"{reference.registry}/{reference.repository}x")


@given(references)
def test_an_image_matches_its_own_prefixes_only(reference: ImageReference) -> None:
    full = str(reference)
    assert reference.matches(full)
    for length in range(full.index("/", full.index("/") + 1) + 1, len(full) + 1):
        assert reference.matches(f"{full[:length]}*"), length
    assert not reference.matches(f"neighbour.example.org/{reference.repository}*")
    assert not reference.matches(f"{reference.registry}/x{reference.repository}*")


@given(st.text(max_size=30) | st.text("ab/.:@[]_-A1", max_size=12))
def test_no_other_error_is_raised(text: str) -> None:
    try:
        reference = ImageReference.parse(text)
    except ValueError:
        return
    assert ImageReference.parse(str(reference)) == reference
