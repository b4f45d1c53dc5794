"""`make repro RUN=... DRY=1`: what a run would take, before any of it is fetched or computed.

Stages, tokens, memory and hours are computed from the parameters, with their arithmetic. Tokens of completions are the
most that a round can sample; hours rest on rates of a GPU, which are our assumptions and no measurements.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import NamedTuple

from mapflake.engineer import Grpo, build_prompt, design_rl
from mapflake.engineer.bank import round_cost
from mapflake.engineer.compact.demonstrations import synthetic_report
from mapflake.engineer.designers import engineer_arm
from mapflake.engineer.reply import reply_format
from mapflake.engineer.situations import kinds
from mapflake.env import EnvConfig, generate, render_prompt
from mapflake.nb import params
from mapflake.nb.schema import RunParams, Sections
from mapflake.repro import ParamError, shown
from mapflake.trainer.params import LoraParams, RLParams

GIB, HOUR = 2**30, 3600
SOLUTION = 30  # tokens of a solved board's answer, about
CHARACTERS = 2.8  # of a prompt for each token of a language model's tokenizer, measured on SmolLM2's

# What is assumed of a GPU: a card like an RTX 4090, from its data sheet.
GPU_MEMORY = 24 * GIB
BANDWIDTH = 0.5 * 1.0e12  # bytes a second of weights, cached keys and values that sampling reads: half of its own
FLOPS = 0.3 * 1.6e14  # operations a second of training: three tenths of its bfloat16 peak


class Shape(NamedTuple):
    """The shape of a decoder of Qwen3's architecture, its output head tied to the embedding."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int

    @property
    def linears(self) -> list[tuple[int, int]]:
        """Inputs and outputs of a layer's linear maps."""
        query, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = [(self.hidden, query), (self.hidden, keys), (self.hidden, keys), (query, self.hidden)]
        return [*attention, *[(self.hidden, self.intermediate)] * 2, (self.intermediate, self.hidden)]

    @property
    def parameters(self) -> int:
        """Parameters of the linear maps and the embedding."""
        return self.vocabulary * self.hidden + self.layers * sum(a * b for a, b in self.linears)

    def adapters(self, lora: LoraParams) -> int:
        """Parameters of LoRA's adapters on all linear maps."""
        return self.layers * sum(lora.rank * (a + b) for a, b in self.linears)

    @property
    def cached(self) -> int:
        """Bytes of keys and values of a token, in bfloat16."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim


SHAPES = {  # the configurations of these models on the hub
    "Qwen/Qwen3-0.6B": Shape(1024, 28, 16, 8, 128, 3072, 151_936),
    "Qwen/Qwen3-1.7B": Shape(2048, 28, 16, 8, 128, 6144, 151_936),
    "smollm2": Shape(576, 30, 9, 3, 64, 1536, 49_152),
    "Qwen/Qwen3-4B": Shape(2560, 36, 32, 8, 128, 9728, 151_936),
}


class Work(NamedTuple):
    """What a kind of work takes each time: completions sampled, and tokens read and written for each of them."""

    name: str
    times: int
    completions: int
    prompt: int
    longest: int
    trained: bool

    @property
    def tokens(self) -> int:
        """The most tokens that are sampled, all times together."""
        return self.times * self.completions * self.longest


def dry(root: Path, name: str | None) -> str:
    """Returns what the entry `name` of `runs`, or without a name the active run, would take, as text.

    Raises ParamError if there is no such run, or the shape of its model is not known.
    """
    file = params.load(root)
    run = file.named(name) if name else file.run
    sections = params.effective(file, run.profile)
    shape, work = shape_of(sections), works(run, sections)
    title = f"{name or 'run'}: {sections.warm_start.base or 'a policy from scratch'}"
    parts = [f"{title}, {shape.parameters / 1e6:,.1f} M parameters", stages(run, sections), budget(work)]
    if sections.warm_start.base:
        parts += [memory(shape, sections, work), hours(shape, work)]
    else:
        parts.append("Time: docs/runs.md says how long runs on a CPU have taken.")
    lora, weights = sections.baseline_rl.rl.lora, 2 * shape.parameters
    each, what = (4 * shape.adapters(lora), "adapters alone") if lora else (weights, "whole weights")
    checkpoints = work[2].times + 2 * len(run.seeds)  # of each round, of each student and its design RL
    parts.append(
        f"Disk: {weights / GIB:.1f} GiB of weights from the hub; {checkpoints} checkpoints of {each / GIB:.2f} GiB "
        f"({what}) = {checkpoints * each / GIB:.1f} GiB, once in runs/ and once in DVC's cache where the file system "
        "links nothing"
    )
    parts.append(machine(root, sections, weights + 2 * checkpoints * each))
    return "\n\n".join(parts)


def shape_of(sections: Sections) -> Shape:
    """Returns the shape of a profile's model; ParamError if it is neither from scratch nor in `SHAPES`."""
    base, training = sections.warm_start.base, sections.warm_start.training
    if base is None and training:
        one = training.model
        width = one.hidden_size // one.heads
        return Shape(one.hidden_size, one.layers, one.heads, one.heads, width, one.intermediate_size, 300)
    if base not in SHAPES:
        raise ParamError(f"warm_start.base: the shape of {shown(base)} is not known here: one of {', '.join(SHAPES)}")
    return SHAPES[base]


def works(run: RunParams, sections: Sections) -> list[Work]:
    """Returns the work of all cells of a run that takes time on a GPU, without what some arms add.

    Not counted: design RL in every round (`engineer_cotrained`), groups drawn again (`redraws`), boards that `frontier`
    measures.
    """
    loop, rl, sizes = sections.baseline_rl, sections.baseline_rl.rl, sections.env_design.sizes
    form = sections.warm_start.prompt_format
    boards = generate(EnvConfig.uniform(sizes, 0.2), 4 * len(sizes), seed=0)
    board = round(sum(_tokens(render_prompt(task.instance, form), form) for task in boards) / len(boards))
    one, asked = synthetic_report(0, sizes, seed=0), sections.engineer_loop.engineer
    report = build_prompt(one.report, one.history, sizes, variant=asked.variant, prompt_format=reply_format(form))
    prompt, reply = _tokens(report, form), asked.max_new_tokens or (100 if form == "compact" else 4096)
    validation, benchmark = board_counts(sections)
    seeds, arms = len(run.seeds), len(run.arms)
    engineers = sum(engineer_arm(arm) is not None for arm in run.arms)
    bank = sections.trained_engineer.bank
    bank_rounds = len(run.bank) * bank.rounds
    rounds = seeds * (2 + 2 * loop.rounds)  # of a seed two rounds 0, and those of fixed and the engineer
    rounds += seeds * sum(rounds_of(arm, run, sections) for arm in run.arms)
    before = sections.trained_engineer.before
    table = len(kinds(sizes)) * before.tables.boards * before.tables.samples
    designs = before.rl.instances - before.boards
    measured = seeds * (3 + 1 + arms)  # the model before RL, round 0 and fixed; the engineer; the other arms
    designed = seeds * (1 + engineers) * loop.rounds
    longest, students = rl.max_new_tokens, sections.students
    taught = students.training or sections.warm_start.training
    steps = sum(students.age(seed) for seed in run.seeds) + sum(bank.ages[one % len(bank.ages)] for one in run.bank)
    lessons = steps * taught.batch_size if taught else 0
    grpo = rounds + bank_rounds
    if bank.training:  # its rounds are supervised
        grpo, lessons = rounds, lessons + bank_rounds * bank.training.steps * bank.training.batch_size
    return [
        Work("lessons of students and of the bank", 1, lessons, board + SOLUTION, 0, True),
        Work("a round of GRPO", grpo, rl.instances * rl.epochs * rl.generations, board, longest, True),
        Work("validation after a round", rounds + bank_rounds, validation * loop.samples, board, longest, False),
        Work("the benchmark", measured, benchmark * loop.samples, board, longest, False),
        Work("a design", designed, asked.samples, prompt, reply, False),
        Work("tables of the bank", bank_rounds, table, board, longest, False),
        Work("design RL", seeds, designs * before.rl.generations, prompt, before.rl.max_new_tokens, True),
    ]


def rounds_of(arm: str, run: RunParams, sections: Sections) -> int:
    """Returns how many rounds an arm trains: those after round 0, and of `fixed_longer` those after `fixed`."""
    rl, loop, engineer = sections.baseline_rl.rl, sections.baseline_rl, sections.trained_engineer
    if arm != "fixed_longer":
        return loop.rounds
    if sections.ablations.longer is not None:
        return sections.ablations.longer
    validation = board_counts(sections)[0] * loop.samples
    tables = len(run.bank[::2]) * engineer.bank.rounds
    each = round_cost(Grpo(rl), engineer.bank, validation)
    cost = design_rl.cost(engineer.before, sections.env_design.sizes, tables=tables, each=each)
    return round(sum(cost.values()) / (rl.instances * rl.epochs * rl.generations + validation))


def board_counts(sections: Sections) -> tuple[int, int]:
    """Returns the numbers of validation boards and of boards of the benchmark."""
    boards = sections.env_design
    sizes = boards.validation.sizes or boards.sizes
    validation = boards.validation.boards * len(sizes) * len(boards.validation.wait_ratios)
    strata = sum(len(stratum.sizes) for stratum in boards.benchmark.strata)
    return validation, boards.benchmark.boards * strata * len(boards.benchmark.wait_ratios)


def _tokens(text: str, form: str) -> int:
    return len(text.split()) if form == "compact" else round(len(text) / CHARACTERS)


def stages(run: RunParams, sections: Sections) -> str:
    """Returns the stages with the number of their cells."""
    seeds, ages = run.seeds, sections.students
    lines = [
        "env_design: the boards",
        f"warm_start: {'taken as it is' if sections.warm_start.taken_as_it_is else 'trained'}",
        *(f"student@{seed}: {ages.age(seed)} supervised steps" for seed in seeds),
        *(f"baseline_rl@{seed}: round 0, and {sections.baseline_rl.rounds} on a fixed configuration" for seed in seeds),
        *(f"engineer_loop@{seed}: {sections.baseline_rl.rounds} designed rounds" for seed in seeds),
        *(f"others@{seed}: the reports of other students" for seed in seeds),
        f"bank: {len(run.bank)} runs for design RL",
        *(f"trained_engineer@{seed}: design RL, and its round 0" for seed in seeds),
        *(f"ablations: {arm}-{seed}, {rounds_of(arm, run, sections)} rounds" for arm in run.arms for seed in seeds),
        "analysis, publish",
    ]
    return "Stages\n" + "\n".join(f"  {line}" for line in lines)


def budget(work: list[Work]) -> str:
    """Returns the tokens of prompts and completions, at most."""
    lines = [
        f"  {one.name}: {one.times} x {one.completions:,} completions of at most {one.longest:,} tokens"
        f" = {one.tokens / 1e6:.1f} M; prompts of {one.prompt:,}"
        for one in work
        if one.longest
    ]
    return "\n".join(["Tokens, at most", *lines, f"  in all {sum(one.tokens for one in work) / 1e6:.1f} M"])


def memory(shape: Shape, sections: Sections, work: list[Work]) -> str:
    """Returns the memory of a round and of a step of design RL while they train, with its parts in GiB."""
    lines = []
    for name, rl, one in (
        ("baseline_rl.rl", sections.baseline_rl.rl, work[1]),
        ("trained_engineer.before.rl", sections.trained_engineer.before.rl, work[-1]),
    ):
        parts = memory_parts(shape, rl, one.prompt)
        total = sum(parts.values())
        said = " + ".join(f"{what} {size / GIB:.1f}" for what, size in parts.items())
        if rl.processes == 1:  # several are of a larger kind
            verdict = "fits" if total < GPU_MEMORY else "DOES NOT FIT: lower microbatch, max_new_tokens or vLLM's share"
            beside = f" of {GPU_MEMORY / GIB:.0f}: {verdict}"
        else:
            beside = f" on each of {rl.processes}"
        lines.append(f"  {name}: {said} = {total / GIB:.1f}{beside}")
    return "\n".join(["Memory of the GPU in GiB", *lines])


def memory_parts(shape: Shape, rl: RLParams, prompt: int) -> dict[str, float]:
    """Returns the bytes that training takes on each GPU, by part; activations are checkpointed layer by layer."""
    trained = shape.adapters(rl.lora) if rl.lora else shape.parameters
    length = rl.microbatch * (prompt + rl.max_new_tokens)
    shards = rl.processes if rl.sharding != "none" else 1
    parts: dict[str, float] = {
        "weights": (2 if rl.lora else 4) * shape.parameters / shards,
        "gradients and AdamW": trained * (4 + 8 + (4 if rl.lora else 0)) / shards,
        "activations": length * 2 * (shape.layers * shape.hidden + 6 * shape.intermediate),
        "logits": rl.microbatch * rl.max_new_tokens * shape.vocabulary * (2 + 4 + 4),
    }
    if rl.vllm == "colocate":
        parts["vLLM"] = rl.vllm_engine.gpu_memory_utilization * GPU_MEMORY
    return parts


def hours(shape: Shape, work: list[Work]) -> str:
    """Returns the hours of sampling and of training, with their arithmetic, if every completion is cut at its limit."""
    lines, total = [], 0.0
    for one in work:
        length = one.prompt + one.longest / 2  # cached, on average
        at_once = max(1, min(64, one.completions))
        rate = at_once * BANDWIDTH / (2 * shape.parameters + at_once * length * shape.cached)
        sampling = one.tokens / rate
        read = one.times * one.completions * (one.prompt + one.longest)
        training = 8 * shape.parameters * read / FLOPS if one.trained else 0.0
        total += sampling + training
        said = []
        if one.longest:
            said.append(f"sampling {one.tokens / 1e6:.1f} M / {rate:,.0f} a second = {sampling / HOUR:.2f} h")
        if one.trained:
            operations = f"8 x {shape.parameters / 1e9:.2f} B x {read / 1e6:.1f} M / {FLOPS:.1e}"
            said.append(f"training {operations} = {training / HOUR:.2f} h")
        lines.append(f"  {one.name}: {'; '.join(said)}")
    rates = (
        f"  assumed: {BANDWIDTH:.1e} bytes a second in sampling, 64 completions at once, each step reading the "
        f"weights and the keys and values of half a completion; 8 operations a parameter and token in training"
    )
    title = "GPU-hours, if every completion is as long as it may be"
    return "\n".join([title, *lines, rates, f"  in all {total / HOUR:.1f} h"])


def machine(root: Path, sections: Sections, wanted: int) -> str:
    """Returns what of the machine is there: CUDA, its memory, vLLM, and `wanted` bytes on the disk."""
    import torch

    found = {"CUDA": "missing: torch sees no GPU"}
    if torch.cuda.is_available():
        found["CUDA"] = torch.cuda.get_device_name(0)
        has = torch.cuda.get_device_properties(0).total_memory
        less = "" if has > 0.9 * GPU_MEMORY else f": less than {GPU_MEMORY / GIB:.0f}"
        found["memory"] = f"{has / GIB:.0f} GiB{less}"
    if sections.baseline_rl.rl.vllm != "off":
        there = importlib.util.find_spec("vllm") is not None
        found["vLLM"] = "installed" if there else "missing: make install EXTRAS=dev,gpu"
    free = shutil.disk_usage(root).free
    enough = "enough" if free > wanted else "TOO LITTLE"
    found["disk"] = f"{free / GIB:.0f} GiB are free: {enough} for {wanted / GIB:.1f}"
    return "\n".join(["This machine", *(f"  {what}: {said}" for what, said in found.items())])
