"""Tells quantised repackagings by their id: the same model again in fewer bits, not a new one."""

from __future__ import annotations

import re

QUANTISED = re.compile(
    r"gguf|ggml|awq|gptq|mlx|exl[23]|exllama|bnb|bitsandbytes|hqq|aqlm|eetq|marlin|squeezellm"
    r"|smashed|(^|[^0-9a-z])[234568][-_]?bits?([^a-z]|$)|(^|[^a-z])u?int[248]([^0-9]|$)"
    r"|fp8|fp4|nf4|autoround|quant|(^|[-_.])q[2-8]([-_.]|$)|w[48]a(4|8|16)|imatrix|[-_.]i1([-_.]|$)"
    r"|onnx|openvino|[-_]ov$|coreml|litert|tflite|rkllm|qnn|tensorrt|[-_]trt([-_]|$)",
    re.IGNORECASE,
)
"""Formats of fewer bits, and formats of other programs that hold the same graph."""
