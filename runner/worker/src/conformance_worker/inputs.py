"""Inputs for a transformers model, built from the signature of its `forward`.

Each argument name has one builder. What is required gets built, the main input always, and masks
where there is something to mask. All values come from one seeded generator.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from conformance_worker.models.base import UnbuildableError

IMAGE_SIZE = 224
WAVE_SAMPLES = 4000
WAVE_SAMPLES_OF_A_SPEAKER = 16_000
"""A speaker is told by a stack of wide convolutions over time."""
CHOICES = 2
REGIONS = 4
"""Regions of an image that come as features, from an object detector."""
MEL_FRAMES = 64
GRID_SIDE = 4
"""Rows and columns of patches of an image that comes as flat patches."""

_TEXT_AND_IMAGE = re.compile(
    r"CLIP|Clip|Siglip|SigLip|Blip|ALIGN|Align|GroupVi|OwlVi|Owlv2|Vilt|ViLT|LayoutLMv[23]|Bridge"
    r"|Flava|GroundingDino"
)
_TRANSPOSED_MEL = re.compile(r"Whisper|Qwen2Audio|AudioFlamingo")
"""Spectrograms with frequency before time, of a fixed length."""
_VIDEO = re.compile(r"[Vv]ideo|[Tt]ime[Ss]former|[Vv]ivit|V[Jj][Ee][Pp][Aa]")
_CODEC = re.compile(r"Encodec|Dac|Mimi|Codec|DAC|Snac")


@dataclass(frozen=True)
class Wishes:
    """What may be chosen about the inputs."""

    image_size: int = IMAGE_SIZE
    """Side of images for models that take any."""
    every_modality: bool = False
    """Also what a model takes but does not demand: images and sound beside text."""


_MODALITIES = (
    "input_ids",
    "attention_mask",
    "pixel_values",
    "input_features",
    "input_features_mask",
    "input_values",
    "decoder_input_ids",
)


class InputBuilder:
    """Builds arguments for one model and one size."""

    def __init__(self, model: Any, batch: int, sequence: int, seed: int, wishes: Wishes) -> None:
        self._model = model
        self._config = model.config
        self._name = type(model).__name__
        self._batch = batch
        self._sequence = sequence
        self._image_size = wishes.image_size
        self._every_modality = wishes.every_modality
        self._parameters = inspect.signature(model.forward).parameters
        self._generator = torch.Generator().manual_seed(seed)
        self._choices = (CHOICES,) if self._name.endswith("ForMultipleChoice") else ()
        self._transposed = bool(_TRANSPOSED_MEL.search(self._name))
        self._text = _text_config(model.config)
        vision = ("vision_config", "vision_encoder_config", "encoder", "backbone_config")
        parts = [getattr(model.config, name, None) for name in vision]
        audio = ("audio_config", "encoder_config", "audio_encoder_config", "speech_config")
        parts_of_sound = [getattr(model.config, name, None) for name in audio]
        self._audio = [part for part in parts_of_sound if hasattr(part, "to_dict")]
        self._vision = next((part for part in parts if hasattr(part, "to_dict")), model.config)

    def build(self) -> dict[str, Any]:
        """Keyword arguments of `forward`."""
        parameters = self._parameters
        wanted: list[str] = []
        main = getattr(self._model, "main_input_name", "input_ids")
        if isinstance(main, str) and main in parameters:
            wanted.append(main)
        wanted += [
            name
            for name, parameter in parameters.items()
            if parameter.default is inspect.Parameter.empty
            and parameter.kind
            in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        ]
        if not wanted and "input_ids" in parameters:
            wanted.append("input_ids")
        if "input_ids" in wanted and "attention_mask" in parameters:
            wanted.append("attention_mask")
        if getattr(self._config, "is_encoder_decoder", False):
            wanted.append("decoder_input_ids")
        if self._every_modality:
            wanted += _MODALITIES
        wanted.append("bbox")
        if self._name.startswith("Lxmert"):
            wanted += ["visual_feats", "visual_pos"]
        if "input_ids" in parameters and _TEXT_AND_IMAGE.search(self._name):
            wanted.append("pixel_values")
        arguments = {name: self._one(name) for name in dict.fromkeys(wanted) if name in parameters}
        if not arguments:
            raise UnbuildableError(f"no input can be derived from {', '.join(parameters)[:200]}")
        if "use_cache" in parameters:
            arguments["use_cache"] = False
        return arguments

    def _one(self, name: str) -> Any:
        builder = _BUILDERS.get(name)
        if builder is None:
            raise UnbuildableError(f"there is no builder for the required input `{name}`")
        return builder(self)

    def _floats(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._generator)

    def _integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, max(high, low + 1), shape, generator=self._generator)

    def _number(self, *names: str, default: int) -> int:
        for config in (self._config, *self._audio, self._text):
            for name in names:
                value = getattr(config, name, None)
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        return default

    def token_ids(self) -> torch.Tensor:
        """Token ids clear of the special ones at both ends of the vocabulary."""
        rows = self._batch
        if self._name.startswith("Musicgen") and self._name.endswith("ForCausalLM"):
            rows *= self._number("num_codebooks", default=4)  # one row per codebook
        vocabulary = 64
        for config in (self._text, self._config):
            for name in ("vocab_size", "text_vocab_size"):
                value = getattr(config, name, None)
                if isinstance(value, int):
                    vocabulary = value
                    break
        tokens = self._integers(4, min(vocabulary, 100) - 8, rows, *self._choices, self._sequence)
        if self._classifies_at_its_end():
            tokens[..., -1] = self._number("eos_token_id", default=2)
        return tokens

    def _classifies_at_its_end(self) -> bool:
        """Whether a model looks for the token that ends a text, and refuses a text without it."""
        pair = getattr(self._config, "is_encoder_decoder", False)
        return bool(pair) and self._name.endswith("ForSequenceClassification")

    def ones(self) -> torch.Tensor:
        """A mask that masks nothing."""
        return torch.ones(self._batch, *self._choices, self._sequence, dtype=torch.int64)

    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        size: Any = None
        for config in (self._vision, self._config):
            for name in ("image_size", "input_size", "crop_size"):
                size = size if size is not None else getattr(config, name, None)
        if isinstance(size, dict):
            size = (size.get("height", self._image_size), size.get("width", self._image_size))
        if isinstance(size, int):
            size = (size, size)
        if not isinstance(size, (list, tuple)) or len(size) < 2:
            size = (self._image_size, self._image_size)
        channels: Any = None
        for config in (self._vision, self._config):
            for name in ("num_channels", "in_channels", "in_chans"):
                channels = channels if channels is not None else getattr(config, name, None)
        return channels if isinstance(channels, int) else 3, int(size[-2]), int(size[-1])

    def flat_patches(self) -> torch.Tensor:
        """Patches of all examples in one row each, as towers with a grid take them."""
        patch = self._number("patch_size", "spatial_patch_size", default=14)
        patch = getattr(self._vision, "patch_size", None) or patch
        frames = getattr(self._vision, "temporal_patch_size", None) or 1
        channels, _, _ = self.image_shape()
        rows = self._batch * GRID_SIDE * GRID_SIDE
        return self._floats(rows, channels * frames * patch * patch)

    def image(self) -> torch.Tensor:
        """An image per example, or a short film."""
        if "grid_thw" in self._parameters:
            return self.flat_patches()
        channels, height, width = self.image_shape()
        frames = getattr(self._config, "num_frames", None)
        if isinstance(frames, int) and _VIDEO.search(self._name):
            return self._floats(self._batch, frames, channels, height, width)
        return self._floats(self._batch, channels, height, width)

    def film(self) -> torch.Tensor:
        """Frames of images."""
        channels, height, width = self.image_shape()
        frames = self._number("num_frames", "frames_per_clip", default=4)
        return self._floats(self._batch, frames, channels, height, width)

    def mel(self) -> torch.Tensor:
        """A spectrogram, with frequency where the model wants it."""
        bands = self._number(
            "feature_projection_input_dim",
            "num_mel_bins",
            "feature_size",
            "input_feat_per_channel",
            "n_mels",
            default=80,
        )
        if self._transposed:
            frames = 2 * self._number("max_source_positions", default=1500)
            return self._floats(self._batch, bands, frames)
        return self._floats(self._batch, MEL_FRAMES, bands)

    def mel_mask(self) -> torch.Tensor:
        """A mask over the frames of a spectrogram that masks nothing."""
        frames = max(self.mel().shape[1:]) if self._transposed else MEL_FRAMES
        return torch.ones(self._batch, frames, dtype=torch.int64)

    def wave(self) -> torch.Tensor:
        """Sound."""
        if type(self._config).__name__ == "ASTConfig":
            config: Any = self._config
            return self._floats(self._batch, config.max_length, config.num_mel_bins)
        if _CODEC.search(self._name):
            return self._floats(self._batch, 1, WAVE_SAMPLES)
        speaker = self._name.endswith("ForXVector")
        return self._floats(self._batch, WAVE_SAMPLES_OF_A_SPEAKER if speaker else WAVE_SAMPLES)

    def boxes(self) -> torch.Tensor:
        """A box per token, corners in order."""
        corner = self._integers(0, 50, self._batch, *self._choices, self._sequence, 2)
        return torch.cat([corner, corner + 10], dim=-1)

    def embeddings(self) -> torch.Tensor:
        """Hidden states."""
        if "grid_thw" in self._parameters:
            return self.flat_patches()
        hidden = self._number("hidden_size", "d_model", default=64)
        return self._floats(self._batch, self._sequence, hidden)

    def past_values(self) -> torch.Tensor:
        """A time series with its lags."""
        length = self._number("context_length", default=32)
        channels = self._number("num_input_channels", "input_size", default=1)
        lags = getattr(self._config, "lags_sequence", None) or [0]
        if channels == 1 and max(lags):
            return self._floats(self._batch, length + max(lags))
        return self._floats(self._batch, length + max(lags), channels)

    def past_time_features(self) -> torch.Tensor:
        """What is known of each point in time of a series."""
        length = self.past_values().shape[1]
        features = self._number("num_time_features", default=0)
        return self._floats(self._batch, length, features)

    def past_observed_mask(self) -> torch.Tensor:
        """A mask that says every past value was observed."""
        return torch.ones_like(self.past_values())

    def pixel_mask(self) -> torch.Tensor:
        """A mask over the pixels that masks nothing."""
        _, height, width = self.image_shape()
        return torch.ones(self._batch, height, width, dtype=torch.int64)

    def regions(self) -> torch.Tensor:
        """Features of regions of an image."""
        features = self._number("visual_feat_dim", default=64)
        return self._floats(self._batch, REGIONS, features)

    def region_boxes(self) -> torch.Tensor:
        """Corners of these regions, in parts of the image."""
        return torch.rand(
            self._batch,
            REGIONS,
            self._number("visual_pos_dim", default=4),
            generator=self._generator,
        )

    def codes(self) -> torch.Tensor:
        """Codes of a neural codec."""
        books = self._number("num_codebooks", "num_quantizers", "n_codebooks", default=8)
        return self._integers(0, 16, self._batch, books, self._sequence)

    def grid(self) -> torch.Tensor:
        """Frames, rows and columns of patches per example."""
        return torch.tensor([[1, GRID_SIDE, GRID_SIDE]] * self._batch)


_BUILDERS: dict[str, Callable[[InputBuilder], Any]] = {
    "input_ids": InputBuilder.token_ids,
    "decoder_input_ids": InputBuilder.token_ids,
    "inputs": InputBuilder.token_ids,
    "labels": InputBuilder.token_ids,
    "qformer_input_ids": InputBuilder.token_ids,
    "attention_mask": InputBuilder.ones,
    "decoder_attention_mask": InputBuilder.ones,
    "pixel_values": InputBuilder.image,
    "pixel_values_videos": InputBuilder.film,
    "pixel_mask": InputBuilder.pixel_mask,
    "input_features": InputBuilder.mel,
    "input_features_mask": InputBuilder.mel_mask,
    "input_values": InputBuilder.wave,
    "audio_values": InputBuilder.wave,
    "waveform": InputBuilder.wave,
    "bbox": InputBuilder.boxes,
    "inputs_embeds": InputBuilder.embeddings,
    "hidden_states": InputBuilder.embeddings,
    "visual_feats": InputBuilder.regions,
    "visual_pos": InputBuilder.region_boxes,
    "past_values": InputBuilder.past_values,
    "past_time_features": InputBuilder.past_time_features,
    "past_observed_mask": InputBuilder.past_observed_mask,
    "audio_codes": InputBuilder.codes,
    "codes": InputBuilder.codes,
    "image_grid_thw": InputBuilder.grid,
    "grid_thw": InputBuilder.grid,
}


def _text_config(config: Any) -> Any:
    try:
        return config.get_text_config()
    except Exception:
        return config
