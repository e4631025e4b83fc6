"""Builds models as the worker would and records what came of it, in `facts/builds.tsv`.

Each distinct pair of model and overrides is built once by the worker's own sources, with the
forward call that they make. timm and torchvision models get that forward call in a sample only, for
it is slow; all of them are built on the meta device. What has a row already is not built again, unless asked.

    PYTHONPATH=runner/worker/src python model-lists/generate/measure.py [--again PATTERN]

One child process does the work, within a limit of memory and of time per model; a child that dies
or hangs costs the model that it was at.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import facts

MOST_SECONDS = 120
"""For one model; a wall clock, because a native operator does not listen to anything milder."""
MOST_BYTES = 10 << 30
MODELS_PER_CHILD = 60
SEED = 0
SAMPLE = {"timm": 60, "torchvision": 40}
SAMPLE_SEED = 7
BATCH, SEQUENCE = 2, 16


def main() -> int:
    """Measures what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", metavar="PATTERN", help="also what has a row and matches")
    parser.add_argument("--only", metavar="PATTERN", help="nothing that does not match")
    arguments = parser.parse_args()
    from choose import wanted_builds

    recorded = {build.key: build for build in facts.builds()}
    wanted = wanted_builds()
    todo = [
        key
        for key in wanted
        if (key not in recorded or (arguments.again and re.search(arguments.again, _label(key))))
        and (not arguments.only or re.search(arguments.only, _label(key)))
    ]
    print(f"{len(wanted)} builds are wanted, {len(todo)} are to be done", file=sys.stderr)
    sampled = sample(wanted)
    began = time.monotonic()
    for done, (key, result) in enumerate(measure(todo, sampled), start=1):
        tried = "forward" if key.source not in SAMPLE or key in sampled else "build"
        recorded[key] = facts.Build(*key, tried=tried, **result)
        if result["outcome"] != "ok":
            print(f"{_label(key)}: {result['outcome']}: {result['detail']}", file=sys.stderr)
        if done % 50 == 0 or done == len(todo):
            facts.write_builds([recorded[key] for key in sorted(recorded)])
            minutes = (time.monotonic() - began) / 60
            print(f"{done} of {len(todo)} after {minutes:.1f} min", file=sys.stderr)
    facts.write_builds([recorded[key] for key in sorted(set(recorded) & set(wanted))])
    return 0


def _label(key: facts.BuildKey) -> str:
    return f"{key.source}:{key.name} {key.overrides}".strip()


def sample(keys: Sequence[facts.BuildKey]) -> set[facts.BuildKey]:
    """The models of timm and torchvision that get a forward call."""
    chosen: set[facts.BuildKey] = set()
    for source, count in SAMPLE.items():
        names = sorted(key for key in keys if key.source == source)
        chosen |= set(random.Random(SAMPLE_SEED).sample(names, min(count, len(names))))
    return chosen


def measure(keys: Sequence[facts.BuildKey], sampled: set[facts.BuildKey]) -> Any:
    """Yields pairs of key and result in order."""
    _import_once()
    position = 0
    while position < len(keys):
        chunk = keys[position : position + MODELS_PER_CHILD]
        process, pipe = _fork(lambda key: build_one(key, forward=key in sampled), chunk)
        for key in chunk:
            line = _read_line(pipe, MOST_SECONDS)
            position += 1
            if line:
                yield key, json.loads(line)
                continue
            os.killpg(process, signal.SIGKILL)
            what = "timeout" if line is None else "crash"
            detail = f"no answer in {MOST_SECONDS} s" if line is None else "the process died"
            yield key, _result(what, detail=detail)
            break
        os.close(pipe)
        os.waitpid(process, 0)


def _import_once() -> None:
    """Imports in the parent what every child needs; no operator is executed in it."""
    for name in ("torch", "timm", "torchvision", "transformers", "conformance_worker.models"):
        importlib.import_module(name)


def _fork(work: Callable[[facts.BuildKey], Any], keys: Sequence[facts.BuildKey]) -> tuple[int, int]:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    os.setsid()
    os.close(reading)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    for key in keys:
        os.write(writing, (json.dumps(work(key)) + "\n").encode())
    os._exit(0)


def _read_line(pipe: int, most_seconds: float) -> str | None:
    """A line; an empty text at the end; `None` when time is up."""
    text = b""
    deadline = time.monotonic() + most_seconds
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        byte = os.read(pipe, 1)
        if not byte:
            return ""
        text += byte
    return text.decode()


def build_one(key: facts.BuildKey, *, forward: bool) -> dict[str, str]:
    """Builds one model; outside the sample, timm and torchvision only on the meta device."""
    import torch

    torch.set_num_threads(1)
    try:
        if key.source in SAMPLE and not forward:
            return _on_meta(key)
        from conformance_worker import graph_signature, models
        from conformance_worker.messages import ModelSpec

        built = models.build(
            ModelSpec(
                source=key.source,
                id=key.name,
                size="tiny",
                batch=BATCH,
                sequence=SEQUENCE,
                overrides=json.loads(key.overrides or "{}"),
            ),
            SEED,
        )
    except BaseException as error:
        text = " ".join(str(error).split())
        return _result("failed", detail=f"{type(error).__name__}: {text}"[:300])
    inputs = built.make_inputs(BATCH, SEQUENCE)
    recipe = next((n.split(": ", 1)[1] for n in built.notes if n.startswith("recipe: ")), "")
    # A tiny model of timm or torchvision may have fewer blocks; all of them are built on meta, so
    # that is what they are told apart by.
    signature = (
        graph_signature.of(built.module)
        if key.source == "transformers"
        else _on_meta(key)["signature"]
    )
    return _result("ok", recipe=recipe, signature=signature, module=built.module, inputs=inputs)


def _on_meta(key: facts.BuildKey) -> dict[str, str]:
    import timm
    import torch
    from conformance_worker import graph_signature
    from torchvision import models

    def create() -> Any:
        if key.source == "timm":
            return timm.create_model(key.name, pretrained=False)
        kind = models.get_model_builder(key.name).__module__
        within = ".detection." in kind or ".segmentation." in kind
        options = {"weights_backbone": None} if within else {}
        return models.get_model(key.name, weights=None, **options)

    try:
        with torch.device("meta"):
            module = create()
    except NotImplementedError:
        # Some compute their widths with tensors.
        module = create()
    return _result("ok", signature=graph_signature.of(module), module=module)


def _result(
    outcome: str,
    *,
    detail: str = "",
    recipe: str = "",
    signature: str = "",
    module: Any = None,
    inputs: Any = None,
) -> dict[str, str]:
    parameters = sum(p.numel() for p in module.parameters()) if module is not None else ""
    return {
        "outcome": outcome,
        "inputs": _input_shapes(inputs) if inputs is not None else "",
        "recipe": recipe,
        "signature": signature,
        "parameters": str(parameters),
        "detail": detail.replace("\t", " "),
    }


def _input_shapes(inputs: Any) -> str:
    """`input_ids=2x16 attention_mask=2x16`; positional ones by number."""
    named = [
        *((str(number), one) for number, one in enumerate(inputs.args)),
        *inputs.kwargs.items(),
    ]
    return " ".join(
        f"{name}={'x'.join(map(str, one.shape))}" for name, one in named if hasattr(one, "shape")
    )


if __name__ == "__main__":
    sys.exit(main())
