"""`make report`: the active run as one HTML file (`plots.page`), of its first training seed."""

from __future__ import annotations

from pathlib import Path

from mapflake import repro
from mapflake.engineer import History, Ledger
from mapflake.nb import params
from mapflake.nb.folders import require
from mapflake.plots.page import page
from mapflake.study.names import name


def report(root: Path) -> Path:
    """Writes `runs/<profile>/report.html` and returns its path; arms without a finished round are left out.

    Raises FileNotFoundError if not even round 0 is there.
    """
    run = params.load(root).run
    folder, seed = root / "runs" / run.profile, run.seeds[0]
    fixed = Ledger(require(f"runs/{run.profile}", f"baseline_rl/{seed}/rounds.jsonl")).rounds
    trained = Ledger(folder / f"trained_engineer/{seed}/rounds.jsonl").rounds
    histories: dict[str, History] = {}
    for arm in ("engineer", *run.arms):
        stage = f"engineer_loop/{seed}" if arm == "engineer" else f"ablations/{arm}-{seed}"
        rounds = Ledger(folder / stage / "rounds.jsonl").rounds
        parents = {rounds[0].parent_sha256, rounds[0].before_design_rl_sha256} if rounds else set()  # of its weights
        parent = next((r for r in (*fixed, *trained) if r.checkpoint_sha256 in parents), None)
        if parent:
            before = fixed[: parent.index + 1] if parent in fixed else (parent,)  # `fixed_longer` goes on after `fixed`
            histories[name(arm)] = (*before, *(r for r in rounds if r.index > parent.index))
    about = f"Training seed {seed}. One run: another seed may change more than the designers do (reports/results.md)."
    out = folder / "report.html"
    repro.write_text(out, page({**histories, name("fixed"): fixed}, title=f"mapflake: {run.profile}", about=about))
    return out
