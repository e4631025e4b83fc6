"""What the scripted worker says in the real worker's form: frames, an inventory, tensor files."""

import json
import socket
import struct


class Link:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.buffer = b""

    def send(self, **message):
        body = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def receive(self):
        while True:
            if len(self.buffer) >= 4:
                (length,) = struct.unpack("<I", self.buffer[:4])
                if len(self.buffer) >= 4 + length:
                    body = self.buffer[4 : 4 + length]
                    self.buffer = self.buffer[4 + length :]
                    return json.loads(body)
            data = self.socket.recv(65536)
            if not data:
                return None
            self.buffer += data


OVERLOADS = [
    {
        "name": f"aten::{name}",
        "schema": "(Tensor self) -> Tensor",
        "tags": ["core"] if name == "pass" else [],
        "view": False,
        "structured_delegate": "",
        "kernels": kernels,
        "added": [],
    }
    for name, kernels in (
        ("composite", ["CompositeImplicitAutograd"]),
        ("missing", []),
        ("pass", ["CPU"]),
    )
]


def write_tensors(path, values):
    data = struct.pack(f"<{len(values)}f", *values)
    leaf = {
        "path": "0",
        "kind": "tensor",
        "dtype": "float32",
        "shape": [len(values)],
        "stride": [1],
    }
    header = json.dumps(
        {
            "__metadata__": {"structure": json.dumps([leaf])},
            "0": {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(data)]},
        }
    ).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def list_cases(message):
    """The cases that are asked for, one for each number of a sample, and entries that are unknown."""
    known = [entry for entry in message["entries"] if not entry.startswith("nosuch")]
    cases = [
        {"entry": entry, "dtype": dtype, "sample": sample, "train": False,
         "layout": "", "error_input": False}
        for entry in known
        for dtype in message["dtypes"]
        for sample in range(message["samples"])
    ]
    return {"cases": cases, "unknown": [entry for entry in message["entries"] if entry not in known]}
