"""What all records are written with: two writers of one file at once."""

from pathlib import Path

import pytest

from mapflake import repro


def test_of_two_writers_at_once_each_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    seen = []

    def lines():
        yield "outer\n" * 2000
        repro.write_text(path, "inner\n" * 100)  # another writer begins and ends meanwhile
        seen.append(path.read_text())
        yield "outer\n"

    repro.write_text(path, lines())
    assert (seen, path.read_text()) == (["inner\n" * 100], "outer\n" * 2001)
    assert [*tmp_path.iterdir()] == [path]


def test_a_writer_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    repro.write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        repro.write_text(path, ["new", "\ud800"])
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]
