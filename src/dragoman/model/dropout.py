"""Dropout whose mask is a pure function of its position: no random state is stored, resumed or shared.

The mask of an element is a hash of (seed, step) and of (site, index of the token in the whole step, feature). It is
therefore the same however a step is cut into batches, padded, or distributed over processes, and a resumed run needs no
saved random state. A site is named for its module, so a new module does not change the masks of existing ones.
Compiled, the hash is also many times cheaper than drawing random numbers.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.compiled import kernels
from dragoman.compiled.fusing import fusible
from dragoman.shapes import Float, Int

_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35
_FEATURE_STRIDE = 65_536  # keys per attention head, so that a weight's feature does not depend on the padded length


@dataclass(frozen=True)
class DropoutKey:
    """Key of the dropout masks for the rows of one packed tensor."""

    seed_and_step: int | Mapping[str, Tensor]
    """Hash of seed and step; or, for a step that a GPU replays, the key of every site as a signed 32-bit number."""
    tokens: Int[Tensor, "N"]
    """Index of every row's token in the whole step, over all its micro-batches and processes."""


@dataclass(frozen=True)
class StepKey:
    """Key of one micro-batch: its step, and the index of its first source and target token in that step."""

    seed: int
    step: int
    source_first: int | Tensor = 0
    target_first: int | Tensor = 0
    sites: Mapping[str, Tensor] | None = None
    """The key of every site as a signed 32-bit number, instead of seed and step; for a step that a GPU replays."""

    def source(self, rows: int, device: torch.device, token: Int[Tensor, "N"] | None = None) -> DropoutKey:
        """Return the key of rows that hold consecutive source tokens, or the tokens with these indices."""
        return self._rows(self.source_first, rows, device, token)

    def target(self, rows: int, device: torch.device, token: Int[Tensor, "N"] | None = None) -> DropoutKey:
        """Return the key of rows that hold consecutive target tokens, or the tokens with these indices."""
        return self._rows(self.target_first, rows, device, token)

    def _rows(self, first: int | Tensor, rows: int, device: torch.device, token: Int[Tensor, "N"] | None) -> DropoutKey:
        token = torch.arange(rows, device=device) if token is None else token
        return DropoutKey(self._key if self.sites is None else self.sites, first + token)

    def after(self, source_tokens: int, target_tokens: int) -> "StepKey":
        """Return the key of the next micro-batch after one with this number of tokens."""
        return replace(
            self,
            source_first=self.source_first + source_tokens,
            target_first=self.target_first + target_tokens,
        )

    def numbers(self, sites: Iterable[str]) -> Int[Tensor, "K"]:
        """Return all that the masks of these sites depend on as numbers, from which `from_numbers` makes a key."""
        keys = [_signed(_fold(self._key, site_number(site))) for site in sites]
        return torch.tensor([self.source_first, self.target_first, *keys])

    @classmethod
    def from_numbers(cls, numbers: Int[Tensor, "K"], sites: Sequence[str]) -> "StepKey":
        """Return a key that reads its numbers from a tensor on the device."""
        source, target, *keys = numbers.unbind()
        return cls(0, 0, source, target, dict(zip(sites, keys, strict=True)))

    @property
    def _key(self) -> int:
        return _fold(_fold(_fold(0, self.seed), self.step), 0)  # the 0 is part of the masks of unfinished runs


def drop(
    x: Float[Tensor, "N F"],
    rate: float,
    site: str,
    dropout_key: DropoutKey | None,
    onto: Float[Tensor, "N F"] | None = None,
) -> Float[Tensor, "N F"]:
    """Set elements to zero with probability `rate` and scale the rest by 1 / (1 - rate). Without a key nothing is
    dropped. The result is added to `onto`, if any.
    """
    if dropout_key is None or rate == 0.0:
        return x if onto is None else onto + x
    if kernels.usable("drop", x, x if onto is None else onto) and isinstance(dropout_key.seed_and_step, int):
        return _FusedDrop.apply(x, onto, dropout_key.tokens, *mask_parameters(rate, site, dropout_key))
    return _drop_rows(x, onto, dropout_key.tokens, _site_key(dropout_key, site), rate)


@fusible
def _drop_rows(x: Tensor, onto: Tensor | None, tokens: Tensor, key: int | Tensor, rate: float) -> Tensor:
    features = torch.arange(x.size(1), dtype=torch.int32, device=x.device)
    dropped = _Drop.apply(x, _keep(_row_hash(key, tokens)[:, None], features, rate), rate)
    return dropped if onto is None else onto + dropped


def mask_parameters(rate: float, site: str, dropout_key: DropoutKey) -> tuple[float, int, int]:
    """Return the parameters of a kernel's mask: the factor for kept elements, the key of the hash, and the lowest hash
    (signed, 32 bits) that is kept.
    """
    return 1.0 / (1.0 - rate), int(_site_key(dropout_key, site)), _threshold(rate)


def random_bits(site: str, dropout_key: DropoutKey) -> Int[Tensor, "N"]:
    """Return a 32-bit hash of every token, as a number from 0 to 2**32 - 1."""
    return _row_hash(_site_key(dropout_key, site), dropout_key.tokens).long() + 2**31


def site_number(site: str) -> int:
    """Return the number of a site in the hash, which is the same in every process and version."""
    return zlib.crc32(site.encode())


def _site_key(dropout_key: DropoutKey, site: str) -> int | Tensor:
    keys = dropout_key.seed_and_step
    return _fold(keys, site_number(site)) if isinstance(keys, int) else keys[site]


def drop_weights(
    weights: Float[Tensor, "B H T S"],
    rate: float,
    site: str,
    dropout_key: DropoutKey | None,
    tokens: Int[Tensor, "B T"] | None,
) -> Float[Tensor, "B H T S"]:
    """Drop attention weights as `drop` does: the token is the query's (`tokens`, padded), the feature (head, key
    position).
    """
    if dropout_key is None or rate == 0.0 or tokens is None:
        return weights
    heads = torch.arange(weights.size(1), dtype=torch.int32, device=weights.device) * _FEATURE_STRIDE
    keys = torch.arange(weights.size(3), dtype=torch.int32, device=weights.device)
    row = _row_hash(_site_key(dropout_key, site), tokens.flatten()).unflatten(0, tokens.shape)  # (B, T)
    return _Drop.apply(weights, _keep(row[:, None, :, None], (heads[:, None] + keys)[None, :, None, :], rate), rate)


class _FusedDrop(torch.autograd.Function):
    """Dropout by the kernel; recomputes the mask in the backward pass, which is cheaper than storing it."""

    @staticmethod
    def forward(ctx, x, onto, tokens, scale, key, threshold):
        ctx.save_for_backward(tokens)
        ctx.numbers = scale, key, threshold
        return _run_drop(x, onto, tokens, scale, key, threshold)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (tokens,) = ctx.saved_tensors
        onto_gradient = gradient if ctx.needs_input_grad[1] else None
        return _run_drop(gradient, None, tokens, *ctx.numbers), onto_gradient, None, None, None, None


def _run_drop(x: Tensor, onto: Tensor | None, tokens: Tensor, scale: float, key: int, threshold: int) -> Tensor:
    x, onto, tokens = x.contiguous(), None if onto is None else onto.contiguous(), tokens.contiguous()
    out = torch.empty_like(x)
    kernels.run("drop", x, onto, out, tokens, *x.shape, key, threshold, scale)
    return out


class _Drop(torch.autograd.Function):
    """Dropout in PyTorch; stores a byte per element, because bytes convert to factors faster than booleans."""

    @staticmethod
    def forward(ctx, x, keep, rate):
        ctx.save_for_backward(keep)
        ctx.scale = 1.0 / (1.0 - rate)
        return keep.to(x.dtype).mul_(ctx.scale).mul_(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (keep,) = ctx.saved_tensors
        return keep.to(gradient.dtype).mul_(ctx.scale).mul_(gradient), None, None


def _keep(row: Int[Tensor, "..."], feature: Int[Tensor, "..."], rate: float) -> Tensor:
    """Return a mask of bytes that are 1 with probability 1 - rate: the finaliser of MurmurHash3 over row xor feature
    hash, in wrapping 32-bit arithmetic.
    """
    x = row ^ (feature * _signed(_GOLDEN))
    x *= _signed(_MIX_1)
    x ^= x >> 13
    x *= _signed(_MIX_2)
    return (x >= _threshold(rate)).to(torch.uint8)


def _threshold(rate: float) -> int:
    """Return the number that is greater than a share `rate` of all signed 32-bit numbers."""
    return int(rate * 2**32) - 2**31


def _row_hash(key: int | Tensor, tokens: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    signed = _signed(key) if isinstance(key, int) else key.to(torch.int32)
    x = (tokens.to(torch.int32) + signed) * _signed(_MIX_2)
    x ^= x >> 15
    x *= _signed(_MIX_1)
    x ^= x >> 13
    return x * _signed(_GOLDEN)


def _fold(key: int, number: int) -> int:
    """Mix a number into a 32-bit key (splitmix64's finaliser, upper half)."""
    x = (key * 0x9E3779B97F4A7C15 + number + 0x9E3779B97F4A7C15) & (2**64 - 1)
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (x ^ (x >> 31)) >> 32


def _signed(number: int) -> int:
    """Return a 32-bit pattern as a signed number, as torch needs it."""
    return number - 2**32 if number >= 2**31 else number
