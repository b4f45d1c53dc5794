"""The whole pipeline for real, smoke profile: two clones, byte for byte the same, one of them without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from mapflake.engineer import Ledger
from mapflake.study import cells
from mapflake.trainer import evaluate

ROOT = Path(__file__).resolve().parents[2]


def clone(folder: Path) -> Path:
    """Copies what git tracks, as it is in the working tree, into a repository of its own with nothing run yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        result = name == "dvc.lock" or (name.startswith("reports/") and not name.startswith("reports/study/"))
        if (ROOT / name).is_file() and not result:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    command(folder, sys.executable, "-m", "mapflake.nb", "profile", "smoke")
    return folder


NO_NETWORK = """
import sys

def refuse(event, arguments):
    if event == "socket.connect" or event == "socket.sendto":
        address = arguments[1]
        outside = isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        outside = arguments[0] not in ("127.0.0.1", "::1", "localhost", "", None)
    else:
        return
    if outside:
        with open({log!r}, "a") as log:
            log.write(f"{{event}} {{arguments}} {{sys.argv}}\\n")
        raise OSError("the network is not to be used")

sys.addaudithook(refuse)
"""


def without_network(folder: Path) -> dict[str, str]:
    """Returns the environment in which Python's processes may connect to this machine alone; others are logged."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_NETWORK.format(log=str(folder / "log.txt")))
    return {"PYTHONPATH": str(folder)}


def command(folder: Path, *arguments: str, **more: str) -> str:
    """Returns the output of a command with this environment's programs first on the path."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    environment |= {"PYTHONHASHSEED": "random", "DVC_NO_ANALYTICS": "1"} | more
    done = subprocess.run(
        arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


def published(folder: Path) -> dict[str, bytes]:
    files = [folder / "dvc.lock", *(p for p in (folder / "reports").rglob("*") if p.is_file())]
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}
    # DVC runs stages that do not need each other in any order, and writes them down in that.
    return found | {"dvc.lock": json.dumps(yaml.safe_load(found["dvc.lock"]), sort_keys=True).encode()}


@pytest.mark.slow
def test_two_clones_make_the_same_bytes(tmp_path: Path) -> None:
    folders = [clone(tmp_path / name) for name in ("one", "a_clone_with_another_path")]
    blocked = without_network(tmp_path / "blocked")
    inherited = os.environ.get("PYTHONPATH")
    blocked["PYTHONPATH"] = os.pathsep.join(filter(None, [blocked["PYTHONPATH"], inherited]))
    probe = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    with pytest.raises(AssertionError, match="the network is not to be used"):  # it is in force
        command(tmp_path, sys.executable, "-c", probe, **blocked)
    (tmp_path / "blocked" / "log.txt").unlink()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda folder, more: command(folder, "dvc", "repro", **more), folders, ({}, blocked)))
    assert not (tmp_path / "blocked" / "log.txt").exists(), (tmp_path / "blocked" / "log.txt").read_text()
    one, other = map(published, folders)
    assert sorted(one) == sorted(other)
    assert [name for name in one if one[name] != other[name]] == []
    kinds = {name.split("/")[1] for name in one if name.startswith("reports/")}
    extracts = {"metrics.json", "summary.json", "validation.json"}
    assert kinds == {"figures", "notebooks", "results.md", "rounds", "study", "study.md", *extracts}
    assert len([name for name in one if name.endswith(".ipynb")]) == 7
    assert all(len(content) < 1_000_000 for content in one.values())
    for content in one.values():
        assert not any(str(folder).encode() in content for folder in (*folders, ROOT, Path.home()))

    again = command(folders[0], "dvc", "repro")
    assert "Data and pipelines are up to date." in again
    assert "Running stage" not in again
    assert published(folders[0]) == one
    shown = command(folders[0], sys.executable, "-m", "mapflake.nb", "results")
    assert (folders[0] / "reports/results.md").read_text().splitlines()[0] in shown
    assert "Profile smoke." in shown
    compare_experiments(folders[0])
    measure_a_cell(folders[1])


def measure_a_cell(folder: Path) -> None:
    """A cell of the study is what the notebook of its arm measures under that seed: the same rounds and plans."""
    command(folder, "dvc", "repro", "reports/study/dvc.yaml:primary@heuristic-0")
    cell = json.loads((folder / "reports/study/cells/heuristic-0/cell.json").read_text())
    arm = folder / "runs/pipeline/ablations/heuristic"
    for subset, found in cell["benchmark"].items():
        rollouts = evaluate.load_rollouts(arm / f"benchmark/{subset}.jsonl")
        assert found == cells.outcomes(rollouts, [r.task for r in rollouts if r.sample == 0])
    by_notebook, by_study = (
        Ledger(f / "rounds.jsonl").rounds for f in (arm, folder / "reports/study/cells/heuristic-0")
    )
    assert [r.checkpoint_sha256 for r in by_study] == [r.checkpoint_sha256 for r in by_notebook]
    assert [r.config for r in by_study] == [r.config for r in by_notebook]

    # In a clone there are the cells, but neither round 0's weights nor the cache; and the code goes on changing.
    round_0 = {p: p.read_bytes() for p in (folder / "reports/study/cells/round_0-0").iterdir()}
    shutil.rmtree(folder / "runs/study")
    (folder / "mapflake/engineer/rounds.py").open("a").write("# a comment\n")
    for finished in ("round_0@0", "primary@heuristic-0"):
        said = command(folder, "dvc", "repro", "--single-item", f"reports/study/dvc.yaml:{finished}")
        assert "Running stage" not in said
    command(folder, "dvc", "repro", "--single-item", "reports/study/dvc.yaml:primary@fixed-0")
    assert {p: p.read_bytes() for p in (folder / "reports/study/cells/round_0-0").iterdir()} == round_0
    fixed = Ledger(folder / "reports/study/cells/fixed-0/rounds.jsonl").rounds
    assert fixed[0].parent_sha256 == by_study[0].parent_sha256


def compare_experiments(folder: Path) -> None:
    """DVC as a person uses it, on a finished pipeline: its tables and plots, and a queued experiment."""
    summary = json.loads((folder / "reports/summary.json").read_text())
    assert {"valid", "optimal"} < set(summary["engineer"])
    told = json.loads(command(folder, "dvc", "metrics", "show", "--json"))
    assert told[""]["data"]["reports/summary.json"]["data"] == summary
    plots = json.loads(command(folder, "dvc", "plots", "show", "--json"))["data"]
    drawn = plots["reports/validation.json"][0]["content"]
    assert [row["arm"] for row in drawn["data"]["values"] if row["round"] == 2].count("heuristic expert") == 1
    assert drawn["encoding"]["color"]["field"] == "arm"
    assert any(name.endswith("analysis_curves.png") for name in plots)

    for arguments in (
        ("config", "user.name", "a"),
        ("config", "user.email", "a@b"),
        ("add", "."),
        ("commit", "-qm", "a"),
    ):
        command(folder, "git", *arguments)
    command(folder, "dvc", "exp", "run", "--queue", "--name", "few", "-S", "+analysis.arms=[heuristic]")
    command(folder, "dvc", "exp", "run", "--run-all")
    (baseline,) = [one for one in json.loads(command(folder, "dvc", "exp", "show", "--json")) if one["experiments"]]
    (found,) = [one["revs"][0] for one in baseline["experiments"]]
    assert found["name"] == "few"
    assert set(found["data"]["metrics"]["reports/summary.json"]["data"]) == set(summary) - {
        "base_engineer",
        "domain_randomisation",
    }
    assert command(folder, "git", "status", "--porcelain") == ""  # it ran in a folder of its own
