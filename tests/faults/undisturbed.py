"""What a run left, compared with an undisturbed one. Imports nothing that takes time."""

from __future__ import annotations

from pathlib import Path

STAGES = ("warm_start", "shared", "arm", "language_model")  # what each writes, after those before


def run_toy(*arguments: object) -> None:
    """Runs `toy.run`, in a process that has imported it already."""
    import toy

    toy.run(*arguments)


def files(folder: Path) -> dict[str, bytes]:
    """Returns all files under a folder, the hidden ones too."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def assert_as_undisturbed(folder: Path, stage: str, undisturbed: Path) -> None:
    """Checks that a stage left the files of an undisturbed run, byte for byte, and none beside."""
    found, expected = (
        {k: v for k, v in files(f).items() if k.lstrip(".").startswith(stage)} for f in (folder, undisturbed)
    )
    assert sorted(found) == sorted(expected)
    assert [name for name in found if found[name] != expected[name]] == []
