#!/bin/bash
# Submits all cells of the line `run`: bash docs/examples/cluster/study.sh, in the clone. Arrays wait for those before.
set -euo pipefail
mkdir -p runs
all=$(dvc stage list --name-only)
job=$(sbatch --parsable --output=runs/slurm-%j.log --wrap="dvc repro warm_start")
for stages in 'student' 'baseline_rl|bank' 'others|engineer_loop|trained_engineer' 'ablations'; do
  mapfile -t cells < <(grep -E "^($stages)@" <<< "$all")
  ((${#cells[@]})) || continue  # none of them in the line `run`
  options=(--dependency="afterok:$job" --array="1-${#cells[@]}")
  job=$(sbatch --parsable "${options[@]}" docs/examples/cluster/cells.slurm "${cells[@]}")
done
sbatch --output=runs/slurm-%j.log --dependency="afterok:$job" --kill-on-invalid-dep=yes --wrap="dvc repro"
