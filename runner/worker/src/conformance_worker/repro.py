"""Stand-alone Python for one case: no part of this project is needed to execute it."""

from __future__ import annotations

from conformance_worker.devices.base import Device
from conformance_worker.messages import Execute, OperatorTask


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
        f"there = sample.transform(lambda x: x.to({str(device.torch_device())!r})"
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
