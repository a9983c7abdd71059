"""Files of tokens: what they may hold, what is told of mistakes in them, and how they are followed."""

import gc
import logging
from pathlib import Path

import pytest

from webhooks.auth import token_file as tokens
from webhooks.auth.token_file import TokenFile, hash_token
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry

from ..support.servers import await_true

SECRET = "3f9c1a-secret"


def token_file(folder: Path, text: str | bytes, name: str = "tokens.csv") -> TokenFile:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return TokenFile(file, MetricRegistry())


def user(found: TokenFile, token: str = SECRET) -> str | None:
    return found.find_user(hash_token(token.encode()))


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
def test_tokens_and_their_users(name: str, text: str, tmp_path: Path) -> None:
    found = token_file(tmp_path, text, name)
    assert user(found) == "jane"
    assert user(found, "jane") is None
    assert user(found, "") is None


@pytest.mark.parametrize(
    ("name", "text", "says"),
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
def test_mistakes_are_told_with_their_place_and_without_the_token(
    name: str, text: str | bytes, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        token_file(tmp_path, text, name)
    assert says in str(raised.value)
    assert str(tmp_path / name) in str(raised.value)
    assert SECRET not in str(raised.value)
    assert "12345678" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tokens: cannot be read: No such file"):
        TokenFile(tmp_path / "tokens", MetricRegistry())


def test_only_hashes_are_kept(tmp_path: Path) -> None:
    found = token_file(tmp_path, f"{SECRET},jane\n")
    reached: list[object] = [found]
    for each in reached:  # it grows as we go: everything that the file leads to
        if isinstance(each, TokenFile | dict | list | tuple):
            reached.extend(gc.get_referents(each))
    assert hash_token(SECRET.encode()) in reached
    assert not any(SECRET in repr(each) for each in reached)


# Following.


class Followed:
    """A file of tokens that has been read, and its looks."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "tokens"
        self.file.write_text("old,jane\n")
        self.meters = MetricRegistry()
        self.tokens = TokenFile(self.file, self.meters)

    def look(self, times: int = 2) -> dict[str, str | None]:
        for _ in range(times):
            self.tokens.poll()
        return {token: user(self.tokens, token) for token in ("old", "new")}

    @property
    def failures(self) -> float:
        return self.meters.by_name["webhooks_token_file_reload_failures"].values.get((), 0.0)  # type: ignore[return-value]


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


OLD, NEW = {"old": "jane", "new": None}, {"old": None, "new": "joe"}


def test_a_change_is_taken_over_when_it_has_settled(followed: Followed) -> None:
    assert followed.look() == OLD
    followed.file.write_text("new,joe\n")
    assert followed.look(1) == OLD
    assert followed.look(1) == NEW
    followed.file.write_text("old,jane\n")
    assert followed.look() == OLD
    assert followed.failures == 0


def test_what_is_still_being_written_is_not_taken_over(followed: Followed) -> None:
    for part in ("new,j", "new,jo", "new,joe\nold,j"):
        followed.file.write_text(part)
        assert followed.look(1) == OLD
    followed.file.write_text("new,joe\n")
    assert followed.look() == NEW


@pytest.mark.parametrize("text", ["new", "new,joe\nnew,jane", None])
def test_what_is_no_good_is_complained_of_once(
    text: str | None, followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    if text is None:
        followed.file.unlink()
    else:
        followed.file.write_text(text)
    assert followed.look(5) == OLD
    assert followed.failures == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the token file is not reloaded, and the previous tokens stay valid" in caplog.text
    followed.file.write_text("new,joe\n")
    assert followed.look() == NEW


def test_an_empty_file_takes_all_tokens_back(followed: Followed) -> None:
    followed.file.write_text("")
    assert followed.look() == {"old": None, "new": None}


def test_it_is_looked_at_over_and_over(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_POLL_INTERVAL", 0.01)
    with followed.tokens.watching():
        followed.file.write_text("new,joe\n")
        await_true(lambda: user(followed.tokens, "new") == "joe", "it is taken over")
