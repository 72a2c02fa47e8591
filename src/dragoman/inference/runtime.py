"""A finished model ready to run: compiled, or in PyTorch where that is impossible. PyTorch is loaded only if used."""

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
    from dragoman.decoding.device_stepper import IdleSearches
    from dragoman.model.observer import Observer
    from dragoman.model.transformer import EncoderDecoder, EncoderModel, LanguageModel

Runs = TypeVar("Runs", "EncoderDecoder", "LanguageModel", "EncoderModel")
"""A model of any family."""
S = TypeVar("S", bound=Settings)

LONGEST_WHOLE = 8_192
"""Maximum tokens of a text that is read whole; fewer if the model has fewer positions. The cost is quadratic."""
_WIDEST_INT8 = 65_536
"""Maximum width of an axis in int8; sums over a wider one could overflow 32 bits."""


class Runtime(Generic[Runs]):
    """A model on a device, in a precision, and the source of its steppers.

    Attributes:
        device, precision: the device of the model, and its numbers.
        native: the compiled model; None if PyTorch runs it.
        others: the other models of an ensemble.
    """

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        native: bool = True,
        progress: Progress | bool = True,
        others: "Sequence[Runtime[Runs]]" = (),
    ) -> None:
        """Prepare the model, in PyTorch unless `native`; raise `ConfigError` for a missing device or precision."""
        self._stored, self._progress, self.others = stored, as_progress(progress), others
        self._idle_searches: IdleSearches = {}
        self.device, _ = choose_device(device)
        self.native: NativeModel | None = None
        if native and self.device == "cpu" and available(self._progress):
            # float32 is closest to the trained model; a quantised one loses nothing more in int8.
            usual = "int8" if stored.quantised else "float32"
            self.precision = usual if precision == "auto" else precision
            if self.precision not in FORMATS:
                raise ConfigError(f"precision must be auto, {', '.join(FORMATS)}, but is {precision}")
            if self.precision == "int8" and max(stored.config.d_model, stored.config.d_ff) > _WIDEST_INT8:
                raise ConfigError(f"int8 is for d_model and d_ff up to {_WIDEST_INT8:,}; use auto, float32 or bf16")
            self.native = NativeModel(stored.config, stored.tensors, self.precision)
        elif native and precision == "int8":
            raise ConfigError("precision int8 needs the CPU as device and a C++ compiler; use auto, float32 or bf16")
        else:
            self.precision, _ = choose_precision(precision, self.device)

    @cached_property
    def model(self) -> Runs:
        """The model in PyTorch, prepared for decoding; in float32 if the precision is int8."""
        import torch

        from dragoman.compiled import kernels
        from dragoman.model.transformer import prepare_for_decoding

        if self.device == "cpu":
            kernels.prepare(self._progress)
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
        with torch.inference_mode(False):  # so that callers can compute gradients
            return prepare_for_decoding(cast(Runs, self._stored.model), self.device, dtype)

    def stepper(self, threads: int, observer: "Observer | None" = None, steppers: int = 1) -> ScoringStepper:
        """Return one of several `steppers` that share the threads. With an observer, PyTorch runs a single model."""
        if self.others:
            if observer is not None:
                raise ConfigError("an ensemble has no single model to look into; take one of its models")
            return EnsembleStepper([member._own_stepper(threads, None, steppers) for member in (self, *self.others)])
        return self._own_stepper(threads, observer, steppers)

    def _own_stepper(self, threads: int, observer: "Observer | None", steppers: int) -> ScoringStepper:
        if self.native is not None and observer is None:
            return NativeStepper(self.native, threads, steppers)
        from dragoman.decoding.device_stepper import DeviceStepper
        from dragoman.decoding.model_stepper import ModelStepper
        from dragoman.model.transformer import EncoderDecoder, EncoderModel

        assert not isinstance(self.model, EncoderModel), "an encoder alone writes nothing"
        if self.device == "cuda" and observer is None and isinstance(self.model, EncoderDecoder):
            return DeviceStepper(self.model, self._idle_searches)
        return ModelStepper(self.model, observer)


def refuse_other_family(stored: StoredModel, family: str) -> None:
    """Raise `DecodeError` if the model is of another family."""
    if stored.config.family != family:
        raise DecodeError(f"{stored.folder} holds a model that {USES[stored.config.family]}")


def options_of(stored: StoredModel, schema: type[S]) -> S:
    """Return the default options of a model, as stored in its folder."""
    return check(stored.files.generation, str(stored.folder / GENERATION), schema, CheckpointError)


@contextmanager
def computing(threads: int | None, advice: str) -> Generator[None]:
    """Let PyTorch use these threads in the block, and raise `OutOfMemory` with this advice; None: no PyTorch."""
    use_threads = nullcontext() if threads is None else torch_threads(threads)
    with use_threads, out_of_memory_as(advice):
        yield
