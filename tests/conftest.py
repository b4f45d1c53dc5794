"""How tests are spread over processes (`pytest -n 2 --dist loadgroup`): what shares fixtures or files is together."""

from collections.abc import Generator

import pytest

APART = "test_hostile.py"  # its cases share nothing


@pytest.hookimpl(wrapper=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Puts all notebooks, which read each other's results, into one group, and every file of tests into its own."""
    for item in items:
        if item.path.name != APART:
            group = "notebooks" if item.path.suffix == ".ipynb" else item.path.as_posix()
            item.add_marker(pytest.mark.xdist_group(group))
    return (yield)
