"""Breadcrumbs: which operators this process is inside of, in a file that outlives it.

A small library of the runner's registers an observer with PyTorch's dispatcher. What runs stays
the same, so it is on in every execution. The runner gives both paths, and reads the file.

The observer is passed to torch as a C++ object, by value, and no symbol tells how that is laid out.
So its declaration in the headers that torch installs must be the one that the library was written
for; and after it is registered, an operation must be seen. Where either fails there are no
breadcrumbs, which costs nothing but a rerun to name the operator of a crash.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from pathlib import Path

import torch

LIBRARY_VARIABLE = "CONFORMANCE_BREADCRUMB_LIBRARY"
FILE_VARIABLE = "CONFORMANCE_BREADCRUMB_FILE"

HEADER = Path(torch.__file__).parent / "include/ATen/record_function.h"

CALLBACK = (
    "private: StartCallback start_; EndCallback end_; double sampling_prob_ = 1.0; "
    "std::array<bool, static_cast<size_t>(RecordScope::NUM_SCOPES)> scopes_ = {}; "
    "bool needs_inputs_ = false; bool needs_outputs_ = false; bool needs_ids_ = false; };"
)
"""Data members of `at::RecordFunctionCallback` as the library lays them out."""

START = "using StartCallback = std::unique_ptr<ObserverContext> (*)(const RecordFunction&);"
END = "using EndCallback = void (*)(const RecordFunction&, ObserverContext*);"
SCOPES = 10
"""Kinds of function, `FUNCTION` first."""

_ENTERED = struct.Struct("<Q")
_ENTERED_AT = 64 + 8
"""Where the first thread's count of operators stands in the file."""

_installed: list[ctypes.CDLL] = []


def install() -> str:
    """Installs the observer; gives why there is none, or nothing where there is one."""
    library, file = os.environ.get(LIBRARY_VARIABLE, ""), os.environ.get(FILE_VARIABLE, "")
    if not library or not file:
        return "the runner gave none"
    if problem := unknown_layout(HEADER):
        return problem
    try:
        loaded = ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    if (code := int(loaded.breadcrumb_install(file.encode()))) != 0:
        words = {1: "its file cannot be mapped", 2: "this torch lacks a symbol that it needs"}
        return words.get(code, f"code {code}")
    if not _sees_an_operation(file):
        return "it does not see operations"
    _installed.append(loaded)
    return ""


def unknown_layout(header: Path) -> str:
    """Why the observer may not be passed to this torch; nothing where it may."""
    try:
        text = header.read_text(encoding="utf-8")
    except OSError as error:
        return f"torch's headers do not tell the layout: {error.strerror}"
    code = " ".join(re.sub(r"//[^\n]*", "", text).split())
    scopes = re.search(r"RecordScope : uint8_t \{ FUNCTION = 0, ([\w, ]+) NUM_SCOPES,", code)
    known = (
        all(part in code for part in (CALLBACK, START, END))
        and scopes is not None
        and 1 + scopes.group(1).count(",") == SCOPES
    )
    return "" if known else f"torch {torch.__version__} has another layout of its observers"


def begin_case() -> None:
    """Forgets the operators that earlier exceptions left through."""
    for library in _installed:
        library.breadcrumb_begin()


def end_case() -> None:
    """Keeps those of the exception that decided the case, whatever is raised after it."""
    for library in _installed:
        library.breadcrumb_end()


def _sees_an_operation(file: str) -> bool:
    # On a meta tensor: the fork server's rule against tensor work is about threads and clients,
    # and the worker has not opened its device yet.
    torch.empty(1, device="meta").add(1)
    with open(file, "rb") as pages:
        pages.seek(_ENTERED_AT)
        entered: int = _ENTERED.unpack(pages.read(_ENTERED.size))[0]
    return entered >= 2
