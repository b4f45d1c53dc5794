"""The reward and the boards for verl, or any trainer that takes a function of an answer and a ground truth.

python docs/examples/verl_reward.py    # writes runs/verl/train.parquet and validation.parquet
For verl: `data.train_files=runs/verl/train.parquet data.val_files=runs/verl/validation.parquet
custom_reward_function.path=docs/examples/verl_reward.py`, and lengths of prompts and answers that suit the boards.
own_loop.py lets a designer choose the boards of the next epoch; `rows(boards).to_parquet(...)` writes them.
"""

from pathlib import Path

from mapflake.env import EnvConfig, generate, judge, reward, tasks_of, to_dataset


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **more):
    """Returns the reward of an answer: 1 for an optimal plan, 0.5 for a valid one, else 0."""
    (task,) = tasks_of([{"task": ground_truth}])
    return reward(judge(task, solution_str))


def rows(tasks):
    """Returns the boards with the columns that verl reads."""

    def columns(row):
        truth = {"style": "rule", "ground_truth": row["task"]}
        return {
            "data_source": "mapflake",
            "ability": "planning",
            "reward_model": truth,
            "extra_info": {"size": row["size"]},
        }

    return to_dataset(tasks).map(columns, remove_columns=["task"])


def main(folder="runs/verl", boards=256):
    """Writes a training and a validation set of boards as they fall."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for split in ("train", "validation"):
        tasks = generate(EnvConfig.uniform([3, 4, 5], hole_ratio=0.2), boards, seed=0, split=split)
        rows(tasks).to_parquet(f"{folder}/{split}.parquet")
        print(f"{folder}/{split}.parquet")


if __name__ == "__main__":
    main()
