"""`torch.compile` with the device's compiler, and what it did: graphs, recompiles, breaks.

The counts are taken from calls that pass through here, not from log text. State of the compiler
is process-wide: every case begins with `reset`, or recompiles leak into the next case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import exc
from torch._dynamo.utils import clear_compilation_metrics, counters, get_compilation_metrics

from conformance_worker.observed import Graphs
from conformance_worker.words import Stage

REASON_CHARACTERS = 200
MOST_REASONS = 20


def reset() -> None:
    """Forgets every compiled graph and counter."""
    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()


@dataclass
class Compiled:
    """A compiled function that counts."""

    function: Callable[..., Any]
    enter: Callable[[Stage], None]
    compiled: int = 0
    executed: int = 0
    calls: int = 0
    eager_calls: int = 0
    _callable: Callable[..., Any] = field(init=False)

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        compiler: str | Callable[..., Any],
        *,
        dynamic: bool | None,
        enter: Callable[[Stage], None],
    ) -> Compiled:
        """Wraps `function`; `enter` is told the stage as it changes during a call."""
        compiled = cls(function, enter)
        inner = compiler
        if isinstance(compiler, str):
            inner = torch._dynamo.lookup_backend(compiler)
        compiled._callable = torch.compile(
            function, backend=compiled._counting(inner), dynamic=dynamic
        )
        return compiled

    def _counting(self, compiler: Any) -> Callable[..., Any]:
        def compile_graph(module: Any, inputs: Any, **kwargs: Any) -> Any:
            self.enter(Stage.COMPILE)
            graph = compiler(module, inputs, **kwargs)
            self.compiled += 1
            self.enter(Stage.EXECUTE)

            def execute_graph(*args: Any) -> Any:
                self.executed += 1
                return graph(*args)

            return execute_graph

        return compile_graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it; a call in which no graph was executed counts as an eager one."""
        before = self.executed
        self.calls += 1
        self.enter(Stage.TRACE if self.compiled == 0 else Stage.EXECUTE)
        try:
            return self._callable(*args, **kwargs)
        finally:
            if self.executed == before:
                self.eager_calls += 1

    def graphs(self) -> Graphs:
        """The counters since `reset`."""
        breaks = counters["graph_break"]
        metrics = get_compilation_metrics()
        again = [metric for metric in metrics if _is_recompile(metric)]
        reasons = [f"graph break: {text}" for text in breaks]
        reasons += [f"recompile: {text}" for metric in again if (text := _why(metric))]
        return Graphs(
            graph_count=self.compiled,
            recompiles=len(again),
            graph_breaks=sum(breaks.values()),
            eager_calls=self.eager_calls,
            reasons=[" ".join(text.split())[:REASON_CHARACTERS] for text in reasons][:MOST_REASONS],
        )


def _is_recompile(metric: Any) -> bool:
    # A compile id reads `frame/attempt`, the attempt counting from 0.
    _, _, attempt = str(getattr(metric, "compile_id", "") or "").partition("/")
    return attempt.isdigit() and attempt != "0"


def _why(metric: Any) -> str:
    return str(getattr(metric, "recompile_reason", "") or "")


def stage_of(error: BaseException, stage: Stage) -> Stage:
    """The stage that an exception of a compiled call belongs to.

    The compiler's own exceptions say it better than the last stage entered.
    """
    if isinstance(error, exc.BackendCompilerFailed):
        return Stage.COMPILE
    if isinstance(error, exc.TorchDynamoException):
        return Stage.TRACE
    return stage
