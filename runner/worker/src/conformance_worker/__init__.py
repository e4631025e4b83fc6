"""The Python side of the runner: imports torch and a backend, executes cases, judges nothing.

`link` and `messages` are the conversation with the runner, `fork_server` and `worker` the two
kinds of process, `execute` one case, `devices/` what can execute it, `models/` and `operators`
what can be executed.
"""

__version__ = "0.1.0"
