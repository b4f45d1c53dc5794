"""The whole pipeline for real, smoke profile; in another clone, the notebooks by hand: the same bytes, no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from on_record import disagreements
from small_repo import ROOT, done, files

from mapflake.engineer import Ledger
from mapflake.nb import params
from mapflake.study.names import name as label


def clone(folder: Path) -> Path:
    """Copies what git tracks, as it is in the working tree, into a repository of its own with nothing run yet."""
    listed = done("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        result = name == "dvc.lock" or name.startswith("reports/")
        if (ROOT / name).is_file() and not result:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    path, arms = folder / "params.yaml", "arms: [engineer_trained, engineer_base, heuristic]"
    assert path.read_text().count(arms) == 1
    path.write_text(path.read_text().replace(arms, "arms: [engineer_trained]"))  # by hand, 05 is a rule
    done("git", "init", "--quiet", cwd=folder)
    params.choose(folder, "smoke")
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


def without_network(folder: Path) -> str:
    """Returns a PYTHONPATH with which Python's processes may connect to this machine alone; others are logged."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_NETWORK.format(log=str(folder / "log.txt")))
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def command(folder: Path, *arguments: str, **more: str) -> str:
    """Returns the output of a command with this environment's programs first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONHASHSEED": "random", "DVC_NO_ANALYTICS": "1"} | more
    return done(*arguments, cwd=folder, env=environment)


NBVAL = ("--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=600", "notebooks")
STAGES = ("env_design", "warm_start", "student/0", "baseline_rl/0", "engineer_loop/0", "bank", "trained_engineer/0")


@pytest.mark.slow
def test_the_pipeline_and_the_notebooks_by_hand_make_the_same_bytes(tmp_path: Path) -> None:
    """One clone runs the pipeline; in another, elsewhere, nbval runs the notebooks as they are."""
    folders = [clone(tmp_path / name) for name in ("one", "a_clone_with_another_path")]
    shutil.copytree(ROOT / "reports/cells/study", folders[1] / "reports/cells/study")  # which explore.ipynb shows
    path, log = without_network(tmp_path / "blocked"), tmp_path / "blocked/log.txt"
    probe = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    with pytest.raises(AssertionError, match="the network is not to be used"):  # it is in force
        command(tmp_path, sys.executable, "-c", probe, PYTHONPATH=path)
    log.unlink()
    with ThreadPoolExecutor(2) as pool:
        pipeline = pool.submit(command, folders[0], "dvc", "repro", PYTHONPATH=path)
        package = f"{folders[1]}{os.pathsep}{path}"  # which a stage puts there itself
        by_hand = pool.submit(command, folders[1], "pytest", *NBVAL, PYTHONPATH=package)
    pipeline.result(), by_hand.result()
    assert not log.exists(), log.read_text()
    reports, run = files(folders[0] / "reports"), files(folders[0] / "runs/smoke")
    hand = {name.removeprefix("interactive/"): content for name, content in files(folders[1] / "runs").items()}
    made = {name: run[name] for name in run if name.startswith(STAGES) and not name.endswith("notebook.ipynb")}
    names = ("boards", "base-0", "round_0-0", "fixed-0", "engineer-0")
    made |= {f"cells/{name}.json": reports[f"cells/smoke/{name}.json"] for name in names}
    assert len([name for name in made if name.endswith(".safetensors")]) > 8
    assert [name for name in made if made[name] != hand.get(name)] == []
    fixed = json.loads(reports["cells/smoke/fixed-0.json"])
    first, last = (row["checkpoint_sha256"] for row in fixed["rounds"])
    assert first != last  # something was trained
    (shared,) = json.loads(reports["cells/smoke/round_0-0.json"])["rounds"]
    trained = json.loads(reports["cells/smoke/engineer_trained-0.json"])["rounds"][0]
    assert (trained["config"], trained["seed"]) == (shared["config"], shared["seed"])  # the same boards for all arms
    assert trained["parent_sha256"] != shared["parent_sha256"]
    assert {"rollouts", "replies", "demonstrations"} == set(trained["training"]["spent before"])

    kinds = {name.split("/")[0] for name in reports}
    assert kinds == {"cells", "figures", "notebooks", "results.md", "metrics.json", "summary.json", "validation.json"}
    assert len([name for name in reports if name.endswith(".ipynb")]) == 6
    assert "cells/heuristic-0.json" in hand
    cells = {name for name in reports if name.startswith("cells/smoke/")}
    ledgers = {  # arm -> the stages whose ledgers have its own rounds
        "round_0": ["baseline_rl/0"],
        "fixed": ["baseline_rl/0"],
        "engineer": ["engineer_loop/0"],
        "engineer_trained": ["trained_engineer/0", "ablations/engineer_trained-0"],
    }
    arms = {f"cells/smoke/{arm}-0.json" for arm in ledgers}
    assert cells == arms | {f"cells/smoke/{name}.json" for name in (*names, "design_rl/0")}
    for arm, stages in ledgers.items():
        rounds = [r for stage in stages for r in Ledger(folders[0] / f"runs/smoke/{stage}/rounds.jsonl").rounds]
        own_rounds = [r for r in rounds if stages != ["baseline_rl/0"] or (r.index == 0) == (arm == "round_0")]
        assert disagreements(json.loads(reports[f"cells/smoke/{arm}-0.json"]), own_rounds) == [], arm
    assert trained["before_design_rl_sha256"] == shared["parent_sha256"]
    for content in reports.values():
        assert len(content) < 1_000_000
        assert not any(str(folder).encode() in content for folder in (*folders, ROOT, Path.home()))

    summary = json.loads(reports["summary.json"])
    assert {"valid", "optimal"} < set(summary["engineer"])
    plots = json.loads(command(folders[0], "dvc", "plots", "show", "--json"))["data"]
    drawn = plots["reports/validation.json"][0]["content"]
    assert [row["arm"] for row in drawn["data"]["values"] if row["round"] == 2].count(label("engineer_trained")) == 1
    assert drawn["encoding"]["color"]["field"] == "arm"
    assert any(name.endswith(".png") for name in plots)

    rounds = folders[0] / "mapflake/engineer/rounds.py"
    rounds.write_text(rounds.read_text() + "\n# a comment is no other code\n")
    for arguments in ("config user.name a", "config user.email a@b", "add .", "commit -qm a"):
        command(folders[0], "git", *arguments.split())
    output = command(folders[0], "dvc", "exp", "run", "--name", "other", "-S", "analysis.comparison.metric=optimal")
    assert re.findall(r"Running stage '(\w+)'", output) == ["prepare", "analysis", "publish"]  # and nothing is trained
    revisions = json.loads(command(folders[0], "dvc", "exp", "show", "--json"))
    (experiment,) = [e["revs"][0] for revision in revisions for e in revision["experiments"] or []]
    assert experiment["name"] == "other"
    assert experiment["data"]["metrics"]["reports/summary.json"]["data"] == summary  # another question, the same cells
