"""A lab for all tests of this folder, put back before each of them; and why a plain `pytest` passes by here.

The lab is asked for by name: `pytest tests/lab`, or `make test-lab`, which also makes what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.lab import build, screens
from tests.lab.desired import Caller, clean
from tests.lab.machine import Lab
from tests.lab.world import World, portal_of

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only where a folder or file of this one was named."""
    del collection_path  # this file is asked about its own folder alone
    named = [(config.invocation_params.dir / word.partition("::")[0]).resolve() for word in config.args]
    return None if any(path == HERE or HERE in path.parents for path in named) else True


@pytest.fixture(scope="session")
def lab_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that runs as long as the tests do; made before where it is not in the cache."""
    ready = build.ensure()
    lab = Lab.start(tmp_path_factory.mktemp("lab"), ready=ready)
    yield lab
    lab.stop()


@pytest.fixture
def lab(lab_host: Lab) -> Lab:
    """The lab as new."""
    lab_host.reset()
    return lab_host


@pytest.fixture
def caller(lab_host: Lab) -> Iterator[Caller]:
    """vmctl in the lab, whose test ends with nothing left of what it did."""
    with clean(lab_host) as caller:
        yield caller


@pytest.fixture(scope="module")
def portal(lab_host: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A portal whose only host is the lab; it ends with its module, for others want the lab to themselves."""
    with portal_of(lab_host, tmp_path_factory.mktemp("portal")) as running:
        yield running


@pytest.fixture
def world(lab: Lab, portal: World) -> World:
    """The portal, with the lab as new."""
    return portal


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium; each person gets a context of it."""
    with screens.browser() as launched:
        yield launched
