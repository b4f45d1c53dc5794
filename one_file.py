"""The method of mapflake in one file: a policy that learns to solve boards by RL and designs its own training boards.

    configuration -> boards -> GRPO -> policy -> answers to fixed validation boards -> failure report
          ^                                                                                 |
          +-------- the policy itself, asked as the engineer, writes the next one <---------+

The paper (Chen et al. 2026, arXiv 2606.17682) takes a language model. Our policy is tiny and starts from nothing, so it
is first shown both of its jobs: solved boards, and invented reports with the designs that a simple rule makes of them.
Read from top to bottom, run `python one_file.py` (minutes, on two cores; `--seed 1` and so on change the settings).
"""

import argparse
import copy
from collections import Counter, namedtuple
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SETTINGS = {"seed": 0, "threads": 2, "width": 96, "depth": 3, "heads": 4}
SETTINGS |= {"lessons": 400, "batch": 48, "lesson_rate": 3e-3}  # supervised start: optimizer steps, examples in each
SETTINGS |= {"rounds": 3, "steps": 15, "boards": 32, "answers": 8}  # GRPO: steps a round, boards a step, group (from 2)
SETTINGS |= {"iterations": 2, "rate": 3e-4}  # optimizer steps on the same answers, learning rate
SETTINGS |= {"validation": 240, "test": 600}  # boards that the reports count, boards that the table counts
SIZES, MAX_HOLES, MAX_STEPS = (3, 4, 5), 0.4, 12  # rows of a board, share of holes, time steps of an answer

# ---------------- Boards, plans and the eight checks ----------------
Board = namedtuple("Board", "size holes starts goals")  # cells are (row, column); a start and a goal for each agent
MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}
CHECKS = ("parse", "agents", "move", "bounds", "hole", "vertex", "edge", "goal")

def check(board, plan):  # The checks that fail, () if the plan is valid: a string of moves for each agent, or None.
    if plan is None or len(plan) != len(board.starts):
        return ("parse",) if plan is None else ("agents",)
    cells, failed = board.starts, {"move" for moves in plan for move in moves if move not in MOVES}
    for t in range(max(map(len, plan))):
        steps = [MOVES.get(moves[t : t + 1], (0, 0)) for moves in plan]  # an agent whose moves have ended waits
        before, cells = cells, tuple((r + dr, c + dc) for (r, c), (dr, dc) in zip(cells, steps, strict=True))
        moved = {(a, b) for a, b in zip(before, cells, strict=True) if a != b}
        failed |= {"bounds" for r, c in cells if not (0 <= r < board.size and 0 <= c < board.size)}
        failed |= {"hole" for cell in cells if cell in board.holes}
        failed |= {"vertex" for cell in cells if cells.count(cell) > 1}  # two agents in one cell
        failed |= {"edge" for a, b in moved if (b, a) in moved}  # two agents swap cells
    failed |= {"goal" for cell, goal in zip(cells, board.goals, strict=True) if cell != goal}
    return tuple(kind for kind in CHECKS if kind in failed)

def makespan(plan):  # The number of time steps until all agents have arrived for good.
    return max(len(moves.rstrip("W")) for moves in plan)

# ---------------- The solver: search over the joint states of two agents, matrices [n, n] for n cells ----------------
def graph(board, waits=True):  # [n, n], 1 where a move leads from one cell to another; numbers of the starts and goals
    cells = np.stack(np.divmod(np.arange(board.size**2), board.size), 1)  # [n, 2]
    free = np.array([(r, c) not in board.holes for r, c in cells.tolist()], np.float32)  # [n]
    apart = np.abs(cells[:, None] - cells).sum(-1)  # [n, n]; a wait leads from a cell to itself
    ends = [tuple(r * board.size + c for r, c in ends) for ends in (board.starts, board.goals)]
    return ((apart == 1) | (waits & (apart == 0))) * np.outer(free, free), *ends

def layers(edges, starts):  # Yields the joint states in which the agents can be after 0, 1, ... moves: [n, n], 0 or 1.
    layer = np.zeros_like(edges)
    layer[starts] = 1
    while True:
        yield layer
        ways = edges @ layer @ edges - edges * layer.T  # every pair of moves, but not the swaps (b, a) -> (a, b)
        np.fill_diagonal(ways, 0)  # nor two agents in one cell
        layer = np.sign(ways)

def solve(board):  # A plan of the least makespan, None if there is no plan.
    (edges, starts, goals), seen = graph(board), []
    for layer in layers(edges, starts):
        if seen and (layer == seen[-1]).all():
            return None  # nothing new can be reached
        seen.append(layer)
        if layer[goals]:
            break
    plan, state, letters = ["", ""], goals, {dr * board.size + dc: move for move, (dr, dc) in MOVES.items()}
    for layer in seen[-2::-1]:  # from the goals back to the starts
        a, b = state
        before = layer * np.outer(edges[a], edges[b])
        before[b, a] = 0  # no swap
        before[a] *= 2  # Of several ways, prefer that an agent stands still: it arrives early and rests at its goal.
        before[:, b] *= 2
        state = divmod(int(before.argmax()), len(edges))
        plan = [letters[after - cell] + moves for after, cell, moves in zip((a, b), state, plan, strict=True)]
    return [moves.rstrip("W") for moves in plan]

def arrivals(board, waits=True, most=np.inf):  # The least sum of the agents' arrival times; inf if it is above `most`.
    edges, starts, (g1, g2) = graph(board, waits)
    joint, cost, alone1, alone2 = layers(edges, starts), 0, np.zeros(len(edges)), np.zeros(len(edges))
    while cost <= most:  # alone1: the cells of agent 1 while agent 2 rests at its goal for good; alone2: vice versa
        alone1, alone2 = edges @ alone1 > 0, edges @ alone2 > 0
        if cost % 2 == 0:  # a step of both costs two
            layer = next(joint) > 0
            alone1, alone2 = alone1 | layer[:, g2], alone2 | layer[g1]
        alone1[g2] = alone2[g1] = False
        if alone1[g1] or alone2[g2]:
            return cost
        cost += 1
    return np.inf

# ---------------- The generator: configuration -> boards ----------------
Task = namedtuple("Task", "board plan waits")  # with an optimal plan, and whether the board needs a wait

def random_task(size, holes, rng, waits=None):  # holes is a share of the cells; waits None leaves the label to chance
    while True:  # until there is a plan and the label fits; few boards need a wait
        cells, count = [divmod(int(i), size) for i in rng.permutation(size**2)], round(holes * size**2)
        goals = [cells[i] for i in count + rng.permutation(size**2 - count)[:2]]
        board = Board(int(size), frozenset(cells[:count]), tuple(cells[count : count + 2]), tuple(goals))
        far = [abs(s[0] - g[0]) + abs(s[1] - g[1]) for s, g in zip(board.starts, goals, strict=True)]
        if all(far) and (plan := solve(board)) and makespan(plan) <= MAX_STEPS:
            # Is the least sum of arrival times out of reach without a wait? Never where all take their shortest ways.
            least = sum(far) if sum(map(len, plan)) == sum(far) else arrivals(board)
            label = least > sum(far) and arrivals(board, waits=False, most=least) > least
            if waits in (None, label):
                return Task(board, plan, label)

def draw(config, count, rng, avoid=()):  # config [sizes, 3]: for each size its share of the boards, holes, waits
    tasks = []
    while len(tasks) < count:
        i = rng.choice(len(SIZES), p=config[:, 0])
        task = random_task(SIZES[i], config[i, 1], rng, bool(rng.random() < config[i, 2]))
        tasks += [task] if task.board not in avoid else []
    return tasks

# ---------------- Boards and plans in words ----------------
PERCENT = [f"{5 * i}%" for i in range(21)]  # the engineer's numbers
CELL = {(r, c): "abcdefghij"[r] + str(c) for r in range(max(SIZES)) for c in range(max(SIZES))}
LEGAL = ["<" + "".join(m for i, m in enumerate("UDLR") if bits >> i & 1) + ">" for bits in range(16)]
WORDS = ["pad", "end", "holes", "agent", "to", "plan", "report", "design", *(f"size{size}" for size in SIZES)]
WORDS += [*MOVES, *LEGAL, *CELL.values(), *PERCENT]
ID = {word: i for i, word in enumerate(WORDS)}
PAD, END = ID["pad"], ID["end"]
PROMPT, ANSWER = 11 + round(MAX_HOLES * max(SIZES) ** 2), 6 * MAX_STEPS + 1  # most words

def ask(board):  # size4 holes b1 c2 agent b0 to d1 agent c3 to b0 plan
    words = [f"size{board.size}", "holes", *(CELL[hole] for hole in sorted(board.holes))]
    for start, goal in zip(board.starts, board.goals, strict=True):
        words += ["agent", CELL[start], "to", CELL[goal]]
    return [*words, "plan"]

def answer(board, plan):  # For each time step and agent: its legal moves, its move, its new cell, as in <UR> U a0.
    words, cells = [], list(board.starts)
    for t in range(makespan(plan)):
        for i, (r, c) in enumerate(cells):
            # Legal moves and cells are a scratchpad: a small policy hardly learns without a place to think.
            near = {m: (r + dr, c + dc) for m, (dr, dc) in MOVES.items()}
            legal = [m for m in "UDLR" if {*near[m]} <= {*range(board.size)} and near[m] not in board.holes]
            move = plan[i][t : t + 1] or "W"
            cells[i] = near[move]
            words += [f"<{''.join(legal)}>", move, CELL[cells[i]]]
    return words

def read_plan(words):  # None if there is no plan in the answer. The scratchpad is not believed: only the moves count.
    readable = words is not None and len(words) % 6 == 0
    return ["".join(word if word in MOVES else "?" for word in words[i::6]) for i in (1, 4)] if readable else None

def encode(prompts):  # [B, PROMPT], padded on the left: answers begin in one column, and padding is a word like others
    return torch.tensor([[PAD] * (PROMPT - len(words)) + [ID[word] for word in words] for words in prompts])

# ---------------- The policy: a small transformer ----------------
class Policy(nn.Module):
    def __init__(self, width, depth, heads):
        super().__init__()
        self.heads, self.norm, self.blocks = heads, nn.LayerNorm(width), nn.ModuleList()
        self.word, self.place = nn.Embedding(len(WORDS), width), nn.Embedding(PROMPT + ANSWER, width)
        for table in (self.word, self.place):
            nn.init.normal_(table.weight, std=0.05)
        for _ in range(depth):
            qkv, out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width)), nn.Linear(width, width)
            think = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            self.blocks.append(nn.ModuleList([qkv, out, nn.Sequential(*think)]))

    def forward(self, ids, cache=()):  # [B, T] -> logits [B, T, words]; with a cache of the columns before, T is 1
        first = cache[0][0].size(2) if cache else 0
        x, columns = self.word(ids) + self.place.weight[first : first + ids.size(1)], []  # [B, T, width]
        for i, (qkv, out, think) in enumerate(self.blocks):
            q, k, v = (y.unflatten(2, (self.heads, -1)).transpose(1, 2) for y in qkv(x).chunk(3, 2))  # [B, H, T, d]
            if cache:
                k, v = (torch.cat(pair, 2) for pair in zip(cache[i], (k, v), strict=True))
            columns.append((k, v))
            x = x + out(F.scaled_dot_product_attention(q, k, v, is_causal=not cache).transpose(1, 2).flatten(2))
            x = x + think(x)
        return self.norm(x) @ self.word.weight.T, columns

def log_probabilities(policy, prompts, answers):  # of each word of the answers: [B, PROMPT], [B, L] -> [B, L]
    logits, _ = policy(torch.cat([prompts, answers[:, :-1]], 1))
    return logits[:, PROMPT - 1 :].log_softmax(-1).gather(2, answers[..., None])[..., 0]

@torch.no_grad()
def sample(policy, prompts, noise):  # Answers at temperature 1: ids [B, L], padded behind their end, and words or None.
    (logits, cache), ids, going = policy(prompts), [], torch.ones(len(prompts), 1, dtype=torch.bool)
    while len(ids) < ANSWER and going.any():
        ids.append(torch.multinomial(logits[:, -1].softmax(-1), 1, generator=noise).where(going, PAD))  # [B, 1]
        going = going & (ids[-1] != END)
        logits, cache = policy(ids[-1], cache)
    ids = torch.cat(ids, 1)
    return ids, [[WORDS[i] for i in row[: row.index(END)]] if END in row else None for row in ids.tolist()]

def update(policy, optimizer, loss):  # one optimizer step
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()

# ---------------- The supervised start ----------------
def supervised_start(policy, s, rng):
    optimizer = torch.optim.AdamW(policy.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(s.lessons):
        # The rate does not go down to 0: a policy that has become sure of all it says has little left to explore.
        optimizer.param_groups[0]["lr"] = s.lesson_rate * min(20 * step / s.lessons, 1, 1.5 - step / s.lessons)
        pairs = [report_lesson(rng) for _ in range(s.batch // 5)]  # prompts and right answers
        while len(pairs) < s.batch:
            # Many holes and waits, for careless agents solve half of all other boards, and teach to be careless.
            task = random_task(rng.choice(SIZES), MAX_HOLES * rng.random() ** 0.5, rng, rng.random() < 0.3 or None)
            pairs.append((ask(task.board), answer(task.board, task.plan)))
        prompts, answers = zip(*pairs, strict=True)
        rows = [torch.tensor([ID[word] for word in [*words, "end"]]) for words in answers]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)  # [B, L]
        loss = -log_probabilities(policy, encode(prompts), ids)[ids != PAD].mean()
        update(policy, optimizer, loss)
        if step % 100 == 99:
            print(f"supervised start, step {step + 1} of {s.lessons}: loss {loss:.3f}", flush=True)

# ---------------- Reinforcement learning: GRPO ----------------
def reward(task, plan):  # 0 for a wrong plan, 0.5 for a valid one, 1 for a valid one of the least makespan
    return 0.0 if check(task.board, plan) else 0.5 + 0.5 * (makespan(plan) == makespan(task.plan))

def advantages(rewards):  # [boards, answers] -> how much better each is than the others to the same board
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)

def grpo_loss(logps, old, advantage, mask, words):  # [B, L] now and at sampling, [B], [B, L], words of the whole step
    ratio, advantage = (logps - old).exp(), advantage[:, None]
    # The ratio is clipped as in PPO, so that several steps on the same answers do not go too far. The mean is over all
    # words of the step, so that long answers count in full (DAPO, Yu et al. 2025). There is no KL term.
    return -(torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage) * mask).sum() / words

def grpo_round(policy, tasks, s, noise):
    optimizer = torch.optim.AdamW(policy.parameters(), weight_decay=0.0)
    for step in range(s.steps):
        optimizer.param_groups[0]["lr"] = s.rate * (1 - step / s.steps)
        batch = [task for task in tasks[step * s.boards : (step + 1) * s.boards] for _ in range(s.answers)]
        prompts = encode([ask(task.board) for task in batch])  # [B, PROMPT], B = boards x answers
        ids, texts = sample(policy, prompts, noise)
        rewards = torch.tensor([reward(task, read_plan(words)) for task, words in zip(batch, texts, strict=True)])
        advantage, mask, old = advantages(rewards.view(-1, s.answers)).flatten(), ids != PAD, None
        keep = advantage != 0  # the other answers add nothing to the loss
        for _ in range(s.iterations if keep.any() else 0):
            logps = log_probabilities(policy, prompts[keep], ids[keep])
            old = logps.detach() if old is None else old
            update(policy, optimizer, grpo_loss(logps, old, advantage[keep], mask[keep], mask.sum()))

# ---------------- Answers -> report -> design ----------------
def failure_report(tasks, plans):  # counts for each size: {size: Counter}
    report = {size: Counter() for size in SIZES}
    for task, plan in zip(tasks, plans, strict=True):
        failed, kind = check(task.board, plan), "wait" if task.waits else "calm"
        extra = 0 if failed else makespan(plan) - makespan(task.plan)
        solved = [] if failed else ["valid", f"{kind}_valid", *["optimal"] * (extra == 0), *["extra_steps"] * extra]
        report[task.board.size].update(["rollouts", f"{kind}_rollouts", *failed, *solved])
    return report

def rates(report):  # What the engineer is told, [sizes, 3]: valid without a wait, valid with one, plans into a hole.
    keys = [("calm_valid", "calm_rollouts"), ("wait_valid", "wait_rollouts"), ("hole", "rollouts")]
    return np.array([[count[part] / max(1, count[whole]) for part, whole in keys] for count in report.values()])

def rule(told):  # A design, [sizes, 3]: sizes and waits by how much is to be learned, more holes where they fail
    calm, waits, holes = told.T
    calm, waits = calm * (1 - calm) + 0.02, waits * (1 - waits) + 0.02  # most where half is solved
    share = (calm + waits) / (calm + waits).sum()
    return np.stack([share, (0.1 + holes).clip(0, MAX_HOLES), waits / (calm + waits)], 1)

def percents(table):  # in words, row by row
    return [PERCENT[i] for i in np.rint(20 * table.clip(0, 1)).astype(int).flatten()]

# An invented report, and the rule's design for it with noise. A language model brings an idea of good designs from its
# pretraining; ours is given the rule's. So this file can show that the policy applies it to its own failures, no more.
def report_lesson(rng):
    skill = rng.uniform(-2, 4) - rng.uniform(0, 2) * np.arange(len(SIZES))  # log-odds on each size
    told = 1 / (1 + np.exp(-np.stack([skill, skill - rng.uniform(0, 4), rng.uniform(-4, -1, len(SIZES))], 1)))
    return ["report", *percents(told), "design"], percents(rule(told) * np.exp(rng.normal(0, 0.2, told.shape)))

def read_design(words, design):  # The design in a reply, moved into what is legal; if it has none, the one so far.
    if words is None or len(words) != 3 * len(SIZES) or not {*words} <= {*PERCENT} or {*words[::3]} == {"0%"}:
        return design
    share, holes, waits = np.array([PERCENT.index(word) / 20 for word in words]).reshape(-1, 3).T
    return np.stack([share / share.sum(), holes.clip(0, MAX_HOLES), waits], 1)

def by_policy(policy, design, told, noise):  # the policy as its own engineer
    _, [reply] = sample(policy, encode([["report", *percents(told), "design"]]), noise)
    return read_design(reply, design)

# ---------------- Rounds: every designer goes on from the same round 0, with as many boards ----------------
# A designer makes the next design of the policy, its last design and the rates in its last report. Add one of your own.
DESIGNERS = {"fixed": lambda policy, design, told, noise: design}
DESIGNERS |= {"rule": lambda policy, design, told, noise: rule(told), "engineer": by_policy}

def main(**changes):  # {(designer, round): (design [sizes, 3], rewards on the test boards [test])}
    s, results = SimpleNamespace(**SETTINGS | changes), {}
    torch.set_num_threads(s.threads)
    torch.manual_seed(s.seed)
    rng, noise = np.random.default_rng(s.seed), torch.Generator().manual_seed(s.seed)
    even = np.array([[1 / len(SIZES), 0.2, 0.25]] * len(SIZES))  # what is asked of the policy in the end
    validation = draw(even, s.validation, rng)
    test = draw(even, s.test, rng, {task.board for task in validation})

    def measure(name, r, policy, design):  # records the rewards on the test boards, returns what an engineer is told
        prompts = encode([ask(task.board) for task in validation + test])
        _, texts = sample(policy, prompts, torch.Generator().manual_seed(s.seed))  # one noise for all: they are paired
        plans = [read_plan(words) for words in texts]
        results[name, r] = design, np.array([reward(*pair) for pair in zip(test, plans[s.validation :], strict=True)])
        print(f"{name}, round {r}: {100 * (results[name, r][1] > 0).mean():.1f}% of the test boards", flush=True)
        return rates(failure_report(validation, plans[: s.validation]))

    def train(name, r, policy, design):
        boards = np.random.default_rng([s.seed, r])  # the same design gets the same boards, whoever made it
        tasks = draw(design, s.steps * s.boards, boards, {task.board for task in validation + test})
        grpo_round(policy, tasks, s, torch.Generator().manual_seed(s.seed))
        return measure(name, r, policy, design)

    base = Policy(s.width, s.depth, s.heads)
    supervised_start(base, s, rng)
    measure("start", "-", base, even)
    # Round 0 trains on a random configuration, which is nobody's design. From then on the designers differ.
    first = np.stack([rng.dirichlet(np.ones(len(SIZES))), *rng.random((2, len(SIZES))) * [[MAX_HOLES], [1]]], 1)
    told = train("random", 0, base, first)
    for name, designer in DESIGNERS.items():
        policy, design, report = copy.deepcopy(base), first, told
        for r in range(1, s.rounds):
            design = designer(policy, design, report, noise)
            report = train(name, r, policy, design)
    return results

def show(results):  # a table of where each designer has got, and a figure of the way there
    last = {name: rewards for (name, _), (_, rewards) in results.items()}
    print("\n             valid %     optimal %   valid, points more than fixed")
    for name, x in last.items():
        columns = [100.0 * (x > 0), 100.0 * (x == 1), 100.0 * (x > 0) - 100.0 * (last.get("fixed", x) > 0)]
        print(f"{name:9}" + "".join(f"{y.mean():7.1f} ± {y.std() / len(y) ** 0.5:.1f}" for y in columns))
    print("± is one standard error over the test boards. This is one seed; another may change more than designers do.")
    print("\nDesign of each round for 3x3, 4x4, 5x5 (shares of boards, holes, waits), and valid answers after it")
    for (name, r), (design, x) in results.items():
        bars = " ".join("".join("▁▂▃▄▅▆▇█"[min(7, int(8 * share))] for share in column) for column in design.T)
        print(f"{name:9}{r}  {bars}  {'█' * round(60 * (x > 0).mean())} {100 * (x > 0).mean():.0f}%")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for key, value in SETTINGS.items():
        parser.add_argument(f"--{key}", type=type(value), default=value)
    show(main(**vars(parser.parse_args())))
