"""Dataclasses as strict JSON: every field is there, of its type, and no other.

Unknown fields are refused by name. This module does no I/O.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from enum import StrEnum
from typing import Any, ClassVar


class MessageError(ValueError):
    """A body that is not the message it should be; says where and why."""


class Tagged:
    """A message that is told apart by a word in its JSON form."""

    TAG: ClassVar[str] = "type"
    WORD: ClassVar[str]


def encode(message: Tagged) -> bytes:
    """Writes one message as JSON. Non-finite numbers are a programming error and raise."""
    return json.dumps(_plain(message), allow_nan=False, separators=(",", ":")).encode()


def decode(union: Any, body: bytes) -> Any:
    """Reads one of the messages of `union`; raises `MessageError` naming the field at fault."""
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except ValueError as error:
        raise MessageError(f"not JSON: {error}; it begins {body[:120]!r}") from error
    return _read(union, value, "message")


def _refuse_constant(text: str) -> typing.NoReturn:
    raise ValueError(f"`{text}` is not JSON")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain: dict[str, Any] = {}
        if isinstance(value, Tagged):
            plain[value.TAG] = value.WORD
        for item in dataclasses.fields(value):
            inner = getattr(value, item.name)
            if inner is None and item.metadata.get("skip_none"):
                continue
            plain[item.name] = _plain(inner)
        return plain
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def _read(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        return _read_union(typing.get_args(hint), value, where)
    if origin is list:
        (inner,) = typing.get_args(hint)
        _demand(isinstance(value, list), where, "a list", value)
        return [_read(inner, item, f"{where}[{index}]") for index, item in enumerate(value)]
    if origin is dict:
        _, inner = typing.get_args(hint)
        _demand(isinstance(value, dict), where, "an object", value)
        return {key: _read(inner, item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return _read_dataclass(hint, value, where)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        _demand(value in list(hint), where, f"one of {', '.join(hint)}", value)
        return hint(value)
    return _read_scalar(hint, value, where)


def _read_scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _demand(number and math.isfinite(value), where, "a number", value)
        return float(value)
    exact = type(value) is hint
    _demand(exact, where, {int: "an integer", str: "a text", bool: "a truth value"}[hint], value)
    return value


def _read_union(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    if type(None) in hints:
        if value is None:
            return None
        hints = tuple(hint for hint in hints if hint is not type(None))
        if len(hints) == 1:
            return _read(hints[0], value, where)
    _demand(isinstance(value, dict), where, "an object", value)
    tag = hints[0].TAG
    words = {hint.WORD: hint for hint in hints}
    word = value.get(tag)
    _demand(word in words, f"{where}.{tag}", f"one of {', '.join(words)}", word)
    return _read_dataclass(words[word], value, where)


@functools.cache
def _hints(message: type) -> dict[str, Any]:
    """The types of a message's fields; resolving their names is most of what reading one costs."""
    return typing.get_type_hints(message)


def _read_dataclass(hint: Any, value: Any, where: str) -> Any:
    _demand(isinstance(value, dict), where, "an object", value)
    hints = _hints(hint)
    rest = dict(value)
    if issubclass(hint, Tagged):
        word = rest.pop(hint.TAG, None)
        _demand(word == hint.WORD, f"{where}.{hint.TAG}", f"`{hint.WORD}`", word)
    arguments = {}
    for item in dataclasses.fields(hint):
        if item.name in rest:
            inner = rest.pop(item.name)
            arguments[item.name] = _read(hints[item.name], inner, f"{where}.{item.name}")
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise MessageError(f"{where} lacks `{item.name}`")
    if rest:
        raise MessageError(f"{where} has the unknown field `{next(iter(rest))}`")
    return hint(**arguments)


def _demand(holds: bool, where: str, wanted: str, value: Any) -> None:
    if not holds:
        raise MessageError(f"{where} must be {wanted}, not {str(value)[:80]!r}")
