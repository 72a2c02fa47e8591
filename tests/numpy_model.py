"""The models of the package once more: plain numpy in float64, one text at a time, equation by equation.

Reads the `config.json` and `model.safetensors` of a model folder and shares no code with the package, so that a test
that compares the two compares with the equations (Vaswani et al. 2017, unless another paper is named). Start with
`Model.run`. Axes: T tokens of the stack itself, S of the one that is looked at, D features, H heads, K features a head.

    model = Model(folder)
    sites, logits = model.run([2, 17, 25, 3], [2, 8, 9])
    sites["encoder.0.self_attention.weights"]  # (H, T, S)
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

Array = np.ndarray[Any, np.dtype[np.float64]]
Sites = dict[str, Array]
"""Every tensor on the way through a model, by the name under which observers see it."""


class Model:
    """An encoder-decoder or a language model, as its folder describes it."""

    def __init__(self, folder: Path) -> None:
        self.settings: dict[str, Any] = json.loads((folder / "config.json").read_text())["model"]
        stored = load_file(folder / "model.safetensors")
        self.weights = {name: weight.astype(np.float64) for name, weight in stored.items()}
        self.heads: int = self.settings["heads"]
        self.kv_heads: int = self.settings.get("kv_heads", self.heads)
        self.d_head: int = self.settings["d_model"] // self.heads

    def run(self, source: list[int] | None, target: list[int]) -> tuple[Sites, Array]:
        """All sites of a pass over one text, and the logits (T, V) of what follows each token of `target`."""
        sites: Sites = {}
        if source is not None:
            self.stack("encoder", source, sites)
        return sites, self.stack("decoder", target, sites) @ self.weights["output"].T

    def stack(self, name: str, ids: list[int], sites: Sites) -> Array:
        """The encoder or the decoder (section 3.1), whose cross-attention reads the encoder's output in `sites`."""
        x = sites[f"{name}.embedding"] = self.embed("source" if name == "encoder" else "target", ids, sites)
        for number in range(self.settings[f"{name}_layers"]):
            x = self.layer(f"{name}.{number}", x, sites)
        x = self.norm(f"{name}.final_norm", x) if self.settings["final_norm"] else x
        sites[f"{name}.output"] = x
        return x

    # Embeddings and positions (sections 3.4 and 3.5)

    def embed(self, side: str, ids: list[int], sites: Sites) -> Array:
        """Rows of the table, scaled, and what says where they stand."""
        name, d_model = f"{side}_embedding", self.settings["d_model"]
        table = self.weights.get(f"{name}.weight", self.weights["output"])  # a tied matrix is stored once
        x = sites[f"{name}.tokens"] = table[ids] * (math.sqrt(d_model) if self.settings["embedding_scale"] else 1.0)
        if self.settings["positions"] != "rotary":
            learned = self.settings["positions"] == "learned"
            places = self.weights[f"{name}.positions.weight"][: len(ids)] if learned else self.sinusoids(len(ids))
            sites[f"{name}.positions"] = places
            x = x + places
        return self.norm(f"{name}.norm", x) if self.settings["embedding_norm"] else x

    def sinusoids(self, length: int) -> Array:
        """Even features are sines, odd ones cosines, of angles that grow more slowly from pair to pair."""
        d_model, base = self.settings["d_model"], self.settings["position_base"]
        found = np.zeros((length, d_model))
        for position in range(length):
            for i in range(d_model // 2):
                angle = position / base ** (2 * i / d_model)
                found[position, 2 * i], found[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
        return found

    def rotate(self, x: Array) -> Array:
        """Rotary positions (Su et al. 2021): feature i and feature i + K/2 are turned by position / base^(2i / K)."""
        found, half = x.copy(), self.d_head // 2
        for position in range(x.shape[1]):
            for i in range(half):
                angle = position / self.settings["position_base"] ** (2 * i / self.d_head)
                a, b = x[:, position, i], x[:, position, i + half]
                found[:, position, i] = a * math.cos(angle) - b * math.sin(angle)
                found[:, position, i + half] = b * math.cos(angle) + a * math.sin(angle)
        return found

    # A layer, and what stands in it

    def layer(self, layer: str, x: Array, sites: Sites) -> Array:
        """Self-attention, in a decoder with an encoder cross-attention too, and the feed-forward network."""
        x = self.residual(layer, "self", x, lambda h: self.attention(f"{layer}.self_attention", h, h, sites), sites)
        if layer.startswith("decoder") and "encoder.output" in sites:
            memory, name = sites["encoder.output"], f"{layer}.cross_attention"
            x = self.residual(layer, "cross", x, lambda h: self.attention(name, h, memory, sites), sites)
        return self.residual(layer, "feed", x, lambda h: self.feed_forward(f"{layer}.feed_forward", h, sites), sites)

    def residual(self, layer: str, kind: str, x: Array, sublayer: Any, sites: Sites) -> Array:
        """norm(x + sublayer(x)), or x + sublayer(norm(x)) where norms come first (Xiong et al. 2020)."""
        norm = f"{layer}.{kind}_residual.norm"
        if self.settings["norm_position"] == "pre":
            x = x + sublayer(self.norm(norm, x))
        else:
            x = self.norm(norm, x + sublayer(x))
        sites[f"{layer}.{kind}_residual"] = x
        return x

    def attention(self, name: str, x: Array, memory: Array, sites: Sites) -> Array:
        """Multi-head attention (section 3.2): softmax(Q K^T / sqrt(d_k)) V; a key head may serve several query heads
        (Ainslie et al. 2023).
        """
        query = self.split(self.project(f"{name}.query", x, sites), self.heads)
        key, value = (
            self.split(self.project(f"{name}.{part}", memory, sites), self.kv_heads) for part in ("key", "value")
        )
        if name.endswith("self_attention") and self.settings["positions"] == "rotary":
            query, key = self.rotate(query), self.rotate(key)
        products = np.zeros((self.heads, len(x), len(memory)))
        mixed = np.zeros((len(x), self.heads, self.d_head))
        scores, weights = products.copy(), products.copy()
        causal = name.startswith("decoder") and name.endswith("self_attention")
        for head in range(self.heads):
            of_keys = head // (self.heads // self.kv_heads)
            products[head] = query[head] @ key[of_keys].T / math.sqrt(self.d_head)
            hidden = np.triu(np.ones(products[head].shape, dtype=bool), 1) if causal else False
            scores[head] = np.where(hidden, -np.inf, products[head])
            weights[head] = np.exp(log_softmax(scores[head]))
            mixed[:, head] = weights[head] @ value[of_keys]
        output = self.project(f"{name}.output", mixed.reshape(len(x), -1), sites)
        seen = {"input": x, "query": query, "key": key, "value": value, "products": products, "scores": scores}
        for part, array in {**seen, "weights": weights, "mixed": mixed, "output": output}.items():
            sites[f"{name}.{part}"] = array
        return output

    def split(self, x: Array, heads: int) -> Array:
        """(T, heads * K) -> (heads, T, K): each head has neighbouring features."""
        return np.stack([x[:, head * self.d_head : (head + 1) * self.d_head] for head in range(heads)])

    def feed_forward(self, name: str, x: Array, sites: Sites) -> Array:
        """max(0, x W1 + b1) W2 + b2 (section 3.3), or with another nonlinearity, or gated (Shazeer 2020)."""
        nonlinear = {"relu": relu, "gelu": gelu, "silu": silu, "swiglu": silu, "geglu": gelu}[
            self.settings["activation"]
        ]
        inner = self.project(f"{name}.inner", x, sites)
        gated = self.settings["activation"] in ("swiglu", "geglu")
        hidden = nonlinear(self.project(f"{name}.gate", x, sites)) * inner if gated else nonlinear(inner)
        sites[f"{name}.input"], sites[f"{name}.hidden"] = x, hidden
        return self.project(f"{name}.outer", hidden, sites)

    def project(self, name: str, x: Array, sites: Sites) -> Array:
        """x W^T + b."""
        sites[f"{name}.input"] = x
        weight, bias = self.matrix(name)
        return x @ weight.T if bias is None else x @ weight.T + bias

    def matrix(self, name: str) -> tuple[Array, Array | None]:
        """Weight and bias of a projection."""
        stored = stored_name(name)
        return self.weights[f"{stored}.weight"], self.weights[f"{stored}.bias"] if self.settings["bias"] else None

    def norm(self, name: str, x: Array) -> Array:
        """LayerNorm (Ba et al. 2016), or RMSNorm (Zhang and Sennrich 2019), which subtracts no mean."""
        name, rms = stored_name(name), self.settings["norm"] == "rms"
        centred = x if rms else x - x.mean(-1, keepdims=True)
        size = np.sqrt((centred**2).mean(-1, keepdims=True) + self.settings["norm_epsilon"])
        found = centred / size * self.weights[f"{name}.weight"]
        return found if rms or not self.settings["bias"] else found + self.weights[f"{name}.bias"]


def log_softmax(logits: Array) -> Array:
    """Of the last axis; the largest is taken out first, so that nothing overflows."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def silu(x: Array) -> Array:
    return x / (1.0 + np.exp(-x))


def gelu(x: Array) -> Array:
    """x P(X <= x) for a standard normal X (Hendrycks and Gimpel 2016)."""
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def stored_name(name: str) -> str:
    """`encoder.0.feed_forward` lies in the file as `encoder.blocks.0.feed_forward`."""
    stack, _, rest = name.partition(".")
    return f"{stack}.blocks.{rest}" if rest[:1].isdigit() else name
