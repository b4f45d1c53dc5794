"""The code of docs/runs.md runs from top to bottom, on a run made here and on the committed records."""

import contextlib
import io
import re
import shutil

from small_repo import ROOT

from mapflake.repro import append_jsonl


def test_the_blocks_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/examples"))
    import toy_learner

    toy_learner.run("heuristic", tmp_path / "toy")
    shutil.copytree(tmp_path / "toy/heuristic", tmp_path / "runs/default/engineer_loop/0")
    append_jsonl(tmp_path / "runs/default/times/warm_start.jsonl", {"stage": "x", "seconds": 2, "cpu_seconds": 1})
    (tmp_path / "reports").symlink_to(ROOT / "reports")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/runs.md").read_text(encoding="utf-8"), re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec("".join(blocks), {})
    said = out.getvalue()
    assert re.search(
        r"^1 heuristic valid 0\.\d+ .*/round-1/checkpoint\n  3x3: \d+% of the boards, holes 0\.", said, re.M
    )
    assert re.search(r"^engineer_trained: \+\d\.\d \(.*\) points, \d+ seeds, p = 0\.\d+$", said, re.M)
    assert "x: 2 s, 1 CPU seconds" in said
