"""The collector during imports: it rests, it is as it was afterwards, and what is made later is still collected."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import pytest

from mapflake.extras import needs


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_is_left_as_it_was(
    fails: bool, collects: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_module_of_this_test.py").write_text("import gc\nCOLLECTS = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        if not collects:
            gc.disable()
        if fails:
            with pytest.raises(ImportError, match="this needs no_such_package: "), needs("lab"):
                import no_such_package  # noqa: F401
        else:
            with needs("lab"):
                import a_module_of_this_test as imported
            assert not imported.COLLECTS
        assert gc.isenabled() == collects
    finally:
        gc.enable()
        sys.modules.pop("a_module_of_this_test", None)

    class Circle: ...

    made = Circle()
    made.itself = made  # type: ignore[attr-defined]
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
