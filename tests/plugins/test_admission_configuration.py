"""Tests of AdmissionConfigurations: the plugins, and their configurations."""

import json
from pathlib import Path
from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.plugins import admission_configuration

REGISTERED = {"EventRateLimit", "Quota", "Gadget"}
HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"


def read(folder: Path, text: str) -> list[tuple[str, Any]]:
    file = folder / "admission.yaml"
    file.write_text(text)
    return [(entry.name, entry.read().tree) for entry in admission_configuration.read(file, REGISTERED)]


def errors(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        read(folder, text)
    return str(raised.value).replace(f"{folder}/", "").splitlines()


@pytest.mark.parametrize("suffix", ["svc.io", "k8s.io"])
@pytest.mark.parametrize("form", [str, lambda text: json.dumps(json.loads(text), indent=1)], ids=["flow", "JSON"])
def test_plugins_in_their_order(suffix: str, form: Any, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "quota.yaml").write_text("a: 1")
    (tmp_path / "other.yaml").write_text("b: 2")
    plugins = [
        {"name": "Quota", "path": "inner/quota.yaml"},
        {"name": "Gadget", "configuration": {"c": [3]}},
        {"name": "EventRateLimit", "path": str(tmp_path / "other.yaml"), "configuration": None},
    ]
    text = json.dumps(
        {"apiVersion": f"apiserver.config.{suffix}/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    )
    assert read(tmp_path, form(text)) == [("Quota", {"a": 1}), ("Gadget", {"c": [3]}), ("EventRateLimit", {"b": 2})]


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "quota.yaml").write_text("a: 1")
    (tmp_path / "quota.yaml").write_text("a: 2")
    monkeypatch.chdir(tmp_path)
    assert read(Path("etc"), f"{HEAD}- name: Quota\n  path: quota.yaml\n") == [("Quota", {"a": 1})]


def test_an_embedded_configuration_is_used_instead_of_the_path(tmp_path: Path) -> None:
    text = f"{HEAD}- name: Quota\n  path: nothing.yaml\n  configuration: {{}}\n"
    assert read(tmp_path, text) == [("Quota", {})]


def test_a_plugin_without_a_configuration_has_an_empty_one(tmp_path: Path) -> None:
    assert read(tmp_path, f'{HEAD}- name: Quota\n- {{name: Gadget, path: ""}}\n') == [("Quota", {}), ("Gadget", {})]


def test_places(tmp_path: Path) -> None:
    (tmp_path / "quota.yaml").write_text("# a comment\na: 1")
    file = tmp_path / "admission.yaml"
    file.write_text(f"{HEAD}- name: Quota\n  path: quota.yaml\n- name: Gadget\n  configuration:\n    b: 2\n")
    quota, gadget = (entry.read() for entry in admission_configuration.read(file, REGISTERED))
    assert (quota.file, quota.place(("a",))) == (tmp_path / "quota.yaml", (2, 4))
    assert (gadget.file, gadget.place(("b",))) == (file, (8, 8))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "plugins: []",
            [
                "1:1: apiVersion: Required value",
                '1:1: kind: Required value: must be "AdmissionConfiguration"',
                "1:10: plugins: Required value: must not be empty",
            ],
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: Configuration\nplugins:\n- name: Quota\n",
            [
                '1:13: apiVersion: Unsupported value: "apiserver.config.k8s.io/v1beta1": supported values: '
                '"apiserver.config.k8s.io/v1", "apiserver.config.svc.io/v1"',
                '2:7: kind: Unsupported value: "Configuration": supported values: "AdmissionConfiguration"',
            ],
        ),
        (
            f"{HEAD}- name: Quotas\n- name: Quota\n- {{name: Quota, config: {{}}}}\n- path: x\n- name: ''\n",
            [
                '4:9: plugins[0].name: Unsupported value: "Quotas": '
                'supported values: "EventRateLimit", "Gadget", "Quota"',
                '6:10: plugins[2].name: Duplicate value: "Quota"',
                "6:17: plugins[2].config: Forbidden: unknown field; did you mean configuration?",
                "7:3: plugins[3].name: Required value",
                "8:9: plugins[4].name: Required value: must not be empty",
            ],
        ),
        (
            f"{HEAD}- name: Quota\n  configuration: [1]\n  path: 1\n",
            [
                "5:18: plugins[0].configuration: Invalid value: a list: must be a mapping",
                "6:9: plugins[0].path: Invalid value: 1: must be a string",
            ],
        ),
        (
            f"{HEAD}- name: Quota\n  configuration:\n    a: 1\n    a: 2\nkind: AdmissionConfiguration\n",
            [
                '7:5: plugins[0].configuration.a: Duplicate value: "a": the key is in line 6 already',
                '8:1: kind: Duplicate value: "kind": the key is in line 2 already',
            ],
        ),
    ],
)
def test_errors(text: str, lines: list[str], tmp_path: Path) -> None:
    assert errors(tmp_path, text) == [f"admission.yaml:{line}" for line in lines]


def test_no_plugins_are_installed(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(f"{HEAD}- name: Quota\n")
    with pytest.raises(ConfigurationError, match=r'Unsupported value: "Quota": no plugins are installed$'):
        admission_configuration.read(file, ())


def test_a_missing_file(tmp_path: Path) -> None:
    lines = errors(tmp_path, f"{HEAD}- name: Quota\n  path: nothing.yaml\n")
    assert lines == ["nothing.yaml: cannot be read: No such file or directory"]
