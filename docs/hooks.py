"""What `mkdocs` cannot do by itself: pages that lie elsewhere in the repository, and links that were written for it.

Everything keeps its place, README.md as index.md, so that links between these files hold here as they do there; only
`docs/` in front falls away, and a link into the code becomes its text.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"
NOT_HERE = "mapflake|tests|notebooks|docs/examples|one_file.py|LICENSE|CITATION.cff|(?:reports/)?llm/"
CODE_LINK = re.compile(rf"\[([^\]]+)\]\((?:\.\./)?(?:{NOT_HERE})[^)]*\)")


def on_config(config: Any) -> Any:
    """Lists the notebooks of all arms in the navigation, and leaves out guides that this checkout does not have."""
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= {"examples.md"} if any(EXAMPLES.glob("*.py")) else set()
    guide = next(section["Guide"] for section in config.nav if isinstance(section, dict) and "Guide" in section)
    guide[:] = [page for page in guide if page in pages]
    config.nav.insert(2, {"Notebooks": [{_title(name): name} for name in _notebooks()]})
    return config


@event_priority(100)  # before mkdocs-jupyter looks for notebooks
def on_files(files: Files, config: Any) -> Files:
    """Adds the pages and pictures from outside docs/, and a page of the examples."""
    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / "README.md")))
    names = ["CHANGELOG.md", "CONTRIBUTING.md"]
    pages_and_pictures = (path for path in (ROOT / "reports").rglob("*.*") if path.suffix in (".md", ".png", ".gif"))
    names += sorted(path.relative_to(ROOT).as_posix() for path in pages_and_pictures)
    sources = [(ROOT, name) for name in names] + [(ROOT / "reports", name) for name in _notebooks()]
    for folder, name in sources:
        files.append(File(name, str(folder), config.site_dir, config.use_directory_urls))
    examples = sorted(EXAMPLES.glob("*.py"))
    if examples:
        files.append(File.generated(config, "examples.md", content=_examples(examples)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Returns the page with links as they are to be here."""
    text = CODE_LINK.sub(r"\1", markdown)
    if page.file.src_uri.startswith("reports/"):
        return text.replace("](../docs/", "](../").replace("](../README.md", "](../index.md")
    text = re.sub(r"\]\((?:\.\./)?reports/notebooks/", "](notebooks/", text)
    text = text.replace("](../reports/", "](reports/")
    text = re.sub(r"\]\((?:\.\./)?README\.md", "](index.md", text)
    return re.sub(r"\]\(docs/", "](", text) if page.file.src_uri in ("index.md", "CONTRIBUTING.md") else text


def _notebooks() -> list[str]:
    """Returns the executed notebooks, in the order of the pipeline, as seen from reports/."""
    return [f"notebooks/{path.name}" for path in sorted((ROOT / "reports/notebooks").glob("*.ipynb"))]


def _title(name: str) -> str:
    """Returns what a notebook is called in the navigation, e.g. `4 ablations: heuristic`."""
    number, _, words = Path(name).stem.partition("_")
    return f"{int(number)} {words.replace('ablations_', 'ablations: ').replace('_', ' ')}"


def _examples(paths: list[Path]) -> str:
    """Returns a page of the example scripts: what each says of itself, and its code."""
    parts = ["# Examples\n\nScripts in `docs/examples`, run by the tests.\n"]
    for path in paths:
        code = path.read_text(encoding="utf-8")
        title, _, rest = (ast.get_docstring(ast.parse(code)) or path.stem).partition("\n")
        parts.append(f"## {path.name}\n\n{title}\n{rest}\n\n```python\n{code}```\n")
    return "\n".join(parts)
