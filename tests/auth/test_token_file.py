"""Token files: their formats, errors and reloads."""

import gc
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from webhooks.auth import token_file
from webhooks.auth.token_file import TokenFile, TokenHash, hash_token
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry

from ..support.servers import await_true

SECRET = "3f9c1a-secret"


def load(folder: Path, text: str | bytes, name: str = "tokens.csv") -> TokenFile:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return TokenFile(path, MetricRegistry())


def find_user(tokens: TokenFile, token: str = SECRET) -> str | None:
    return tokens.find_user(hash_token(token.encode()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokens", f"{SECRET},jane"),
        ("tokens", f"\ufeff{SECRET},jane\r\n"),
        ("tokens", f"\n{SECRET},jane\n\nother,joe\n"),
        ("tokens", f"{SECRET}, jane \n"),
        ("tokens", f'{SECRET},jane,uid-1,"team-a,team-b"\n'),
        ("tokens", f'"{SECRET}","jane"\n'),
        ("tokens", f"{SECRET},jane\n{SECRET},jane\n"),
        ("tokens.yaml", f"- {{token: {SECRET}, user: jane}}\n"),
        ("tokens.yml", f"# ours\n- token: other\n  user: joe\n- token: {SECRET}\n  user: jane\n  groups: [team-a]\n"),
        ("tokens.json", f'[{{"token": "{SECRET}", "user": "jane"}}]'),
    ],
)
def test_formats(name: str, text: str, tmp_path: Path) -> None:
    tokens = load(tmp_path, text, name)
    assert find_user(tokens) == "jane"
    assert find_user(tokens, "jane") is None
    assert find_user(tokens, "") is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tokens", "", "no tokens: write lines of a token, a comma and a user"),
        ("tokens", "\n\n", "no tokens"),
        ("tokens", SECRET, "tokens:1: must be a token of printable ASCII without spaces, and a user"),
        (
            "tokens",
            f"good,jane\n{SECRET},\n",
            "tokens:2: must be a token of printable ASCII without spaces, and a user",
        ),
        ("tokens", f"{SECRET} x,jane", "tokens:1: must be a token of printable ASCII without spaces"),
        ("tokens", f"{SECRET}\x01,jane", "tokens:1: must be a token of printable ASCII without spaces"),
        ("tokens", f"{SECRET}é,jane", "tokens:1: must be a token of printable ASCII without spaces"),
        ("tokens", f"{SECRET},jane\n{SECRET},joe", "tokens:2: another user has the same token"),
        ("tokens", b"\xff,jane", "must be lines of a token, a comma and a user: 'utf-8' codec can't decode byte 0xff"),
        ("tokens", f'"{SECRET}', "must be lines of a token, a comma and a user: unexpected end of data"),
        ("tokens", f"{SECRET},{'j' * 1024 * 1024}", "more than 1048576 bytes"),
        ("tokens.yaml", f"{SECRET},jane", "must be a list of {token: ..., user: ...}"),
        ("tokens.yaml", f"{SECRET}: jane", "must be a list of {token: ..., user: ...}"),
        ("tokens.yaml", f"- {SECRET}", "tokens.yaml:1:3: [0]: Invalid value: must be {token: ..., user: ...}"),
        ("tokens.yaml", f"- token: {SECRET}", "tokens.yaml:1:3: [0]: Invalid value: must be"),
        ("tokens.yaml", "- {token: 12345678, user: jane}", "tokens.yaml:1:3: [0]: Invalid value: must be"),
        ("tokens.yaml", f"- {{token: {SECRET}, user: jane", "not YAML"),
        (
            "tokens.yaml",
            "- {token: a b, user: jane}",
            "tokens.yaml:1:3: must be a token of printable ASCII without spaces, and a user",
        ),
        ("tokens.yaml", "[]", "no tokens"),
    ],
)
def test_errors_show_the_location_and_no_token(name: str, text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, text, name)
    assert message in str(raised.value)
    assert str(tmp_path / name) in str(raised.value)
    assert SECRET not in str(raised.value)
    assert "12345678" not in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tokens: cannot be read: No such file"):
        TokenFile(tmp_path / "tokens", MetricRegistry())


def test_only_hashes_are_in_memory(tmp_path: Path) -> None:
    objects: list[object] = [load(tmp_path, f"{SECRET},jane\n")]
    for item in objects:  # grows within the loop, up to all objects that the token file refers to
        if isinstance(item, TokenFile | dict | list | tuple):
            objects.extend(gc.get_referents(item))
    assert hash_token(SECRET.encode()) in objects
    assert not any(SECRET in repr(item) for item in objects)


# Reloads.


class Watched:
    """A token file that has been loaded."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tokens"
        self.path.write_text("old,jane\n")
        self.metrics = MetricRegistry()
        self.tokens = TokenFile(self.path, self.metrics)

    def poll(self, times: int = 2) -> dict[str, str | None]:
        for _ in range(times):
            self.tokens.poll()
        return {token: find_user(self.tokens, token) for token in ("old", "new")}

    @property
    def failures(self) -> float:
        return self.metrics.by_name["webhooks_token_file_reload_failures"].values.get((), 0.0)  # type: ignore[return-value]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


OLD, NEW = {"old": "jane", "new": None}, {"old": None, "new": "joe"}


def test_a_change_is_loaded_when_two_polls_see_it(watched: Watched) -> None:
    assert watched.poll() == OLD
    watched.path.write_text("new,joe\n")
    assert watched.poll(1) == OLD
    assert watched.poll(1) == NEW
    watched.path.write_text("old,jane\n")
    assert watched.poll() == OLD
    assert watched.failures == 0


def test_a_partial_write_is_not_loaded(watched: Watched) -> None:
    for part in ("new,j", "new,jo", "new,joe\nold,j"):
        watched.path.write_text(part)
        assert watched.poll(1) == OLD
    watched.path.write_text("new,joe\n")
    assert watched.poll() == NEW


@pytest.mark.parametrize("text", ["new", "new,joe\nnew,jane", None])
def test_an_invalid_change_is_logged_once(text: str | None, watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    if text is None:
        watched.path.unlink()
    else:
        watched.path.write_text(text)
    assert watched.poll(5) == OLD
    assert watched.failures == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the token file is not reloaded, and the previous tokens stay valid" in caplog.text
    watched.path.write_text("new,joe\n")
    assert watched.poll() == NEW


def test_an_empty_file_revokes_all_tokens(watched: Watched) -> None:
    watched.path.write_text("")
    assert watched.poll() == {"old": None, "new": None}


def test_the_file_is_watched(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_file, "_POLL_INTERVAL", 0.01)
    with watched.tokens.watching():
        watched.path.write_text("new,joe\n")
        await_true(lambda: find_user(watched.tokens, "new") == "joe", "it is reloaded")


def test_a_change_during_the_first_read_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "tokens", token_file._read
    path.write_text("old,jane\n")

    def read_and_change(path: Path) -> Mapping[TokenHash, str]:
        users = read(path)
        path.write_text("new,joe\n")
        return users

    monkeypatch.setattr(token_file, "_read", read_and_change)
    tokens = TokenFile(path, MetricRegistry())
    monkeypatch.undo()
    for _ in range(2):
        tokens.poll()
    assert [find_user(tokens, token) for token in ("old", "new")] == [None, "joe"]
