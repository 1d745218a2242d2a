"""The pytest fixture `standin`: one program for all tests of a run, reset before each."""

import os

import pytest

from . import StandIn, add_plugin


def pytest_configure():
    # GStreamer reads the path once, when the first test imports it.
    add_plugin(os.environ)


@pytest.fixture(scope="session")
def _standin_program():
    with StandIn() as standin:
        yield standin


@pytest.fixture
def standin(_standin_program, monkeypatch):
    """A StandIn without faults and sessions. The elements of the test's process find it by themselves."""
    monkeypatch.setenv("DECART_BASE_URL", _standin_program.url)
    monkeypatch.setenv("DECART_API_KEY", "any")
    _standin_program.reset()
    return _standin_program
