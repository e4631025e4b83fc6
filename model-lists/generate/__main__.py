"""Writes the model lists and their part of the README from the facts folder.

    python model-lists/generate            write
    python model-lists/generate --check    write nothing; exit 1 when a file is not what would be

Needs the standard library only. The same facts give the same bytes. `record.py` and `measure.py`
renew the facts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import choose
import summary
import toml_text

FOLDER = Path(__file__).resolve().parent.parent


def main() -> int:
    """Writes, or checks."""
    parser = argparse.ArgumentParser(prog="generate", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    arguments = parser.parse_args()
    stale = []
    for path, text in files().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
    if arguments.check and stale:
        print(
            f"not what the facts give: {', '.join(stale)}\n\nhint: run `python model-lists/generate`",
            file=sys.stderr,
        )
        return 1
    verb = "checked" if arguments.check else "written"
    print(f"{len(files())} files {verb}, {len(stale)} changed", file=sys.stderr)
    return 0


def files() -> dict[Path, str]:
    """What every generated file must hold."""
    lists = choose.choose()
    made = {
        FOLDER / f"{name}.toml": toml_text.document(
            summary.head(name, lists), [entry.data for entry in entries]
        )
        for name, entries in lists.lists.items()
    }
    readme = FOLDER / "README.md"
    return made | {readme: _with_part(readme.read_text(encoding="utf-8"), lists)}


def _with_part(text: str, lists: choose.Lists) -> str:
    before, begin, rest = text.partition(summary.BEGIN)
    _, end, after = rest.partition(summary.END)
    if not begin or not end:
        raise SystemExit(f"README.md has no marks `{summary.BEGIN}` and `{summary.END}`")
    return before + summary.readme_part(lists) + after


if __name__ == "__main__":
    sys.exit(main())
