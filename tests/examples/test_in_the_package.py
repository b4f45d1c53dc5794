"""What the page says of the pipeline: the designer as a file of the package, and a line that imports it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from small_repo import ROOT

LINT = Path(sys.executable).with_name("lint-imports")

IN_THE_LOOP = """
import sys
from pathlib import Path

sys.path.append("docs/examples")
import toy_learner

rounds = toy_learner.run("waits_where_they_fail", Path("rounds"))
print(len(rounds), rounds[-1].arm, *(one.proposal.reply for one in rounds[1:]), sep="; ")
"""
CODE = "from mapflake.provenance import code_sha256; print(code_sha256('mapflake.engineer.rounds'))"
RUN = "run: {profile: smoke, arms: [waits_where_they_fail], seeds: [0], bank: [0, 1]}"


def test_the_documented_edit_makes_an_arm(tmp_path):
    """As a user would: the commands of the page in a copy of the repository, then its checks, and an arm."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if (ROOT / name).is_file() and not name.startswith(("reports/", "tests/")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    page = (tmp_path / "docs/bring_your_own.md").read_text(encoding="utf-8")
    shutil.copy(tmp_path / "docs/examples/own_designer.py", tmp_path / "docs/examples/mine.py")  # the page's first step
    (commands,) = re.findall(r"<!-- in the pipeline -->\n```bash\n(.*?)```", page, re.DOTALL)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def done(*command, fails=False):
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert bool(result.returncode) == fails, result.stdout + result.stderr
        return result.stdout + result.stderr

    (line,) = re.findall(r"seeds: \[([\d, ]+)\]", page)  # and the loop below it, and the stage that it names
    assert f"for seed in {line.replace(',', '')}; do" in page
    assert f"ablations@waits_where_they_fail-{line.split(',')[0]}`" in page
    done("bash", "-euc", commands)
    output = done(sys.executable, "-c", IN_THE_LOOP + CODE)
    (before,) = re.findall("^[0-9a-f]{64}$", output, re.MULTILINE)
    assert "3; waits_where_they_fail; waits where they fail; waits where they fail" in output
    done(LINT)
    words = tmp_path / "mapflake/engineer/words.py"
    circle = "from mapflake.engineer import prompt as prompt\n"  # prompt -> reply -> words
    words.write_text(f"{words.read_text(encoding='utf-8')}{circle}", encoding="utf-8")
    assert "no circle of imports BROKEN" in done(LINT, fails=True)
    words.write_text(words.read_text(encoding="utf-8").removesuffix(circle), encoding="utf-8")
    done(sys.executable, "-m", "ruff", "check", "--no-cache", "mapflake")
    designer_file = tmp_path / "mapflake/engineer/own_designer.py"
    designer_file.write_text(
        designer_file.read_text(encoding="utf-8").replace('"hole_ratio": 0.15', '"hole_ratio": 0.25')
    )
    assert done(sys.executable, "-c", CODE).strip() != before  # so that no round of the older designer is taken over
    params = tmp_path / "params.yaml"
    params.write_text(re.sub(r"^run:.*", RUN, params.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")
    assert "parameters and notebooks are in order" in done(sys.executable, "-m", "mapflake.nb", "prepare")
