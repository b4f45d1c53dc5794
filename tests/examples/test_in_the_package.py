"""What the page says of the pipeline: the same files inside the package, and a line that imports each."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

LOOK = """
from mapflake.engineer import read_reply
from mapflake.engineer.designers import EngineerParams, params_of
from mapflake.env import EnvConfig, generate

assert params_of("waits_where_they_fail", EngineerParams()) is None
assert params_of("engineer_with_goals", EngineerParams()) is None
assert params_of("mine", EngineerParams(), {"mine": {"variant": "lean"}}).variant == "lean"
print(generate(EnvConfig.uniform([5], 0.16, wall_ratio=1.0), 1, seed=0)[0].instance.to_text())
print(read_reply("size5 p100 p20 any p85 end", [5], "compact").config)
"""


def test_files_dropped_into_the_package_are_known_to_every_process(tmp_path):
    package = tmp_path / "mapflake"
    shutil.copytree(ROOT / "mapflake", package, ignore=shutil.ignore_patterns("__pycache__"))
    for room, scripts in (("env", ["own_dimension"]), ("engineer", ["own_designer", "own_variant"])):
        for script in scripts:
            shutil.copy(ROOT / "docs/examples" / f"{script}.py", package / room)
            with open(package / room / "__init__.py", "a") as file:
                file.write(f"import mapflake.{room}.{script}\n")
    done = subprocess.run([sys.executable, "-c", LOOK], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *board, config = done.stdout.splitlines()
    columns = ["".join(row).count("H") for row in zip(*(line.split() for line in board), strict=True)]
    rows = [line.count("H") for line in board]
    assert 4 in rows + columns
    assert config.endswith(
        "SizeConfig(data_ratio=1.0, hole_ratio=0.2, wait_ratio=None, wall_ratio=0.85)}, num_agents=2)"
    )
