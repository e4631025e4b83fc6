from __future__ import annotations

import os

# Before torch is imported by anything: the tests speak to devices by name, like the worker.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# No test may ask a cloud's metadata server, which answers late or never.
os.environ["TPU_SKIP_MDS_QUERY"] = "1"
