"""How tests are spread over processes (`pytest -n 2`): what shares fixtures or files stays together."""

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the order of work: file by file, all notebooks as one, since they read each other's results."""
    from xdist.scheduler import LoadScopeScheduling

    class FileByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            if file.endswith("test_hostile.py"):  # 192 cases that share nothing
                return nodeid
            return "notebooks" if file.startswith("notebooks/") else file

    return FileByFile(config, log)
