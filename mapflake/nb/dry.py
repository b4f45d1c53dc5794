"""`make repro RUN=... DRY=1`: what a run would take, before any of it is fetched or computed.

Stages, tokens, memory and hours are computed from the parameters, with their arithmetic. Tokens of completions are the
most that a round can sample; hours rest on rates of a GPU, which are our assumptions and no measurements.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
from pathlib import Path

from mapflake.engineer import Grpo, build_prompt, design_rl
from mapflake.engineer.bank import round_cost
from mapflake.engineer.compact.demonstrations import synthetic_report
from mapflake.engineer.designers import DYNAMIC
from mapflake.engineer.reply import reply_format
from mapflake.engineer.situations import kinds
from mapflake.env import EnvConfig, generate, render_prompt
from mapflake.extras import needs
from mapflake.nb import params
from mapflake.nb.schema import RunParams, Sections
from mapflake.repro import ParamError, shown
from mapflake.trainer.params import RLParams

with needs("train"):
    import pandas as pd
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

GIB = 2**30
SOLUTION = 30  # tokens of a solved board's answer, about
CHARACTERS = 2.8  # of a prompt for each token of a language model's tokenizer, measured on SmolLM2's

# What is assumed of a GPU: a card like an RTX 4090, from its data sheet.
GPU_MEMORY = 24 * GIB
BANDWIDTH = 0.5 * 1.0e12  # bytes a second of weights, cached keys and values that sampling reads: half of its own
FLOPS = 0.3 * 1.6e14  # operations a second of training: three tenths of its bfloat16 peak


SHAPES = {  # the configurations of these models on the hub: layers, heads and heads of keys, then sizes
    "Qwen/Qwen3-0.6B": (28, 16, 8, 1024, 128, 3072, 151_936),
    "Qwen/Qwen3-1.7B": (28, 16, 8, 2048, 128, 6144, 151_936),
    "smollm2": (30, 9, 3, 576, 64, 1536, 49_152),
    "Qwen/Qwen3-4B": (36, 32, 8, 2560, 128, 9728, 151_936),
}

NOTES = f"""\
  tokens, M: times x completions x longest, what is sampled at most; prompt and longest: tokens of one completion
  a second: 64 completions at once, {BANDWIDTH:.1e} bytes a second; a step reads weights, and half of keys and values
  training: 8 operations a parameter and token of prompt and completion, {FLOPS:.1e} a second
  not counted: the warm start, groups that are drawn again, validation before RL, and what `frontier` and notebook 04
  measure"""


def dry(root: Path, name: str | None) -> str:
    """Returns what the entry `name` of `runs`, or without a name the active run, would take, as text.

    Raises ParamError if there is no such run, or the shape of its model is not known.
    """
    file = params.load(root)
    run = file.named(name) if name else file.run
    sections = params.effective(file, run.profile)
    base, work = sections.warm_start.base, works(run, sections)
    title, stage_list = f"{name or 'run'}: {base or 'a policy from scratch'}", stages(run, sections)
    if base is None:
        time = "Time: docs/runs.md says how long runs on a CPU have taken."
        return "\n\n".join([title, stage_list, work.to_string(float_format="{:,.2f}".format), time])
    model = model_of(base)
    parameters, lora = model.num_parameters(), sections.baseline_rl.rl.lora
    costs = work.join(hours(model, work))
    tokens, total = costs["tokens, M"].sum(), costs[["sampling, h", "training, h"]].sum(axis=None)
    size, contents = (4 * adapters(model, lora.rank), "adapters alone") if lora else (2 * parameters, "whole weights")
    checkpoints = work.loc["validation after a round", "times"] + 2 * len(run.seeds)  # and students, and design RL
    parts = [
        f"{title}, {parameters / 1e6:,.1f} M parameters",
        stage_list,
        costs.to_string(float_format="{:,.2f}".format),
        f"Tokens and GPU-hours, at most: {tokens:.1f} M, {total:.1f} h\n{NOTES}",
        memory(model, sections),
        f"Disk: {2 * parameters / GIB:.1f} GiB of weights from the hub; {checkpoints} checkpoints of {size / GIB:.2f} "
        f"GiB ({contents}) = {checkpoints * size / GIB:.1f} GiB, once in runs/ and once in DVC's cache where the file "
        "system links nothing",
        machine(root, sections, 2 * parameters + 2 * checkpoints * size),
    ]
    return "\n\n".join(parts)


@functools.cache
def model_of(base: str) -> Qwen3ForCausalLM:
    """Returns a model as a Qwen3 of its shape, which takes no memory; ParamError if the shape is not in `SHAPES`."""
    if base not in SHAPES:
        raise ParamError(f"warm_start.base: the shape of {shown(base)} is not known here: one of {', '.join(SHAPES)}")
    layers, heads, keys, hidden, width, intermediate, words = SHAPES[base]
    config = Qwen3Config(
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=keys, hidden_size=hidden,
        head_dim=width, intermediate_size=intermediate, vocab_size=words, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device("meta"):
        return Qwen3ForCausalLM(config)


def adapters(model: Qwen3ForCausalLM, rank: int) -> int:
    """Returns the parameters of LoRA's adapters on all linear maps of a model but its output head."""
    linear = [part for part in model.model.modules() if isinstance(part, torch.nn.Linear)]
    return sum(rank * (part.in_features + part.out_features) for part in linear)


def prompt_tokens(sections: Sections) -> tuple[int, int]:
    """Returns the tokens of the prompt of a board, on average, and of a design."""
    form, sizes = sections.warm_start.prompt_format, sections.env_design.sizes
    variant = sections.engineer_loop.engineer.variant
    example = synthetic_report(0, sizes, seed=0)
    report = build_prompt(example.report, example.history, sizes, variant=variant, prompt_format=reply_format(form))
    boards = generate(EnvConfig.uniform(sizes, 0.2), 4 * len(sizes), seed=0)
    texts = [render_prompt(task.instance, form) for task in boards]
    lengths = [len(text.split()) if form == "compact" else len(text) / CHARACTERS for text in (report, *texts)]
    return round(sum(lengths[1:]) / len(boards)), round(lengths[0])


def works(run: RunParams, sections: Sections) -> pd.DataFrame:
    """Returns the work of all cells of a run that takes time on a GPU, a row a kind.

    It is done so many `times`, each time for so many `completions`, of which each reads a `prompt` and has at most
    `longest` tokens; `tokens, M` are all that are sampled, in millions. `trained`: gradients are taken of them.
    """
    loop, rl, engineer = sections.baseline_rl, sections.baseline_rl.rl, sections.trained_engineer
    loop_engineer, bank, before = sections.engineer_loop.engineer, engineer.bank, engineer.before.rl
    designing = engineer.before.lessons
    board, report = prompt_tokens(sections)
    reply = loop_engineer.max_new_tokens or (100 if sections.warm_start.prompt_format == "compact" else 4096)
    validation, benchmark = (count * loop.samples for count in board_counts(sections))
    seeds, bank_rounds = len(run.seeds), len(run.bank) * bank.rounds
    rounds = seeds * (2 + 2 * loop.rounds)  # of a seed two rounds 0, and those of fixed and the engineer
    rounds += seeds * sum(rounds_of(arm, run, sections) for arm in run.arms)
    engineers = [sections.asked("run.arms", arm) for arm in run.arms]
    designers = 1 + sum(e is not None and e.model != "search" for e in engineers)
    checkpoints = 3 + 1 + len(run.arms)  # the model before RL, round 0 and fixed; the engineer; the other arms
    table = len(kinds(sections.env_design.sizes)) * engineer.before.tables.boards * engineer.before.tables.samples
    training = sections.students.training or sections.warm_start.training
    ages = [sections.students.age(seed) for seed in run.seeds] + [bank.ages[n % len(bank.ages)] for n in run.bank]
    lessons = sum(ages) * training.batch_size if training else 0
    grpo = rounds + bank_rounds
    if bank.training:  # its rounds are supervised
        grpo, lessons = rounds, lessons + bank_rounds * bank.training.steps * bank.training.batch_size
    rows = [
        ("lessons of students and of the bank", 1, lessons, board + SOLUTION, 0, True),
        ("a round of GRPO", grpo, samples_of(rl), board, rl.max_new_tokens, True),
        ("validation after a round", rounds + bank_rounds, validation, board, rl.max_new_tokens, False),
        ("the benchmark", seeds * checkpoints, benchmark, board, rl.max_new_tokens, False),
        ("a design", seeds * designers * loop.rounds, loop_engineer.samples, report, reply, False),
        ("tables of the bank", bank_rounds, table, board, rl.max_new_tokens, False),
        ("lessons in designing", seeds, designing.rows if designing else 0, report, 0, True),
        ("design RL", seeds, samples_of(before), report, before.max_new_tokens, True),
    ]
    work = pd.DataFrame(rows, columns=["", "times", "completions", "prompt", "longest", "trained"]).set_index("")
    work["tokens, M"] = work["times"] * work["completions"] * work["longest"] / 1e6
    return work[work["completions"] > 0]  # without lessons, if there are none


def samples_of(rl: RLParams) -> int:
    """Returns the completions of one training."""
    return rl.instances * rl.epochs * rl.generations


def rounds_of(arm: str, run: RunParams, sections: Sections) -> int:
    """Returns how many rounds an arm trains: those after round 0, and of `fixed_longer` those after `fixed`."""
    rl, loop, engineer = sections.baseline_rl.rl, sections.baseline_rl, sections.trained_engineer
    if arm.removesuffix(DYNAMIC) != "fixed_longer":
        return loop.rounds
    if sections.ablations.longer is not None:
        return sections.ablations.longer
    validation = board_counts(sections)[0] * loop.samples
    tables = len(run.bank[::2]) * engineer.bank.rounds
    cost_each = round_cost(Grpo(rl), engineer.bank, validation)
    cost = design_rl.cost(engineer.before, sections.env_design.sizes, tables=tables, each=cost_each)
    return max(1, round(sum(cost.values()) / (samples_of(rl) + validation)))


def board_counts(sections: Sections) -> tuple[int, int]:
    """Returns the numbers of validation boards and of boards of the benchmark."""
    boards = sections.env_design
    sizes = boards.validation.sizes or boards.sizes
    validation = boards.validation.boards * len(sizes) * len(boards.validation.wait_ratios)
    strata = sum(len(stratum.sizes) for stratum in boards.benchmark.strata)
    return validation, boards.benchmark.boards * strata * len(boards.benchmark.wait_ratios)


def stages(run: RunParams, sections: Sections) -> str:
    """Returns the stages, those from `student` to `others` and the arms of `ablations` with a cell for each seed."""
    rounds = sections.baseline_rl.rounds
    arms = ", ".join(f"{arm} ({rounds_of(arm, run, sections)} rounds)" for arm in run.arms)
    lines = [
        f"Stages, with training seeds {', '.join(map(str, run.seeds))}",
        "env_design: the boards",
        f"warm_start: {'taken as it is' if sections.warm_start.taken_as_it_is else 'trained'}",
        f"student: {', '.join(str(sections.students.age(seed)) for seed in run.seeds)} supervised steps",
        f"baseline_rl: round 0, and {rounds} on a fixed configuration",
        f"engineer_loop: {rounds} designed rounds",
        "others: the reports of other students",
        f"bank: {len(run.bank)} runs for design RL",
        "trained_engineer: design RL, and its round 0",
        f"ablations: {arms}",
        "analysis: all of these",
        "publish: what goes to reports/",
    ]
    return "\n  ".join(lines)


def memory(model: Qwen3ForCausalLM, sections: Sections) -> str:
    """Returns the memory of a round and of a step of design RL while they train, with its parts in GiB."""
    lines = ["Memory of the GPU in GiB"]
    trainings = {"a round of GRPO": sections.baseline_rl.rl, "design RL": sections.trained_engineer.before.rl}
    for (name, rl), prompt in zip(trainings.items(), prompt_tokens(sections), strict=True):
        parts = memory_parts(model, rl, prompt)
        total = sum(parts.values())
        terms = " + ".join(f"{part} {size / GIB:.1f}" for part, size in parts.items())
        limit = f" on each of {rl.processes}"  # runs with several processes are for larger GPUs
        if rl.processes == 1:
            verdict = "fits" if total < GPU_MEMORY else "DOES NOT FIT: lower microbatch, max_new_tokens or vLLM's share"
            limit = f" of {GPU_MEMORY / GIB:.0f}: {verdict}"
        lines.append(f"{name}: {terms} = {total / GIB:.1f}{limit}")
    return "\n  ".join(lines)


def memory_parts(model: Qwen3ForCausalLM, rl: RLParams, prompt: int) -> dict[str, float]:
    """Returns the bytes that training takes on each GPU, by part; activations are checkpointed layer by layer."""
    config, parameters = model.config, model.num_parameters()
    trained = adapters(model, rl.lora.rank) if rl.lora else parameters
    length = rl.microbatch * (prompt + rl.max_new_tokens)
    shards = rl.processes if rl.sharding != "none" else 1
    parts: dict[str, float] = {
        "weights": (2 if rl.lora else 4) * parameters / shards,
        "gradients and AdamW": trained * (4 + 8 + (4 if rl.lora else 0)) / shards,
        "activations": length * 2 * (config.num_hidden_layers * config.hidden_size + 6 * config.intermediate_size),
        "logits": rl.microbatch * rl.max_new_tokens * config.vocab_size * (2 + 4 + 4),
    }
    if rl.vllm == "colocate":
        parts["vLLM"] = rl.vllm_engine.gpu_memory_utilization * GPU_MEMORY
    return parts


def hours(model: Qwen3ForCausalLM, work: pd.DataFrame) -> pd.DataFrame:
    """Returns tokens a second and the hours of sampling and of training, if each completion is cut at its limit."""
    config, parameters, at_once = model.config, model.num_parameters(), work["completions"].clip(upper=64)
    of_token = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim  # bytes, in bfloat16
    cached = at_once * (work["prompt"] + work["longest"] / 2) * of_token  # on average
    rate = at_once * BANDWIDTH / (2 * parameters + cached)
    read = work["times"] * work["completions"] * (work["prompt"] + work["longest"])
    sampling, training = 1e6 * work["tokens, M"] / rate, (8 * parameters * read / FLOPS).where(work["trained"], 0.0)
    return pd.DataFrame({"a second": rate, "sampling, h": sampling / 3600, "training, h": training / 3600})


def machine(root: Path, sections: Sections, wanted: int) -> str:
    """Returns what of the machine is there: CUDA, its memory, vLLM, and `wanted` bytes on the disk."""
    lines = ["This machine"]
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        shortage = "" if total > 0.9 * GPU_MEMORY else f": less than {GPU_MEMORY / GIB:.0f}"
        lines.append(f"CUDA: {torch.cuda.get_device_name(0)}, {total / GIB:.0f} GiB{shortage}")
    else:
        lines.append("CUDA: missing: torch sees no GPU")
    if sections.baseline_rl.rl.vllm != "off":
        installed = importlib.util.find_spec("vllm") is not None
        lines.append(f"vLLM: {'installed' if installed else 'missing: make install EXTRAS=dev,gpu'}")
    free = shutil.disk_usage(root).free
    enough = "enough" if free > wanted else "TOO LITTLE"
    lines.append(f"disk: {free / GIB:.0f} GiB are free: {enough} for {wanted / GIB:.1f}")
    return "\n  ".join(lines)
