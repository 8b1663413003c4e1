import pytest

from hpfl.deployment.environment import prepare

prepare()  # before anything imports grpc

from deployment_nodes import Certificates  # noqa: E402


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def lines(caplog):
    """The fields of all lines of the log with an event, as far as they have been written."""
    caplog.set_level("INFO", logger="hpfl.deployment")
    return lambda event: [vars(record)["fields"] for record in caplog.records if record.getMessage() == event]


@pytest.fixture(autouse=True)
def _no_line_is_held_back_for_those_of_another_test(monkeypatch):
    from hpfl.deployment import logs
    from hpfl.deployment.held_back import HeldBack

    monkeypatch.setattr(logs, "_held_back", HeldBack())
