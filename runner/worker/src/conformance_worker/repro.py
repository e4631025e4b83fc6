"""Stand-alone Python for one case: no part of this project is needed to execute it."""

from __future__ import annotations

from conformance_worker import decoding, dynamic_forms
from conformance_worker.devices.base import Device
from conformance_worker.messages import (
    DynamicDimension,
    DynamismTask,
    Execute,
    ModelSpec,
    OperatorTask,
)
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.words import DynamicForm


def operator_case(request: Execute, task: OperatorTask, device: Device) -> str:
    """A script that makes the same sample and calls the operator on the host and the device."""
    seed = f"zlib.crc32(b{f'{task.entry}/{request.dtype.value}/{request.train}'!r})"
    lines = [
        f"# {request.case}",
        "import itertools, random, zlib, numpy, torch",
        *device.repro_lines(),
        "from torch.testing._internal import common_methods_invocations as database",
        "foreach = (getattr(database, name) for name in dir(database) if name.startswith('foreach')"
        " and name.endswith('_op_db'))",
        f"entry = next(e for e in itertools.chain(database.op_db, *foreach)"
        f" if e.full_name == {task.entry!r})",
        f"seed = {seed}",
        "random.seed(seed); numpy.random.seed(seed); torch.manual_seed(seed)",
        f"samples = entry.sample_inputs('cpu', torch.{request.dtype.value},"
        f" requires_grad={request.train}, set_seed=False)",
        f"sample = next(itertools.islice(iter(samples), {task.sample}, None))",
        "expected = entry.op(sample.input, *sample.args, **sample.kwargs)",
        f"there = sample.transform(lambda x: x.to({device.place!r})"
        " if isinstance(x, torch.Tensor) else x)",
    ]
    call = "entry.op"
    if request.mode.value == "compile":
        call = "torch.compile(entry.op)"
    lines.append(f"actual = {call}(there.input, *there.args, **there.kwargs)")
    if request.train:
        lines += [
            "for output in (expected, actual):",
            "    torch.utils._pytree.tree_leaves(output)[0].abs().sum().backward()",
            "print('gradient expected', getattr(sample.input, 'grad', None))",
            "print('gradient actual', getattr(there.input, 'grad', None))",
        ]
    lines += ["print('expected', expected)", "print('actual', actual)"]
    return "\n".join(lines) + "\n"


def model_case(request: Execute, spec: ModelSpec, built: BuiltModel, device: Device) -> str:
    """A script that builds the same model and calls it on the host and the device."""
    place = device.place
    lines = [
        f"# {request.case}",
        "import copy, torch",
        *device.repro_lines(),
        *built.repro,
        f"model = model.to(torch.{request.dtype.value})",
        *_inputs_lines(built.make_inputs(spec.batch, spec.sequence), request),
        "with torch.no_grad():",
        "    expected = model(*args, **kwargs)",
        f"    there = copy.deepcopy(model).to({place!r})",
    ]
    if request.mode.value == "compile":
        lines.append("    there = torch.compile(there)")
    lines += [
        f"    move = lambda tree: torch.utils._pytree.tree_map_only(torch.Tensor,"
        f" lambda x: x.to({place!r}), tree)",
        "    actual = there(*move(args), **move(kwargs))",
        "print('expected', expected)",
        "print('actual', actual)",
    ]
    return "\n".join(lines) + "\n"


def dynamism_case(request: Execute, task: DynamismTask, built: BuiltModel, device: Device) -> str:
    """A script that compiles once with the same bounds and calls at every size of the sweep."""
    place = device.place
    lines = [
        f"# {request.case}",
        "import torch, torch._dynamo",
        *device.repro_lines(),
        *built.repro,
        f"model = model.to(torch.{request.dtype.value}).to({place!r})",
        *device.dynamism_repro_lines(),
        f"model = torch.compile(model, backend=backend, dynamic={device.dynamic_within_bounds})",
        f"for number, sizes in enumerate({task.sweep!r}):",
        "    inputs = {}",
    ]
    named: dict[str, dict[int, DynamicDimension]] = {}
    for dimension in task.dimensions:
        for name, index in dimension.inputs.items():
            named.setdefault(name, {})[index] = dimension
    for name, dynamic in named.items():
        plain = built.make_inputs(task.model.batch, task.model.sequence).kwargs
        # Positions are no plain input, and have the shape of the tokens.
        rank = (plain[name] if name in plain else plain["input_ids"]).dim()
        shape = [
            f"sizes.get({dynamic[i].name!r}, {task.model.batch})"
            if i in dynamic
            else str(task.model.batch if i == 0 else task.model.sequence)
            for i in range(rank)
        ]
        lines.append(
            f"    inputs[{name!r}] = torch.ones({', '.join(shape)}, dtype=torch.int64)"
            f".to({place!r})"
        )
        lines += [
            f"    if number == 0: torch._dynamo.mark_dynamic(inputs[{name!r}], {index},"
            f" min={dimension.min}, max={dimension.max})"
            for index, dimension in dynamic.items()
        ]
    form = DynamicForm(request.layout or DynamicForm.PLAIN)
    lines += dynamic_forms.repro_lines(form, built)
    lines += [
        "    with torch.no_grad():",
        "        print(sizes, model(**inputs, use_cache=False).logits.shape,",
        "              torch._dynamo.utils.counters['stats']['unique_graphs'])",
    ]
    return "\n".join(lines) + "\n"


def _inputs_lines(inputs: Inputs, request: Execute) -> list[str]:
    """Inputs of the same shapes and kinds; values do not matter for most failures."""
    lines = [f"torch.manual_seed({request.seed})"]
    args = ", ".join(_expression(value, request) for value in inputs.args)
    lines.append(f"args = ({args}{',' if inputs.args else ''})")
    kwargs = ", ".join(
        f"{name}={_expression(value, request)}" for name, value in inputs.kwargs.items()
    )
    lines.append(f"kwargs = dict({kwargs})")
    return lines


def _expression(value: object, request: Execute) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        shape = tuple(value.shape)
        if value.dtype.is_floating_point:
            return f"torch.randn({shape}, dtype=torch.{request.dtype.value})"
        low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 0)
        return f"torch.randint({low}, {high + 1}, {shape}, dtype={value.dtype})"
    if isinstance(value, list):
        return "[" + ", ".join(_expression(item, request) for item in value) + "]"
    return repr(value)


def decoding_case(
    request: Execute, task: DynamismTask, built: BuiltModel, device: Device, form: DynamicForm
) -> str:
    """A script that fills a cache, then decodes one token after the other, and counts graphs."""
    place, batch = device.place, task.model.batch
    lengths = [sizes["sequence"] for sizes in task.sweep]
    static = form is DynamicForm.STATIC_CACHE
    bounds = decoding.length_of_tokens(task)
    assert bounds is not None, "its decoder was made"
    room = bounds.max
    cache = (
        f"StaticCache(config=model.config, max_cache_len={room})"
        if static
        else "DynamicCache(config=model.config)"
    )
    lines = [
        f"# {request.case}",
        "import torch, torch._dynamo",
        "from transformers import DynamicCache, StaticCache",
        *device.repro_lines(),
        *built.repro,
        f"model = model.to(torch.{request.dtype.value}).to({place!r})",
        *device.dynamism_repro_lines(),
        f"compiled = torch.compile(model, backend=backend, dynamic={device.dynamic_within_bounds})",
        f"cache, filled = {cache}, 0",
        f"for number, length in enumerate({lengths!r}):",
        f"    tokens = torch.ones({batch}, length - filled, dtype=torch.int64).to({place!r})",
        f"    mask = (torch.arange({room if static else 'length'}) < length).long()",
        f"    mask = mask.repeat({batch}, 1).to({place!r})",
    ]
    if not static:
        lines += [
            "    kept = [t for layer in cache.layers for t in (layer.keys, layer.values)]",
            "    for tensor, dim in [(mask, 1), *((t, 2) for t in kept)] if number == 1 else []:",
            "        torch._dynamo.mark_dynamic(",
            f"            tensor, dim, min=length - (dim == 2), max={room} - (dim == 2))",
        ]
    lines += [
        "    with torch.no_grad():",
        "        logits = compiled(input_ids=tokens, attention_mask=mask, use_cache=True,",
        f"                          {decoding.cache_name(built.module)}=cache).logits",
        "    filled = length",
        "    print(length, logits.shape, torch._dynamo.utils.counters['stats']['unique_graphs'])",
    ]
    return "\n".join(lines) + "\n"
