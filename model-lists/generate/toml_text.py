"""Writes entries as TOML: one inline table per line."""

from __future__ import annotations

import json
import re
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def value(data: Any) -> str:
    """One value; texts need no escapes beyond those that JSON and TOML share."""
    if isinstance(data, dict):
        inside = ", ".join(f"{_key(name)} = {value(one)}" for name, one in data.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(data, (list, tuple)):
        return f"[{', '.join(map(value, data))}]"
    if isinstance(data, (bool, int, float)):
        return json.dumps(data)
    return json.dumps(str(data), ensure_ascii=False)


def document(head: str, entries: list[dict[str, Any]]) -> str:
    """A whole list: a comment of several lines, then the entries."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    lines = "".join(f"    {value(entry)},\n" for entry in entries)
    return f"{comment}models = [\n{lines}]\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)
