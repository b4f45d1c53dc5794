"""Seeds, strict parameters and JSON files, which every other module shares. Nothing here imports torch."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import logging
import operator
import os
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, get_args
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

logger = logging.getLogger(__name__)

MAX_SHOWN = 40  # characters of a wrong value in a message
_repr = reprlib.Repr()
_repr.maxlist = _repr.maxtuple = _repr.maxdict = 20
_repr.maxstring = _repr.maxlong = _repr.maxother = 3 * MAX_SHOWN


def _sequence(seed: int, path: tuple[str | int, ...]) -> np.random.SeedSequence:
    path = tuple(map(plain, path))  # numpy 2 shows its type
    digests = b"".join(hashlib.blake2b(repr(part).encode(), digest_size=8).digest() for part in path)
    return np.random.SeedSequence(seed, spawn_key=tuple(np.frombuffer(digests, "<u4").tolist()))


def rng_for(seed: int, *path: str | int) -> np.random.Generator:
    """Returns the generator of one named stream, e.g. `rng_for(seed, "train", round_index, i)`.

    Streams with different paths are independent, and a path gives the same numbers on every machine, in whatever order
    of calls: numpy's `SeedSequence` with a spawn key of path hashes (our choice).
    """
    return np.random.default_rng(_sequence(seed, path))


def seed_for(seed: int, *path: str | int, bits: int = 32) -> int:
    """Returns a seed of the stream `path`, of 32 or 64 bits, for what takes an integer instead of a generator."""
    return int(_sequence(seed, path).generate_state(1, np.uint32 if bits == 32 else np.uint64)[0])


class ParamError(ValueError):
    """A parameter that cannot be used; the message is one line that names key, value and what is legal."""


class Params(BaseModel):
    """Base of all parameter classes: frozen and strict; unknown keys, wrong types, inf and nan are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, mapping: Any, where: str) -> Self:
        """Returns the parameters in `mapping`, the section `where` of params.yaml (empty: the whole file).

        Raises:
            ParamError: One line for each offending key, with its value and what is legal.
        """
        try:
            return cls.model_validate(mapping)
        except ValidationError as error:
            raise ParamError("\n".join(_explain(cls, where, e) for e in error.errors())) from None


def _explain(cls: Any, where: str, error: Any) -> str:
    key = ".".join(map(str, [where, *error["loc"]])).removeprefix(".") or "params.yaml"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        fields = _fields_at(cls, error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1])[:MAX_SHOWN], fields, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"{key[:200]}: unknown key; {hint}legal keys: {', '.join(fields)}"
    if error["type"] == "missing":
        return f"{key}: missing"
    message = error["msg"].removeprefix("Value error, ")
    if isinstance(error["input"], Mapping):  # of a whole section; the message names the key, and there may be a secret
        return f"{key}: {message}"
    return f"{key}: {shown(error['input'])} is not legal: {message[:1].lower()}{message[1:]}"


def _fields_at(cls: Any, loc: tuple[Any, ...]) -> list[str]:
    for part in loc:
        cls = cls.model_fields[part].annotation if part in getattr(cls, "model_fields", {}) else cls
        cls = next((arg for arg in get_args(cls) if hasattr(arg, "model_fields")), cls)  # in a list, a dict, or null
    return list(getattr(cls, "model_fields", None) or getattr(cls, "__dataclass_fields__", {}))


def whole(value: Any, name: str, least: int | None = None) -> int:
    """Returns an integer, numpy's too, as Python's; ValueError, with its name, if it is none or below `least`."""
    refused = ValueError(f"{name}: must be an integer, not {shown(value)}")
    if isinstance(value, bool):
        raise refused
    try:
        number = int(operator.index(value))
    except TypeError:
        raise refused from None
    if least is not None and number < least:
        raise ValueError(f"{name}: must be at least {least}, not {number}")
    return number


def check_address(url: str | None, where: str) -> None:
    """Raises ValueError if `url` is no server's address, or holds a password or a key; the message does not show it."""
    if url is None:
        return
    try:
        parts = urlsplit(url)
        legal = parts.scheme in ("http", "https") and parts.hostname and url.isprintable() and " " not in url
    except ValueError:
        legal = False
    if not legal:
        raise ValueError(f"{where}: not the address of a server, such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{where}: has a user, a password or a query in it; a key comes from the environment alone")


def write_text(path: str | Path, text: str | Iterable[str]) -> None:
    """Writes `text`, whole or in pieces, as UTF-8, so that a reader sees the old file or the new one, never half.

    Of several writers at once, the last to end wins. Git and DVC ignore what a killed writer leaves.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.writelines([text] if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def shown(value: Any) -> str:
    """Returns `value` as a message shows it: on one line, and never long, however large or deep it is."""
    try:
        text = " ".join(_repr.repr(value).splitlines())
    except ValueError:  # Python's limit of 4300 digits
        return "a number too long to show"
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def plain(value: Any) -> Any:
    """Returns a number of numpy as Python's, anything else as it is; one of float32 is the decimal that it shows."""
    if isinstance(value, np.floating) and value.itemsize < 8:
        return float(str(value))
    return value.item() if isinstance(value, np.generic) else value


def loads(text: str | bytes) -> Any:
    """Returns the JSON value that `text` holds; ValueError if it holds none, or one too deep or too long to be read."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:  # also of bytes that are no UTF-8, and of a number of 4300 digits
        raise ValueError(f"not JSON ({error})") from None


def dumps(value: Any, **options: Any) -> str:
    """Returns `value` as ASCII JSON (model text may hold lone surrogates): no NaN, keys in the order given."""
    return json.dumps(value, allow_nan=False, **options)


def write_json(path: str | Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically."""
    write_text(path, dumps(value, indent=2) + "\n")


def read_json(path: str | Path) -> Any:
    """Returns the JSON value in `path`; ValueError, which names the file, if it holds none."""
    try:
        return loads(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes one JSON object a line, atomically; rows may come from a generator and are not held."""
    write_text(path, (dumps(row) + "\n" for row in rows))


def append_jsonl(path: str | Path, row: Mapping[str, Any]) -> None:
    """Appends one line and syncs it to disk; a torn last line that a crash left behind is cut off first."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write((dumps(row) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def read_jsonl(path: str | Path, *, whole: bool = False) -> list[dict[str, Any]]:
    """Returns the rows of `path`; a torn last line (no newline: a crash while appending) is left out, unless `whole`.

    Raises:
        ValueError: A complete line is not a JSON object; names file and line.
    """
    *lines, torn = Path(path).read_bytes().split(b"\n")
    if torn and whole:
        lines.append(torn)
    elif torn:
        logger.warning("%s: the last line is incomplete (an interrupted write) and is left out", path)
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(loads(line))
            if not isinstance(rows[-1], dict):
                raise ValueError(f"expected an object, found {type(rows[-1]).__name__}")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return rows


T = TypeVar("T")
_adapter = functools.cache(TypeAdapter)


def to_json(record: Any) -> Any:
    """Returns a record (a dataclass or a pydantic model) as JSON values; `from_json` takes them back."""
    return _adapter(type(record)).dump_python(record, mode="json")  # type: ignore[arg-type]


def from_json(kind: type[T], value: Any, where: str) -> T:
    """Returns the record of the class `kind` that `to_json` wrote as `value`; types are checked strictly.

    Raises:
        ValueError: `value` is no such record; one line for each offending key, which begins with `where`.
    """
    try:
        text = dumps(value)
    except ValueError:
        raise ValueError(f"{where}: has NaN, or a number too large for a float, which JSON has not") from None
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from None
    try:
        return _adapter(kind).validate_json(text, strict=True)  # type: ignore[arg-type,no-any-return]
    except ValidationError as error:
        raise ValueError("\n".join(_explain(kind, where, e) for e in error.errors())) from None


def file_sha256(path: str | Path) -> str:
    """Returns the hex SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_sha256(value: Any) -> str:
    """Returns the hex SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
