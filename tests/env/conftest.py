import pytest

from mapflake.env import kernel


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain solver and generator, as where there is no compiler."""
    monkeypatch.setattr(kernel, "takes", lambda size, agents: False)


@pytest.fixture(scope="session")
def compiled() -> None:
    """The compiled solver and generator."""
    if kernel.library(True) is None:
        pytest.skip("no C compiler here: apt-get install gcc && make test")


@pytest.fixture(params=["compiled", "in_python"])
def in_both(request: pytest.FixtureRequest) -> None:
    """Each test twice: with the compiled solver and without it."""
    request.getfixturevalue(request.param)
