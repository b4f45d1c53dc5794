"""Another policy back end: a rule, then the same rule behind an OpenAI-compatible server on this machine.

Run it: `python docs/examples/own_policy.py`.
"""

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mapflake.env import MOVES, Instance, Plan, benchmark_sets, distances, execute, format_plan
from mapflake.trainer import evaluate


class ShortestPaths:
    """A policy that sends every agent along a shortest path, as if it were alone on the ice."""

    prompt_format = "chat"

    def complete(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        seed: int = 0,
        progress: str | None = None,
    ) -> list[list[str]]:
        return [[answer(prompt)] * n for prompt in prompts]


def answer(prompt: str) -> str:
    """Returns the plan for the board in a prompt; it stands in the prompt's second paragraph."""
    board = Instance.from_text(prompt.split("\n\n")[1])
    return format_plan(board, Plan(tuple(map(shortest, board.starts, board.goals, [board] * board.num_agents))), "chat")


def shortest(start: tuple[int, int], goal: tuple[int, int], board: Instance) -> str:
    """Returns the moves of a shortest path, ties broken in the order of `MOVES`."""
    distance, moves = distances(board, goal), ""
    while distance[start]:
        alone = Instance(board.size, board.holes, (start,), (goal,))
        cells = {move: execute(alone, Plan((move,)))[-1][0] for move in MOVES}
        moves += next(move for move in MOVES if distance.get(cells[move], distance[start]) < distance[start])
        start = cells[moves[-1]]
    return moves


class Server(BaseHTTPRequestHandler):
    """The least that an OpenAI-compatible server must do: POST /v1/chat/completions."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": answer(request["messages"][-1]["content"])}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        reply = {"id": "0", "object": "chat.completion", "created": 0, "model": request["model"], "choices": [choice]}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *args: object) -> None:
        """Says nothing."""


def main() -> None:
    tasks = benchmark_sets(strata={2: [4, 6], 4: [4, 6]}, wait_ratios=[0.5], boards=20)["wr050"]
    by_rule = evaluate.rollout(ShortestPaths(), tasks, seed=0)
    rates = evaluate.rates(evaluate.frame(by_rule), by=["agents", "size"])
    print(rates[["agents", "size", "boards", "valid", "optimal"]].to_string(index=False))

    from mapflake.trainer.openai_client import OpenAIPolicy  # with torch: for this half only

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        policy = OpenAIPolicy("shortest-paths", f"http://127.0.0.1:{server.server_port}/v1")
        by_server = evaluate.rollout(policy, tasks, seed=0)
        server.shutdown()
    print("over HTTP, the same answers:", by_server == by_rule)


if __name__ == "__main__":
    main()
