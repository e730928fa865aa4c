"""The model of KS25 equation (165):

E_out ∘ FF2 ∘ uniform attention ∘ FF1 ∘ E_in, where FF1 and FF2 have `n_blocks` residual blocks each.

The paper leaves some choices open. Here, tokens are embedded by a trained table directly into the residual stream (`embedding =
learned`), or by a fixed random table of width `dim` followed by a trained E_in (`frozen`). Positions are only used if `positions`
is `learned`. The size s of the head equals the width m of the stream. By default, weights have PyTorch's default initialisation,
and embeddings are standard normal. With `initialisation = normal-0.02`, all weights are drawn from N(0, 0.02²) and biases are
zero, as in BERT-style code.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from byheart.measure.families.config import ModelConfig, OptionField, SizeField
from byheart.measure.families.family import Family
from byheart.measure.families.initial import normal, uniform
from byheart.measure.families.inputs import Inputs, Tables, Weights, take_rows
from byheart.measure.matmul import bmm
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import TrainingSet

SMALL = 0.02  # standard deviation of BERT-style initial weights


class UniformAttentionFamily(Family):
    """A model of token-wise residual ReLU blocks, one averaging layer, and more blocks. The answer is the output at one token."""

    name = "uniform-attention"
    source = "KS25 equation (165)"
    takes_vectors = True
    reads = ("last", "first")
    size_fields = (
        SizeField("n_blocks", None, 0, "number of residual blocks before the attention, and again after it"),
        SizeField("width", 2, 1, "stream width m"),
        SizeField("hidden_width", 8, 1, "hidden width q of a block"),
        SizeField("dim", 6, 1, "width of the frozen embedding"),
    )
    option_fields = (
        OptionField(
            "embedding",
            ("learned", "frozen"),
            "learned: a trained table of vectors for the residual stream; frozen: a fixed table, followed by a trained map E_in",
        ),
        OptionField("positions", ("none", "learned"), "learned: trained position vectors are added"),
        OptionField(
            "initialisation",
            ("framework", "normal-0.02"),
            "framework: as in PyTorch; normal-0.02: weights and tables from N(0, 0.02²), zero biases",
            is_implied=True,
        ),
    )

    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """Return the shapes of the weights.

        The weights of all blocks are stacked along a first axis, so models of different depths are padded like models of
        different widths.
        """
        size = model.sizes
        width, hidden, n_blocks = size["width"], size["hidden_width"], size["n_blocks"]
        shapes: dict[str, tuple[int, ...]] = {}
        if training_set.n_vocab == 0:
            shapes["embed_in"] = (width, training_set.dim)
        elif model.options["embedding"] == "frozen":
            shapes |= {"embedding": (size["dim"], training_set.n_vocab), "embed_in": (width, size["dim"])}
        else:
            shapes["embedding"] = (width, training_set.n_vocab)
        if model.options["positions"] == "learned":
            shapes["positions"] = (width, training_set.seq_len)
        for part in ("before", "after"):
            shapes |= {
                f"{part}_w1": (n_blocks, hidden, width),
                f"{part}_b1": (n_blocks, hidden, 1),
                f"{part}_w2": (n_blocks, width, hidden),
                f"{part}_b2": (n_blocks, width, 1),
            }
        return shapes | {
            "value": (width, width),
            "output": (width, width),
            "embed_out": (training_set.n_classes, width),
        }

    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Draw the initial weights.

        By default, embeddings are standard normal, and maps and biases are uniform between ±1/√fan_in. With the option
        `normal-0.02`, weights and tables are drawn from N(0, 0.02²), and biases are zero.
        """
        shapes = self.shapes(model, training_set)
        if "initialisation" in model.options:
            return {
                name: normal(generator, shape, 0.0 if name[-2:] in ("b1", "b2") else SMALL)
                for name, shape in shapes.items()
            }
        size = model.sizes
        fan_in = {name: shape[-1] for name, shape in shapes.items()}
        for part in ("before", "after"):
            fan_in |= {f"{part}_b1": size["width"], f"{part}_b2": size["hidden_width"]}
        return {
            name: normal(generator, shape)
            if name in ("embedding", "positions")
            else uniform(generator, shape, fan_in[name])
            for name, shape in shapes.items()
        }

    def frozen_names(self, model: ModelConfig, training_set: TrainingSet) -> frozenset[str]:
        """Return the name of the embedding if the option `embedding` is `frozen`, otherwise an empty set."""
        return frozenset({"embedding"}) if model.options["embedding"] == "frozen" else frozenset()

    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Return the inputs in the form that the forward pass uses, which does not depend on weights.

        For token ids, these are the distinct items (tokens, or pairs of token and position if positions are used) and the index
        of the item at each position of each row. For vectors, it is one column per token. For both, there are also the share of
        each position in the average over its row, and the position at which the answer is read.
        """
        n_rows, seq_len = inputs.lengths.shape[1], 0
        place = (
            inputs.lengths - 1 if inputs.training_sets[0].read == "last" else torch.zeros_like(inputs.lengths)
        )
        if inputs.vectors is not None:
            seq_len = inputs.vectors.shape[2]
            # (n_models, dim, n_rows · seq_len): one column per token
            columns = inputs.vectors.flatten(1, 2).transpose(1, 2)
            spots = torch.arange(seq_len, device=inputs.device).repeat(n_rows).expand(len(models), -1)
            tables = {"columns": columns, "item_place": spots, "read": place}
        else:
            assert inputs.tokens is not None
            tokens = inputs.tokens
            seq_len = tokens.shape[2]
            spots = torch.arange(seq_len, device=tokens.device).expand_as(tokens)
            keys = tokens if models[0].options["positions"] == "none" else tokens * seq_len + spots
            tables = _items(keys, tokens, spots, inputs.is_shared) | {"read": place}
        inside = torch.arange(seq_len, device=inputs.device) < inputs.lengths.unsqueeze(2)
        share = inside.to(inputs.dtype) / inputs.lengths.unsqueeze(2).to(inputs.dtype)
        return tables | {"share": share}

    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        """Return logits or values (n_models, n_rows, n_outputs)."""
        stream = _stream(weights, tables)
        if "positions" in weights:
            place = tables["item_place"].unsqueeze(1)
            stream = stream + weights["positions"].gather(2, place.expand(-1, stream.shape[1], -1))
        stream = _blocks(weights, "before", stream)
        n_models, width, _ = stream.shape
        share, read = take_rows(tables["share"], rows), take_rows(tables["read"], rows)
        if "items" in tables:
            items = take_rows(tables["items"], rows)
            found = stream.gather(2, items.flatten(1).unsqueeze(1).expand(-1, width, -1))
            found = found.view(n_models, width, *share.shape[1:])
        else:
            found = stream.view(n_models, width, *tables["share"].shape[1:])
            if rows is not None:
                found = found.gather(2, rows.view(n_models, 1, -1, 1).expand(-1, width, -1, share.shape[2]))
        mean = (found * share.unsqueeze(1)).sum(dim=3)
        own = found.gather(3, read.view(n_models, 1, -1, 1).expand(-1, width, -1, 1)).squeeze(3)
        answer = own + bmm(weights["output"], bmm(weights["value"], mean))
        answer = _blocks(weights, "after", answer)
        return bmm(answer.transpose(1, 2), weights["embed_out"].transpose(1, 2))


def _items(keys: Tensor, tokens: Tensor, spots: Tensor, is_shared: bool) -> Tables:
    """Return each model's distinct items (tokens, or tokens with positions), and the index of the item at every position.

    Equal numbers in `keys` mean equal items. If `is_shared` is true, all models have the same inputs. Shorter lists of items are
    padded to the length of the longest.
    """
    n_models = keys.shape[0]
    pieces = []
    for model in range(1 if is_shared else n_models):
        distinct, items = torch.unique(keys[model], return_inverse=True)
        at = torch.zeros_like(distinct).scatter_(
            0, items.flatten(), torch.arange(items.numel(), device=keys.device)
        )
        pieces.append((tokens[model].flatten()[at], spots[model].flatten()[at], items))
    most = max(piece[0].numel() for piece in pieces)

    def pad(column: int) -> Tensor:
        wide = [torch.nn.functional.pad(piece[column], (0, most - piece[column].numel())) for piece in pieces]
        return torch.stack(wide).expand(n_models, -1)

    items = torch.stack([piece[2] for piece in pieces]).expand(n_models, -1, -1)
    return {"item_token": pad(0), "item_place": pad(1), "items": items}


def _stream(weights: Weights, tables: Tables) -> Tensor:
    """Return the embedding, without position, of every item of `tables`: every distinct item or, for vectors, every input vector.

    The shape is (n_models, width, n_items).
    """
    if "columns" in tables:
        return bmm(weights["embed_in"], tables["columns"])
    table = weights["embedding"]
    if "embed_in" in weights:
        table = bmm(weights["embed_in"], table)
    return table.gather(2, tables["item_token"].unsqueeze(1).expand(-1, table.shape[1], -1))


def _blocks(weights: Weights, part: str, stream: Tensor) -> Tensor:
    """Apply z <- z + W2 ReLU(W1 z + b1) + b2, block after block (KS25 equation 3)."""
    w1, b1, w2, b2 = (weights[f"{part}_{name}"].unbind(1) for name in ("w1", "b1", "w2", "b2"))
    for up, up_bias, down, down_bias in zip(w1, b1, w2, b2, strict=True):
        hidden = torch.relu(bmm(up, stream) + up_bias)
        stream = stream + bmm(down, hidden) + down_bias
    return stream
