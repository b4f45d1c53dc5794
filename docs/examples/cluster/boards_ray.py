"""Draws a set of boards on every core of a Ray cluster: `python boards_ray.py <shared folder>` (`pip install ray`)."""

import sys

import ray

from mapflake.env import EnvConfig, generate, save_tasks

CONFIG, N, JOBS = EnvConfig.uniform(range(3, 11), 0.2, 0.5), 4000, 16


@ray.remote
def draw(job: int, folder: str) -> None:
    indices = range(N * job // JOBS, N * (job + 1) // JOBS)
    save_tasks(f"{folder}/{job:05d}.jsonl", generate(CONFIG, N, seed=0, indices=indices))


if __name__ == "__main__":
    ray.init(log_to_driver=False)
    ray.get([draw.remote(job, sys.argv[1]) for job in range(JOBS)])
