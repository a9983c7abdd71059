"""The cluster that all end-to-end tests share. Its logs are added to failures."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .cluster import Cluster
from .kubectl import Kubectl
from .processes import Processes, running

VARIABLE = "KUBEBUILDER_ASSETS"
PROGRAMS = ("etcd", "kube-apiserver", "kubectl")
LOG_LINES = 60

PROCESSES = pytest.StashKey[Processes]()
LOG_STARTS = pytest.StashKey[dict[str, int]]()


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder with the programs of Kubernetes."""
    if not (folder := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} is not set: no folder with {', '.join(PROGRAMS)}")
    missing = [program for program in PROGRAMS if not os.access(Path(folder, program), os.X_OK)]
    assert not missing, f"{VARIABLE}={folder} lacks {', '.join(missing)}"
    return Path(folder)


@pytest.fixture(scope="session")
def processes(
    assets: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Processes]:
    with running(tmp_path_factory.mktemp("cluster")) as started:
        pytestconfig.stash[PROCESSES] = started
        yield started


@pytest.fixture(scope="session")
def cluster(assets: Path, processes: Processes) -> Cluster:
    return Cluster(assets, processes.folder, processes)


@pytest.fixture
def admin(cluster: Cluster) -> Kubectl:
    """kubectl as a member of system:masters: requests pass admission, but no authorizer."""
    return cluster.admin


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    processes = item.config.stash.get(PROCESSES, ())
    item.stash[LOG_STARTS] = {process.name: process.size() for process in processes}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what each process logged since the start of the test."""
    report = yield
    if report.failed:
        for process in item.config.stash.get(PROCESSES, ()):
            lines = process.text(item.stash[LOG_STARTS].get(process.name, 0)).splitlines()
            if lines:
                report.sections.append((f"{process.name} logged", "\n".join(lines[-LOG_LINES:])))
    return report
