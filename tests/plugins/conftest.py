import pytest

from tests.plugins.dists import Site


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)
