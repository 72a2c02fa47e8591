"""Every compiled kernel beside its plain twin: results, gradients, masks; and what happens where memory ends."""

import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from closeness import assert_close
from compiler import needs_compiler
from torch import Tensor, nn

from dragoman.compiled import kernels
from dragoman.model.attention import Attention
from dragoman.model.attention_backends import AttentionContext, KeyValues, compiled_attention
from dragoman.model.config import ModelConfig
from dragoman.model.dropout import DropoutKey, StepKey, drop
from dragoman.model.embedding import Rotary
from dragoman.model.layers import RMSNorm
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.training.loss import NO_TOKEN, label_smoothed_loss, smoothed_cross_entropy

pytestmark = needs_compiler
DTYPES = (torch.float32, torch.bfloat16)
LENGTHS = [7, 1, 4, 19]


@pytest.fixture(autouse=True)
def compiled() -> None:
    """Without kernels the plain twins would be compared with themselves."""
    assert kernels.available()


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def packing() -> Packing:
    return Packing.of(LENGTHS)


def dropout_key() -> DropoutKey:
    return DropoutKey(5, torch.arange(3, 3 + sum(LENGTHS)))


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    norm = RMSNorm(x.size(-1))
    return torch.func.functional_call(norm, {"weight": weight}, (x,))


def attention(**settings: Any) -> Callable[..., Tensor]:
    """Attention of two query heads, without its output matrix."""
    packing, dropped = Packing.of(settings.pop("lengths", LENGTHS), multiple=8), settings.pop("dropout", 0.0)
    width = settings.pop("width", 8)
    layer = Attention(2 * width, heads=2, kv_heads=settings.pop("kv_heads", 2), dropout=dropped)
    layer.output = nn.Identity()  # pyright: ignore[reportAttributeAccessIssue]
    dropout_key = DropoutKey(5, torch.arange(3, 3 + packing.rows)) if dropped else None

    def attend(rows: Tensor, key: Tensor | None = None, value: Tensor | None = None) -> Tensor:
        keys = (
            KeyValues.from_rows(key, value, Packing.of(MEMORY, multiple=8))
            if key is not None and value is not None
            else None
        )
        rope = Rotary(width).rope(packing.position, rows.dtype) if settings.get("rotated") else None
        return layer.attend(rows, keys, packing, settings.get("causal", False), rope, dropout_key)

    return attend


MEMORY = [3, 40, 1, 17]
LONG: dict[str, Any] = {
    "lengths": [70, 5],
    "width": 90,
    "causal": True,
    "rotated": True,
}  # more than a block, and strip
CASES: dict[str, tuple[str, Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "drop": ("drop", lambda x: drop(x, 0.3, "a", dropout_key()), [(31, 40)]),
    "drop onto": ("drop", lambda x, base: drop(x, 0.3, "a", dropout_key(), onto=base), [(31, 40), (31, 40)]),
    "rms_norm": ("rms_norm", rms_norm, [(31, 40), (40,)]),
    "rms_norm of one row": ("rms_norm", rms_norm, [(1, 17), (17,)]),
    "attention": ("attention", attention(), [(32, 6, 8)]),
    "attention, causal and rotated": ("attention", attention(causal=True, rotated=True), [(32, 6, 8)]),
    "attention, few key heads": ("attention", attention(kv_heads=1), [(32, 4, 8)]),
    "attention, dropped": ("attention", attention(causal=True, dropout=0.3), [(32, 6, 8)]),
    "attention, long and wide": ("attention", attention(**LONG), [(80, 6, 90)]),
    "attention, long, wide, dropped": ("attention", attention(**LONG, kv_heads=1, dropout=0.3), [(80, 4, 90)]),
    "attention to a memory": ("attention", attention(), [(32, 2, 8), (64, 2, 8), (64, 2, 8)]),
    "attention to a memory, few key heads": ("attention", attention(kv_heads=1), [(32, 2, 8), (64, 1, 8), (64, 1, 8)]),
}


def result_and_gradients(function: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    result = function(*leaves)
    result.backward(random(*result.shape, dtype=result.dtype, seed=9))
    return [result.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_a_kernel_equals_its_plain_twin_forward_and_back(case: str, dtype: torch.dtype) -> None:
    name, function, shapes = CASES[case]
    inputs = [random(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
    assert kernels.usable(name, *inputs)
    compiled = result_and_gradients(function, inputs)
    with kernels.without(name):
        assert not kernels.usable(name, *inputs)
        plain = result_and_gradients(function, inputs)
    assert len(compiled) == len(plain) == 1 + len(shapes)
    for ours, theirs in zip(compiled, plain, strict=True):
        assert ours.dtype == theirs.dtype == dtype
        assert_close(ours, theirs)


@pytest.mark.parametrize("case", CASES)
def test_in_bf16_a_kernel_is_as_near_to_the_exact_result_as_its_plain_twin(case: str) -> None:
    name, function, shapes = CASES[case]
    inputs = [random(*shape, dtype=torch.bfloat16, seed=seed) for seed, shape in enumerate(shapes)]
    exact = result_and_gradients(function, [x.double() for x in inputs])

    def errors() -> list[float]:
        found = result_and_gradients(function, inputs)
        return [float((x - y).norm() / y.norm()) for x, y in zip(found, exact, strict=True)]

    compiled = errors()
    with kernels.without(name):
        plain = errors()
    assert all(ours < 1.2 * theirs for ours, theirs in zip(compiled, plain, strict=True)), (compiled, plain)


@pytest.mark.parametrize("case", CASES)
def test_the_plain_twin_has_the_right_gradient(case: str) -> None:
    _, function, shapes = CASES[case]
    smaller = [random(*shape, dtype=torch.float64, seed=seed) for seed, shape in enumerate(shapes)]
    assert torch.autograd.gradcheck(function, [x.requires_grad_() for x in smaller], fast_mode=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_loss_kernel_equals_its_plain_twin(dtype: torch.dtype) -> None:
    output, labels = random(50, 16, dtype=dtype, seed=1), torch.arange(33) % 50

    def losses() -> list[Tensor]:
        hidden = random(33, 16, dtype=dtype).requires_grad_()
        weight = output.clone().requires_grad_()
        loss = label_smoothed_loss(hidden, weight, labels, 0.1)
        loss.smoothed.backward()
        assert hidden.grad is not None and weight.grad is not None
        return [loss.smoothed.detach(), loss.plain, hidden.grad, weight.grad]

    compiled = losses()
    with kernels.without("smoothed_loss"):
        plain = losses()
    for ours, theirs in zip(compiled, plain, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_without_a_token_has_neither_loss_nor_gradient(dtype: torch.dtype) -> None:
    logits, labels = random(4, 50, dtype=dtype), torch.tensor([3, NO_TOKEN, 49, NO_TOKEN])
    tokens = labels != NO_TOKEN
    for off in ((), ("smoothed_loss",)):
        with kernels.without(*off):
            gradient, losses = smoothed_cross_entropy(logits.clone(), labels, 0.1)
            of_tokens, losses_of_tokens = smoothed_cross_entropy(logits[tokens], labels[tokens], 0.1)
        assert not gradient[~tokens].any()
        assert_close(gradient[tokens], of_tokens)
        assert_close(losses, losses_of_tokens)


def test_padded_keys_have_gradients_too() -> None:
    layer, queries = Attention(8, heads=1), Packing.of([1, 1])

    def attend(rows: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return layer.attend(rows, KeyValues(key, value, torch.tensor([3, 2])), queries, causal=True)

    inputs = [random(*shape, dtype=torch.float32, seed=shape[0]) for shape in ((2, 1, 8), (2, 1, 3, 8), (2, 1, 3, 8))]
    compiled = result_and_gradients(attend, inputs)
    with kernels.without("attention"):
        plain = result_and_gradients(attend, inputs)
    assert len(compiled) == len(plain) == 4
    for ours, theirs in zip(compiled, plain, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("label", [-2, 50])
def test_a_label_outside_the_vocabulary_is_refused(label: int) -> None:
    hidden, output = random(3, 16, dtype=torch.float32), random(50, 16, dtype=torch.float32)
    with pytest.raises(IndexError, match="from 0 to 49"):
        label_smoothed_loss(hidden, output, torch.tensor([1, label, 2]))


@pytest.mark.parametrize("case", CASES)
def test_a_second_derivative_is_refused_and_not_wrong(case: str) -> None:
    _, function, shapes = CASES[case]
    inputs = [random(*shape, dtype=torch.float32, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]
    result = function(*inputs)
    (gradient, *_) = torch.autograd.grad(result.square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_masks_are_the_same_bits_compiled_or_not() -> None:
    many = DropoutKey(2**31 + 11, torch.arange(5_000))
    ones = torch.ones(5_000, 64)
    compiled = drop(ones, 0.1, "a", many)
    with kernels.without("drop"):
        assert torch.equal(compiled, drop(ones, 0.1, "a", many))


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
def test_a_broken_number_stays_to_be_seen(special: float) -> None:
    rows = random(32, 6, 8, dtype=torch.float32).abs()
    rows[10, 2, 5] = special  # of a key: the third of the third sentence, seen by itself and by the fourth
    broken = ~attention(causal=True)(rows).isfinite().all(1)
    assert broken.nonzero().flatten().tolist() == [10, 11]
    rows = torch.full((32, 6, 8), 1e20)
    rows[:, 2:4] *= -1  # scores of -1e40, which no float32 holds: a softmax over nothing but them is none
    assert not attention()(rows)[: sum(LENGTHS)].isfinite().any()
    x = random(3, 40, dtype=torch.float32)
    x[1, 2] = special
    assert not rms_norm(x, torch.ones(40)).isfinite().all()


def test_nothing_of_the_memory_outlives_the_pass_back() -> None:
    of_queries, of_keys = Packing.of([3, 2]), Packing.of([4, 1])
    memory = random(5, 2, 8, dtype=torch.float32).requires_grad_()
    keys = KeyValues.from_rows(memory + 1, memory + 2, of_keys)
    alive = weakref.ref(keys)
    mixed = compiled_attention(random(5, 2, 8, dtype=torch.float32), keys, AttentionContext(2, of_queries, False))
    del keys
    mixed.sum().backward()
    assert alive() is None, "though its result is still here"
    assert mixed.grad_fn is not None


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_a_whole_model_has_the_same_gradient_with_and_without(preset: str) -> None:
    sizes = {"source_vocabulary": 30, "target_vocabulary": 30, "attention_dropout": 0.1, "activation_dropout": 0.1}
    model = build_model(ModelConfig.model_validate({"preset": preset, "size": "tiny", **sizes}))
    ids, lengths = torch.arange(31) % 30, torch.tensor(LENGTHS)

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        hidden: Any = model(ids, lengths, ids, lengths, dropout_key=StepKey(1, 4))
        label_smoothed_loss(hidden, model.output, ids, 0.1).smoothed.backward()
        return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}

    compiled = gradients()
    with kernels.without(*kernels.KERNELS):
        plain = gradients()
    assert compiled.keys() == plain.keys()
    assert_close(compiled, plain)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("preset", ["paper", "modern"])
@torch.inference_mode()
def test_decoding_from_a_cache_is_the_same_with_and_without(preset: str, dtype: torch.dtype) -> None:
    sizes = {"source_vocabulary": 30, "target_vocabulary": 30, "kv_heads": 2, "heads": 4}
    model = build_model(ModelConfig.model_validate({"preset": preset, "size": "tiny", **sizes})).to(dtype).eval()
    assert isinstance(model, EncoderDecoder)
    source, ids = Packing.of(LENGTHS), torch.arange(31) % 30

    def decoded() -> Tensor:
        cache, hidden = model.start(model.encode(ids, source), source), []
        for number, lengths in enumerate(([3, 1, 2, 4], [1, 1, 1, 1], [1, 1, 1])):
            if number == 2:
                cache.reorder(torch.tensor([2, 0, 0]))
            packing = Packing.of(lengths)
            hidden.append(model.decode(ids[: packing.rows] + number, packing, cache))
        return torch.cat(hidden)

    compiled = decoded()
    with kernels.without("attention"):
        assert_close(compiled, decoded(), share=0.1 if dtype == torch.bfloat16 else None)


def test_what_no_kernel_takes_runs_plain() -> None:
    x = random(3, 4, dtype=torch.float32)
    assert not kernels.usable("rms_norm", x.double(), x.double())
    assert not kernels.usable("rms_norm", x, x.bfloat16())
    assert not kernels.usable("rms_norm", x.to("meta"))


NO_ROOM = """
import resource
import sys
from pathlib import Path

import torch

from dragoman.memory import is_out_of_memory
from dragoman.compiled import kernels
from dragoman.model.attention_backends import compiled_attention
from dragoman.model.attention_backends import AttentionContext
from dragoman.model.attention_backends import KeyValues
from dragoman.model.layers import RMSNorm
from dragoman.model.packing import Packing
from dragoman.training.loss import smoothed_cross_entropy

assert kernels.prepare()
torch.set_num_threads(2)
torch.ones(100_000).exp()  # starts the second thread, whose stack is memory too


def attention(long):
    queries, keys = Packing.of([1_100, 1_100]), Packing.of([long, long])
    query, key, value = torch.randn(2_200, 1, 8), torch.randn(2 * long, 1, 8), torch.randn(2 * long, 1, 8)
    query.requires_grad_()
    context = AttentionContext(1, queries, causal=False)
    return lambda: compiled_attention(query, KeyValues.from_rows(key, value, keys), context)


def back(of):
    result = of().sum()
    return lambda: result.backward()


def norm(width):
    layer, rows = RMSNorm(width), torch.ones(4, width)
    return lambda: layer(rows).sum()


def loss(width):
    logits, labels = torch.ones(3, width), torch.tensor([0, 1, 2])
    return lambda: smoothed_cross_entropy(logits, labels, 0.1)


WORK = {
    "attention": lambda: attention(200_000),
    "attention_back": lambda: back(attention(20_000)),
    "rms_norm_back": lambda: back(norm(1_000_000)),
    "smoothed_loss": lambda: loss(20_000_000),
}
work = WORK[sys.argv[1]]()
status = Path("/proc/self/status").read_text()
held = 1024 * int(status.partition("VmData:")[2].split()[0])
limits = resource.getrlimit(resource.RLIMIT_DATA)
resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[2]) * 2**20, limits[1]))
try:
    work()
except MemoryError as error:
    assert is_out_of_memory(error)
    print(error)
resource.setrlimit(resource.RLIMIT_DATA, limits)
attention(50)()  # the kernels still work
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kernel", "room"), [("attention", 24), ("attention_back", 8), ("rms_norm_back", 60), ("smoothed_loss", 16)]
)
def test_a_kernel_without_memory_is_an_error_and_not_the_end_of_the_process(kernel: str, room: int) -> None:
    """`room` in MiB is enough for the tensors that PyTorch makes here, and too little for what the kernel holds."""
    command = [sys.executable, "-c", NO_ROOM, kernel, str(room)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"there is no memory for the kernel {kernel}\n"
