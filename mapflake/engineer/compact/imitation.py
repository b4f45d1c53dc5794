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

from mapflake.engineer.actions import Proposal, legal_sizes, read_reply, reply_grammar
from mapflake.engineer.compact.demonstrations import DATA_RULES, SyntheticReport, data_ratios, synthetic_report
from mapflake.engineer.compact.words import reply_words
from mapflake.engineer.designers.llm import apply_control
from mapflake.engineer.designers.rules import random_config, towards_half
from mapflake.engineer.prompt import build_prompt
from mapflake.env import EnvConfig
from mapflake.env.config import DIMENSIONS, MAX_HOLE_RATIO
from mapflake.repro import rng_for, seed_for
from mapflake.trainer.evaluate import Completer

ROUNDED = 0.026  # ratios are alike up to the rounding of the compact prompt format to steps of 0.05


def ask(
    policy: Completer,
    prompts: Sequence[str],
    sizes: Sequence[int],
    *,
    seed: int,
    constrained: bool = False,
) -> list[Proposal]:
    """Returns one proposal for each prompt; the same seed is the same noise, so that two models are paired."""
    options: dict[str, Any] = {"grammar": reply_grammar(sizes, "compact")} if constrained else {}
    texts = policy.complete(prompts, temperature=1.0, max_new_tokens=reply_words(sizes), seed=seed, **options)
    return [read_reply(text or "", sizes, "compact") for (text,) in texts]


@dataclass(frozen=True)
class Survey:
    """The designs of several models for synthetic reports that were not demonstrated, at temperature 1.

    Attributes:
        sizes: Board sizes that could be asked for.
        reports: The synthetic reports.
        plain: A model's name -> its proposals, one a report.
        constrained: The same, decoded under the grammar.
        shuffled: The same, plain, told the failures of other sizes (`apply_control`).
        other_noise: The same, plain, with other noise.
    """

    sizes: tuple[int, ...]
    reports: Sequence[SyntheticReport]
    plain: Mapping[str, Sequence[Proposal]]
    constrained: Mapping[str, Sequence[Proposal]]
    shuffled: Mapping[str, Sequence[Proposal]]
    other_noise: Mapping[str, Sequence[Proposal]]

    def accepted(self) -> list[dict[str, Any]]:
        """Returns a row a model: the share of its proposals that are not rejected, plain and constrained."""
        ways = {"plain": self.plain, "constrained": self.constrained}
        return [
            {"designer": name}
            | {way: float(np.mean([p.config is not None for p in asked[name]])) for way, asked in ways.items()}
            for name in self.plain
        ]

    def beside_rules(self) -> list[dict[str, Any]]:
        """Returns the rows of `beside_rules` for the models (plain), the demonstrations, and random designs."""
        rngs = [rng_for(0, "random designs", i) for i in range(len(self.reports))]
        designs = {name: _configs(found) for name, found in self.plain.items()}
        designs["demonstrated"] = [one.answer for one in self.reports]
        designs["random"] = [random_config(self.sizes, rng) for rng in rngs]
        return beside_rules(designs, self.reports, self.sizes)

    def changes(self, a: str, b: str) -> list[dict[str, Any]]:
        """Returns rows of `between`: model a beside b, beside itself told of other failures, and with other noise."""
        pairs = {f"{a} / {b}": (self.plain[a], self.plain[b])}
        for name in dict.fromkeys((a, b)):
            pairs[f"{name} / told other failures"] = (self.plain[name], self.shuffled[name])
            pairs[f"{name} / other noise"] = (self.plain[name], self.other_noise[name])
        return [{"compared": title} | between(_configs(x), _configs(y)) for title, (x, y) in pairs.items()]


def survey(models: Mapping[str, Completer], sizes: Iterable[int], n: int, *, seed: int) -> Survey:
    """Returns the models' designs for n synthetic reports.

    Args:
        models: Small policies that speak compact, by name.
        sizes: Board sizes that may be asked for.
        n: Number of reports.
        seed: Root of the reports and the noise; the reports that the warm start showed have another stream.
    """
    sizes = legal_sizes(sizes)
    reports = [synthetic_report(i, sizes, seed=seed_for(seed, "survey")) for i in range(n)]
    told = [apply_control(one.report, one.history, "shuffled", seed=seed) for one in reports]
    prompts = [one.prompt for one in reports]
    shuffled = [build_prompt(report, history, sizes, prompt_format="compact") for report, history in told]
    noise, other = seed_for(seed, "ask"), seed_for(seed, "ask again")
    return Survey(
        sizes,
        reports,
        plain={name: ask(policy, prompts, sizes, seed=noise) for name, policy in models.items()},
        constrained={
            name: ask(policy, prompts, sizes, seed=noise, constrained=True) for name, policy in models.items()
        },
        shuffled={name: ask(policy, shuffled, sizes, seed=noise) for name, policy in models.items()},
        other_noise={name: ask(policy, prompts, sizes, seed=other) for name, policy in models.items()},
    )


def beside_rules(
    designs: Mapping[str, Sequence[EnvConfig | None]], reports: Sequence[SyntheticReport], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """Returns a row for each name and report: how far the design is from the rules; rejected ones are left out.

    `rule` is the nearest of `DATA_RULES`, `distance` how far its data ratios are from the design's (total variation, 0
    to 1). `levels` is the label of hole and wait ratios: "as before", "towards half-solved", "one level" (for all
    sizes), "near before" (each within 0.1), or "free"; None where the prompt did not show the last configuration.
    """
    rows = []
    for name, configs in designs.items():
        for i, (config, one) in enumerate(zip(configs, reports, strict=True)):
            if config is not None:
                apart = {rule: variation(config, data_ratios(rule, one, sizes)) for rule in DATA_RULES}
                nearest = min(apart, key=lambda rule: apart[rule])
                rows.append(
                    {
                        "designer": name,
                        "report": i,
                        "rule": nearest,
                        "distance": apart[nearest],
                        "levels": None if one.last is None else _levels(config, one),
                    }
                )
    return rows


def between(a: Sequence[EnvConfig | None], b: Sequence[EnvConfig | None]) -> dict[str, float]:
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
        "data": float(np.mean([variation(x, {s: c.data_ratio for s, c in y.sizes.items()}) for x, y in pairs])),
    }


def variation(config: EnvConfig, ratios: Mapping[int, float]) -> float:
    """Returns the total variation between a configuration's data ratios and others: 0 equal, 1 nothing in common."""
    own = {size: part.data_ratio for size, part in config.sizes.items()}
    return sum(abs(own.get(s, 0.0) - ratios.get(s, 0.0)) for s in {*own, *ratios}) / 2


def _configs(proposals: Sequence[Proposal]) -> list[EnvConfig | None]:
    return [p.config for p in proposals]


def _differ(x: EnvConfig, y: EnvConfig) -> np.ndarray:
    """Returns for each number of two designs whether they differ in it; a size that only one has differs in all."""
    found = []
    for size in sorted({*x.sizes, *y.sizes}):
        one, other = (config.sizes[size].ratios if size in config.sizes else {} for config in (x, y))
        found += [one.get(name, "none") != other.get(name, "none") for name in DIMENSIONS]
    return np.array(found)


def _levels(config: EnvConfig, one: SyntheticReport) -> str:
    last = one.last.sizes if one.last else {}
    rates = {s.size: s.valid_rate for s in one.report.sizes}
    sizes = [size for size in config.sizes if size in last]

    def alike(target: Mapping[int, tuple[float, float | None]], step: float) -> bool:
        return all(
            _near(config.sizes[s].hole_ratio, hole, MAX_HOLE_RATIO, step)
            and _near(config.sizes[s].wait_ratio, wait, 1.0, step)
            for s, (hole, wait) in target.items()
        )

    before = {s: (last[s].hole_ratio, last[s].wait_ratio) for s in sizes}
    moved = {s: towards_half(rates[s]) for s in sizes}
    if alike(before, ROUNDED):
        return "as before"
    if alike({s: (h + moved[s], None if w is None else w + moved[s]) for s, (h, w) in before.items()}, ROUNDED):
        return "towards half-solved"
    if len({(c.hole_ratio, c.wait_ratio) for c in config.sizes.values()}) == 1:
        return "one level"
    return "near before" if alike(before, 0.1 + ROUNDED) else "free"


def _near(a: float | None, b: float | None, top: float, step: float) -> bool:
    """Returns whether a ratio is within `step` of `b` projected to [0, top]."""
    if a is None or b is None:
        return a is b
    return abs(a - min(max(b, 0.0), top)) <= step
