import pytest

from hpfl.deployment.environment import prepare

prepare()  # before anything imports grpc

from deployment_nodes import Certificates  # noqa: E402


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certs"))
