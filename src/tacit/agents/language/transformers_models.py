"""Any causal model of the package `transformers`, steered by a `Bias`. The whole model runs for every token: what lies
below the adapter is not kept, and a person costs more time than with `llama`. Everything else is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from tacit.agents.language.adapters import Bias, ModelShape, Steering
from tacit.agents.language.models import Cache
from tacit.errors import PlanError


@dataclass(frozen=True, eq=False)
class CausalModel:
    """A frozen model (see `LanguageModel`)."""

    module: Any  # a causal model of `transformers`, in float32 on the CPU
    shape: ModelShape  # its sizes
    digest: str  # SHA-256 of its weights
    vocabulary: Tensor  # tokens that it writes [V]

    @classmethod
    def of(cls, module: Any) -> Self:
        """A model that writes its whole vocabulary; the module is frozen."""
        config, digest = module.config, hashlib.sha256()
        module = module.float().train(False).requires_grad_(False)
        for name, weight in sorted(module.state_dict().items()):
            digest.update(name.encode() + weight.contiguous().numpy().tobytes())
        heads = config.num_attention_heads
        shape = ModelShape(
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            inner=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
            heads=heads,
            groups=getattr(config, "num_key_value_heads", None) or heads,
            tokens=config.vocab_size,
        )
        return cls(module, shape, digest.hexdigest(), torch.arange(shape.tokens))

    def with_vocabulary(self, vocabulary: Sequence[int]) -> Self:
        """See `LanguageModel`."""
        return replace(self, vocabulary=torch.as_tensor(vocabulary, dtype=torch.int64))

    @torch.no_grad()
    def read(self, tokens: Tensor, past: Cache | None = None) -> Cache:
        """See `LanguageModel`."""
        size = self.shape.width // self.shape.heads
        shape = (self.shape.layers, len(tokens), self.shape.groups, tokens.shape[1], size)
        cache = Cache(torch.empty(shape), torch.empty(shape), 0) if past is None else past.repeat(1, shape[3])
        if tokens.shape[1]:
            self._run(self.run_lower_layers(tokens, cache, 0), cache)
        return replace(cache, length=cache.length + tokens.shape[1])

    @torch.no_grad()
    def residual_norm(self, tokens: Tensor, layer: int) -> float:
        """See `LanguageModel`."""
        hidden = self.module(tokens, output_hidden_states=True).hidden_states[layer + 1]
        return float(hidden[:, -1].norm(dim=-1).median())

    @torch.no_grad()
    def run_lower_layers(self, tokens: Tensor, cache: Cache, first: int) -> Tensor:
        """See `LanguageModel`: the embeddings, since the layers below are run again."""
        embedded: Tensor = self.module.get_input_embeddings()(tokens)
        return embedded

    def run_upper_layers(self, residual: Tensor, cache: Cache, steering: Steering) -> Tensor:
        """See `LanguageModel`."""
        adapter, theta = steering
        if not isinstance(adapter, Bias) or adapter.first_layer >= self.shape.layers:
            what = "the adapter is LoRA, or stands behind the last layer"
            expected, remedy = "a Bias behind an earlier layer", "choose such an adapter, or a model from a GGUF file"
            raise PlanError(what, where="CausalModel", expected=expected, remedy=remedy)
        with _steer_layer(self._layers()[adapter.first_layer], adapter, theta):
            return self._run(residual, cache)

    def _run(self, embedded: Tensor, cache: Cache) -> Tensor:
        """Logits [B, n, V] of embedded tokens behind a cache, which keeps their keys and values."""
        from transformers.cache_utils import DynamicCache

        past = DynamicCache()
        for layer in range(self.shape.layers if cache.length else 0):
            past.update(cache.keys[layer, :, :, : cache.length], cache.values[layer, :, :, : cache.length], layer)
        outputs = self.module(inputs_embeds=embedded, cache=past, use_cache=True)
        for layer, kept in enumerate(past.layers):
            new = slice(cache.length, None)
            cache.extend(layer, kept.keys[:, :, new], kept.values[:, :, new])
        logits: Tensor = outputs.logits[..., self.vocabulary]
        return logits

    def _layers(self) -> nn.ModuleList:
        """The list of layers: the one list of modules that is as long as the model is deep."""
        depth = self.shape.layers
        lists = (part for part in self.module.modules() if isinstance(part, nn.ModuleList) and len(part) == depth)
        return next(lists)


@contextmanager
def _steer_layer(layer: nn.Module, adapter: Bias, theta: Tensor) -> Iterator[None]:
    """While it lasts, the adapter acts on what enters the layer."""

    def enter(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (adapter.steer_residual(theta, inputs[0]), *inputs[1:])

    handle = layer.register_forward_pre_hook(enter)
    try:
        yield
    finally:
        handle.remove()
