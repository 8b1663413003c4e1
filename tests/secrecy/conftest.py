import pytest
from secret_cell import People, people_in


@pytest.fixture(scope="session")
def people(tmp_path_factory) -> People:
    return people_in(tmp_path_factory.mktemp("people"), 14)
