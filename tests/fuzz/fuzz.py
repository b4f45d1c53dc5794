"""Fuzzes one parser guided by coverage: `python tests/fuzz/fuzz.py reply_json -runs=100000`, or `make fuzz`.

Needs atheris (`pip install atheris`; Linux or macOS). Arguments after the parser's name are libFuzzer's.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mapflake", "yaml"]):
    from parsers import PARSERS, SEEDS


def main() -> None:
    """Runs until libFuzzer has enough, or a text raises what it must not."""
    name, *options = sys.argv[1:]
    parse = PARSERS[name]
    folder = Path(tempfile.mkdtemp())
    words = sorted({word for seed in SEEDS[name] for word in seed.split()} | {'"', "{", "}", "[", "]", "9" * 20})
    escaped = ["".join(f"\\x{byte:02x}" for byte in word.encode()) for word in words]
    (folder / "words").write_text("".join(f'"{word}"\n' for word in escaped))
    (folder / "corpus").mkdir()
    for number, seed in enumerate(SEEDS[name]):
        (folder / "corpus" / str(number)).write_text(seed)

    def one(data: bytes) -> None:
        parse(data.decode("utf-8", errors="surrogateescape"))

    print(json.dumps({"parser": name, "seeds": len(SEEDS[name])}), flush=True)
    known = [f"-dict={folder / 'words'}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=2048", str(folder / "corpus")]
    atheris.Setup([sys.argv[0], *options, *known], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
