"""From a hub model to the class of transformers that builds it, and from a class to its task."""

from __future__ import annotations

import functools

import facts

TASK_OF_MAPPING = {
    "audio-classification": "audio-classification",
    "causal-lm": "text-generation",
    "image-text-to-text": "image-text-to-text",
    "multimodal-lm": "any-to-any",
    "seq-to-seq-causal-lm": "text2text-generation",
    "masked-lm": "fill-mask",
    "sequence-classification": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
    "multiple-choice": "multiple-choice",
    "next-sentence-prediction": "next-sentence-prediction",
    "table-question-answering": "table-question-answering",
    "document-question-answering": "document-question-answering",
    "visual-question-answering": "visual-question-answering",
    "speech-seq-2-seq": "automatic-speech-recognition",
    "ctc": "automatic-speech-recognition",
    "rnnt": "automatic-speech-recognition",
    "tdt": "automatic-speech-recognition",
    "text-to-waveform": "text-to-speech",
    "text-to-spectrogram": "text-to-speech",
    "audio-frame-classification": "audio-frame-classification",
    "audio-xvector": "audio-xvector",
    "image-classification": "image-classification",
    "zero-shot-image-classification": "zero-shot-image-classification",
    "object-detection": "object-detection",
    "zero-shot-object-detection": "zero-shot-object-detection",
    "semantic-segmentation": "image-segmentation",
    "instance-segmentation": "image-segmentation",
    "universal-segmentation": "image-segmentation",
    "image-segmentation": "image-segmentation",
    "mask-generation": "mask-generation",
    "masked-image-modeling": "masked-image-modeling",
    "depth-estimation": "depth-estimation",
    "keypoint-detection": "keypoint-detection",
    "keypoint-matching": "keypoint-matching",
    "pose-estimation": "pose-estimation",
    "image-to-image": "image-to-image",
    "video-classification": "video-classification",
    "time-series-prediction": "time-series-forecasting",
    "time-series-classification": "time-series-classification",
    "time-series-regression": "time-series-regression",
    "text-recognition": "image-to-text",
    "table-recognition": "image-to-text",
    "retrieval": "retrieval",
    "causal-image-modeling": "unconditional-image-generation",
    "decision": "reinforcement-learning",
    "image-matting": "image-segmentation",
    "normal-estimation": "normal-estimation",
    "pointmap-estimation": "depth-estimation",
    "text-encoding": "feature-extraction",
    "image": "image-feature-extraction",
    "backbone": "image-feature-extraction",
    "base": "feature-extraction",
    "pretraining": "pretraining",
}
"""Task of the classes in an Auto mapping; the first mapping that has a class names its task."""

_TEXT_OUT = ("causal-lm", "image-text-to-text", "multimodal-lm", "seq-to-seq-causal-lm")
_IMAGE_TEXT = ("image-text-to-text", "multimodal-lm", "visual-question-answering", "causal-lm")
_SPEECH = ("text-to-waveform", "text-to-spectrogram")
MAPPINGS_OF_TASK = {
    "": (*_TEXT_OUT, "text-to-waveform"),
    "text-generation": _TEXT_OUT,
    "conversational": _TEXT_OUT,
    "any-to-any": ("multimodal-lm", *_TEXT_OUT),
    "image-text-to-text": _IMAGE_TEXT,
    "image-to-text": _IMAGE_TEXT,
    "text-to-speech": _SPEECH,
    "text-to-audio": _SPEECH,
    "translation": ("seq-to-seq-causal-lm",),
    "summarization": ("seq-to-seq-causal-lm",),
    "zero-shot-classification": ("sequence-classification",),
    "feature-extraction": ("base", "text-encoding"),
    "sentence-similarity": ("base", "text-encoding"),
    "image-segmentation": (
        "universal-segmentation",
        "semantic-segmentation",
        "instance-segmentation",
        "image-segmentation",
    ),
    "semantic-segmentation": ("semantic-segmentation", "universal-segmentation"),
    "fill-mask": ("masked-lm", "pretraining"),
}
"""Auto mappings to look in for a hub model's task, in order; tasks not here name one mapping."""


def class_of(model: facts.HubModel) -> str | None:
    """The class that builds it; `None` when transformers has none."""
    if model.kind in tasks_of_classes():
        return model.kind
    types = _classes_of_types().get(model.kind.replace("_", "-"), {})
    types = _classes_of_types().get(model.kind, types)
    same_task = (mapping for mapping, task in TASK_OF_MAPPING.items() if task == model.task)
    for mapping in (*MAPPINGS_OF_TASK.get(model.task, same_task), "base", *TASK_OF_MAPPING):
        if mapping in types:
            return types[mapping]
    return None


@functools.cache
def tasks_of_classes() -> dict[str, str]:
    """Task of every class of transformers."""
    order = list(TASK_OF_MAPPING)
    rows = sorted(facts.transformers_classes(), key=lambda row: order.index(row.mapping))
    tasks: dict[str, str] = {}
    for row in rows:
        tasks.setdefault(row.model_class, TASK_OF_MAPPING[row.mapping])
    return tasks


@functools.cache
def model_types_of_classes() -> dict[str, str]:
    """A model type of every class, the first by name where it has several."""
    types: dict[str, str] = {}
    for row in sorted(facts.transformers_classes(), key=lambda row: row.model_type):
        types.setdefault(row.model_class, row.model_type)
    return types


@functools.cache
def causal_classes() -> frozenset[str]:
    """Classes that are causal language models."""
    return frozenset(
        r.model_class for r in facts.transformers_classes() if r.mapping == "causal-lm"
    )


@functools.cache
def _classes_of_types() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in facts.transformers_classes():
        found.setdefault(row.model_type, {}).setdefault(row.mapping, row.model_class)
    return found
