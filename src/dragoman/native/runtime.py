"""How a finished translation or language model runs: compiled, or in PyTorch where it cannot be."""

import copy
import logging
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import torch

from dragoman import kernels
from dragoman.decoding.stepping.model_stepper import ModelStepper
from dragoman.errors import ConfigError
from dragoman.kernels.compiling import NotCompiled
from dragoman.machine import choose_device, choose_precision
from dragoman.model import EncoderDecoder, LanguageModel, prepare_for_decoding
from dragoman.model.observer import Observer
from dragoman.model.projection import Projection
from dragoman.native.decoder import NativeStepper
from dragoman.native.functions import functions
from dragoman.native.model import FORMATS, NativeModel
from dragoman.progress import Progress, silent

Decodes = TypeVar("Decodes", EncoderDecoder, LanguageModel)
"""A model of a family that writes."""

log = logging.getLogger(__name__)


class Runtime(Generic[Decodes]):
    """A model on a device, in a precision, and the steppers over it.

    Attributes:
        device, precision: where and in which numbers the model runs.
        native: the packed model; None where PyTorch runs.
    """

    def __init__(
        self,
        model: Decodes,
        device: str = "auto",
        precision: str = "auto",
        native: bool = True,
        progress: Progress = silent,
    ) -> None:
        """`model` stays as it is. Without `native`, PyTorch runs in any case.

        Raises:
            ConfigError: a device or precision that cannot be had.
        """
        self._model, self._progress = model, progress
        self.device, _ = choose_device(device)
        self.native: NativeModel | None = None
        if native and self.device == "cpu" and _compiled(progress):
            # float32 is the fastest or nearly so, and differs least from the model that was trained.
            self.precision = "float32" if precision == "auto" else precision
            if self.precision not in FORMATS:
                raise ConfigError(f"precision must be auto, {', '.join(FORMATS)}, but is {precision}")
            self.native = NativeModel(model.config, effective_weights(model), self.precision)
        elif precision == "int8":
            raise ConfigError("precision int8 needs a processor and a C++ compiler; use auto, float32 or bf16")
        else:
            self.precision, _ = choose_precision(precision, self.device)

    @cached_property
    @torch.inference_mode(False)  # gradients may be asked for
    def model(self) -> Decodes:
        """The model in PyTorch, prepared for decoding; in int8 its numbers are float32."""
        if self.device == "cpu":
            kernels.prepare(self._progress)
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
        return prepare_for_decoding(self._model, self.device, dtype)

    def in_torch(self) -> "Runtime[Decodes]":
        """The same, with the same model in PyTorch, stepped there, so that it can be changed."""
        other = copy.copy(self)
        other.native, other.model = None, self.model
        return other

    def stepper(self, threads: int, observer: Observer | None = None) -> ModelStepper | NativeStepper:
        """A fresh stepper. An observer sees into PyTorch alone, so with one PyTorch runs."""
        if self.native is None or observer is not None:
            return ModelStepper(self.model, observer)
        return NativeStepper(self.native, threads)


@torch.no_grad()
def effective_weights(model: EncoderDecoder | LanguageModel) -> dict[str, np.ndarray]:
    """Every weight by its name, as it takes part in a pass: an adapter is added to what it adapts."""
    weights: dict[str, torch.Tensor | None] = dict(model.named_parameters())
    for name, module in model.named_modules():
        if isinstance(module, Projection):
            weights[f"{name}.weight"], weights[f"{name}.bias"] = module.effective()
    return {name: w.detach().float().cpu().contiguous().numpy() for name, w in weights.items() if w is not None}


def _compiled(progress: Progress) -> bool:
    """Whether there is a compiled library; if not, it is said why."""
    try:
        functions(progress)
    except NotCompiled as why:
        log.warning("translations are computed in PyTorch, slower: %s", why)
        return False
    return True
