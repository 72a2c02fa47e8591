"""How a finished model runs: compiled, or in PyTorch where it cannot be. Only where PyTorch runs is it loaded."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from dragoman.config import Settings, check
from dragoman.decoding.compiled_stepper import FORMATS, NativeModel, NativeStepper, available
from dragoman.decoding.steppers import EnsembleStepper, ScoringStepper
from dragoman.errors import CheckpointError, ConfigError, DecodeError
from dragoman.memory import out_of_memory_as
from dragoman.progress import Progress, as_progress
from dragoman.store.description import GENERATION, USES, StoredModel
from dragoman.system import choose_device, choose_precision, torch_threads

if TYPE_CHECKING:
    from dragoman.model.observer import Observer
    from dragoman.model.transformer import EncoderDecoder, EncoderModel, LanguageModel

Runs = TypeVar("Runs", "EncoderDecoder", "LanguageModel", "EncoderModel")
"""A model of any family."""
S = TypeVar("S", bound=Settings)

LONGEST_WHOLE = 8_192
"""Most tokens of a text that is read whole, where a model has no fewer positions: attention grows with the square."""
_WIDEST_INT8 = 65_536
"""Products of a wider axis could exceed a 32-bit sum."""


class Runtime(Generic[Runs]):
    """A model on a device, in a precision, and the steppers over it.

    Attributes:
        device, precision: where and in which numbers the model runs.
        native: the packed model; None where PyTorch runs.
        others: models that translate with this one as one, an ensemble.
    """

    others: "Sequence[Runtime[Runs]]" = ()

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        native: bool = True,
        progress: Progress | bool = True,
    ) -> None:
        """The model of `stored` stays as it is. Without `native`, PyTorch runs in any case.

        Raises:
            ConfigError: a device or precision that cannot be had.
        """
        self._stored, self._progress = stored, as_progress(progress)
        self.device, _ = choose_device(device)
        self.native: NativeModel | None = None
        if native and self.device == "cpu" and available(self._progress):
            # float32 differs least from the model that was trained; a quantised one gives up nothing more in int8.
            usual = "int8" if stored.quantised else "float32"
            self.precision = usual if precision == "auto" else precision
            if self.precision not in FORMATS:
                raise ConfigError(f"precision must be auto, {', '.join(FORMATS)}, but is {precision}")
            if self.precision == "int8" and max(stored.config.d_model, stored.config.d_ff) > _WIDEST_INT8:
                raise ConfigError(f"int8 is for d_model and d_ff up to {_WIDEST_INT8:,}; use auto, float32 or bf16")
            self.native = NativeModel(stored.config, stored.weights, self.precision)
        elif native and precision == "int8":
            raise ConfigError("precision int8 needs the CPU as device and a C++ compiler; use auto, float32 or bf16")
        else:
            self.precision, _ = choose_precision(precision, self.device)

    @cached_property
    def model(self) -> Runs:
        """The model in PyTorch, prepared for decoding; in int8 its numbers are float32."""
        import torch

        from dragoman.compiled import kernels
        from dragoman.model.transformer import prepare_for_decoding

        if self.device == "cpu":
            kernels.prepare(self._progress)
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
        with torch.inference_mode(False):  # gradients may be asked for
            return prepare_for_decoding(cast(Runs, self._stored.model), self.device, dtype)

    def stepper(self, threads: int, observer: "Observer | None" = None, steppers: int = 1) -> ScoringStepper:
        """A fresh stepper, one of so many `steppers` that share the threads. An observer sees into PyTorch alone, so
        with one PyTorch runs; but into no ensemble.
        """
        if self.others:
            if observer is not None:
                raise ConfigError("an ensemble has no single model to look into; take one of its models")
            members = (self, *self.others)
            return EnsembleStepper([member._stepper(threads, None, steppers) for member in members])
        return self._stepper(threads, observer, steppers)

    def _stepper(self, threads: int, observer: "Observer | None", steppers: int) -> ScoringStepper:
        if self.native is not None and observer is None:
            return NativeStepper(self.native, threads, steppers)
        from dragoman.decoding.model_stepper import ModelStepper
        from dragoman.model.transformer import EncoderModel

        assert not isinstance(self.model, EncoderModel), "an encoder alone writes nothing"
        return ModelStepper(self.model, observer)


def refuse_other_family(stored: StoredModel, family: str) -> None:
    if stored.config.family != family:
        raise DecodeError(f"{stored.folder} holds a model that {USES[stored.config.family]}")


def options_of(stored: StoredModel, schema: type[S]) -> S:
    """How a model writes when it is not told otherwise, as its folder says."""
    try:
        return check(stored.files.generation, str(stored.folder / GENERATION), schema)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


@contextmanager
def computing(torch_threads_used: int | None, advice: str) -> Generator[None]:
    """Turns a full memory into advice, and sets PyTorch's threads; None: it does not compute."""
    threads = nullcontext() if torch_threads_used is None else torch_threads(torch_threads_used)
    with threads, out_of_memory_as(advice):
        yield
