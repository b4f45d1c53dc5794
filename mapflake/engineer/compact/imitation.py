"""Analysis of a small policy's designs: the share accepted, the distance from the rules shown and from another model.

A model that imitates its demonstrations can look like one that reasons. So its designs for synthetic reports that were
not demonstrated are set beside the rules of the mixture: its data ratios beside those of `DATA_RULES`, its hole and
wait ratios beside "as before" and "0.1 towards half-solved". The yardsticks are the demonstrations' own answers (rules
with noise) and random legal designs (no rule at all). Not covered: whether a design is good (train on it), models that
speak JSON (they were shown no rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mapflake.engineer.actions import legal_sizes, reply_grammar
from mapflake.engineer.compact.demonstrations import (
    DATA_RULES,
    Levels,
    Rates,
    SyntheticReport,
    levels_of,
    moved_towards_half,
    synthetic_report,
)
from mapflake.engineer.designers.llm import answers, apply_control
from mapflake.engineer.designers.rules import random_config
from mapflake.engineer.prompt import build_prompt
from mapflake.env import EnvConfig
from mapflake.env.config import DIMENSIONS, MAX_HOLE_RATIO, total_variation
from mapflake.repro import rng_for, seed_for
from mapflake.trainer.evaluate import Completer

ROUNDED = 0.026  # ratios are alike up to the rounding of the compact prompt format to steps of 0.05
Configs = Sequence[EnvConfig | None]
"""A design for each report, None where the reply was rejected."""


@dataclass(frozen=True)
class Survey:
    """The designs of several models for synthetic reports that were not demonstrated, at temperature 1.

    Attributes:
        reports: The synthetic reports.
        designs: By way of asking (plain; constrained, decoded under the grammar; told the failures of other sizes, see
            `apply_control`; with other noise), then by model.
    """

    reports: Sequence[SyntheticReport]
    designs: Mapping[str, Mapping[str, Configs]]

    def accepted(self) -> list[dict[str, Any]]:
        """Returns a row a model: the share of its replies that are not rejected, plain and constrained."""
        ways = ("plain", "constrained")
        shares = {
            way: {name: float(np.mean([c is not None for c in configs])) for name, configs in self.designs[way].items()}
            for way in ways
        }
        return [{"designer": name} | {way: shares[way][name] for way in ways} for name in self.designs["plain"]]

    def beside_rules(self) -> list[dict[str, Any]]:
        """Returns the rows of `beside_rules` for the models (plain), the demonstrations, and random designs."""
        rngs = [rng_for(0, "random designs", i) for i in range(len(self.reports))]
        demonstrated = [one.answer for one in self.reports]
        drawn = [random_config(one.report.valid_rates, rng) for one, rng in zip(self.reports, rngs, strict=True)]
        return beside_rules({**self.designs["plain"], "demonstrated": demonstrated, "random": drawn}, self.reports)

    def changes(self, a: str, b: str) -> list[dict[str, Any]]:
        """Returns rows of `between`: model a beside b, beside itself told of other failures, and with other noise."""
        plain = self.designs["plain"]
        pairs = {f"{a} / {b}": (plain[a], plain[b])}
        for name in dict.fromkeys((a, b)):
            for way in ("told other failures", "other noise"):
                pairs[f"{name} / {way}"] = (plain[name], self.designs[way][name])
        return [{"compared": title} | between(x, y) for title, (x, y) in pairs.items()]


def survey(models: Mapping[str, Completer], sizes: Iterable[int], n: int, *, seed: int) -> Survey:
    """Returns the designs of small policies, by name, for n synthetic reports; all are sampled with the same noise.

    The reports that the warm start showed have another random stream.
    """
    sizes = legal_sizes(sizes)
    reports = [synthetic_report(i, sizes, seed=seed_for(seed, "survey")) for i in range(n)]
    told = [apply_control(one.report, one.history, "shuffled", seed=seed) for one in reports]
    prompts = [one.prompt for one in reports]
    shuffled = [build_prompt(report, history, sizes, prompt_format="compact") for report, history in told]

    def ask(prompts: list[str], noise: str = "ask", **options: Any) -> dict[str, Configs]:
        options["seed"] = seed_for(seed, noise)
        return {name: answers(policy, prompts, sizes, **options) for name, policy in models.items()}

    designs = {
        "plain": ask(prompts),
        "constrained": ask(prompts, grammar=reply_grammar(sizes, "compact")),
        "told other failures": ask(shuffled),
        "other noise": ask(prompts, "ask again"),
    }
    return Survey(reports, designs)


def beside_rules(designs: Mapping[str, Configs], reports: Sequence[SyntheticReport]) -> list[dict[str, Any]]:
    """Returns a row for each name and report: how far the design is from the rules; rejected ones are left out.

    `rule` is the nearest of `DATA_RULES`, `distance` how far its data ratios are from the design's (total variation, 0
    to 1). `levels` is the label of hole and wait ratios: "as before", "towards half-solved", "one level" (for all
    sizes), "near before" (each within 0.1), or "free"; None where the prompt did not show the last configuration.
    """
    rows = []
    for name, configs in designs.items():
        for i, (config, one) in enumerate(zip(configs, reports, strict=True)):
            if config is not None:
                asked = {rule: weights(one.report.valid_rates, one.last) for rule, weights in DATA_RULES.items()}
                apart = {rule: total_variation(config.data_ratios, _normalised(each)) for rule, each in asked.items()}
                nearest = min(apart, key=lambda rule: apart[rule])
                levels = None if one.last is None else _levels(config, one.last, one.report.valid_rates)
                rows.append(
                    {"designer": name, "report": i, "rule": nearest, "distance": apart[nearest], "levels": levels}
                )
    return rows


def between(a: Configs, b: Configs) -> dict[str, float]:
    """Returns how two models differ over the same reports, where both designs were accepted.

    `designs` is their number; `equal` the share of designs alike in every number, `numbers` the share of numbers that
    differ, `data` the mean total variation of the data ratios.
    """
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    if not pairs:
        raise ValueError("no report has two accepted designs")
    differ = [_differ(x, y) for x, y in pairs]
    return {
        "designs": len(pairs),
        "equal": float(np.mean([not d.any() for d in differ])),
        "numbers": float(np.mean(np.concatenate(differ))),
        "data": float(np.mean([total_variation(x.data_ratios, y.data_ratios) for x, y in pairs])),
    }


def _normalised(weights: Mapping[int, float]) -> dict[int, float]:
    total = sum(weights.values())
    return {size: weight / total for size, weight in weights.items()}


def _differ(x: EnvConfig, y: EnvConfig) -> np.ndarray:
    """Returns for each number of two designs whether they differ in it; a size that only one has differs in all."""
    found = []
    for size in sorted({*x.sizes, *y.sizes}):
        one, other = (config.sizes[size].ratios if size in config.sizes else {} for config in (x, y))
        found += [one.get(name, "none") != other.get(name, "none") for name in DIMENSIONS]
    return np.array(found)


def _levels(config: EnvConfig, before: EnvConfig, valid: Rates) -> str:
    asked, last = levels_of(config), levels_of(before)
    sizes = [size for size in asked if size in last]

    def alike(target: Levels, step: float) -> bool:
        a, b = (np.array([levels[s] for s in sizes], dtype=float).reshape(-1, 2) for levels in (asked, target))
        return np.allclose(a, np.clip(b, 0, [MAX_HOLE_RATIO, 1]), rtol=0, atol=step, equal_nan=True)  # nan is None

    if alike(last, ROUNDED):
        return "as before"
    if alike(moved_towards_half({s: last[s] for s in sizes}, valid), ROUNDED):
        return "towards half-solved"
    if len(set(asked.values())) == 1:
        return "one level"
    return "near before" if alike(last, 0.1 + ROUNDED) else "free"
