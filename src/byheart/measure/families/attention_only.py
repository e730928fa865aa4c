"""DPC24's attention-only Transformer, as its equations (1)-(2) say and as its code does, with or without an MLP.

Notation: E = embedding, P = positions, U = unembedding; a is the token before, b the last token, h a head.
as-written   T(t) = U (e + pos + Σ_h O_h V_h Σ_s softmax_s((e+pos)ᵀ Q_hᵀ K_h (e_s + pos_s) / √d_h) (e_s + pos_s))
as-coded     the position enters the attention branch alone; one map d -> d_h and one d_h -> d wrap all heads, and each
             head is d_h x d_h.
The scale 1/√d_h is the code's; equation (1) has none, and a trained Q absorbs it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import gelu

from byheart.measure.families.family import (
    Inputs,
    Model,
    OptionField,
    SizeField,
    Tables,
    Weights,
    drawn,
    per_model,
    uniform,
)
from byheart.measure.matmul import bmm
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import Problem

# The table form computes all n_vocab² pairs; below this share of pairs asked for, sample by sample is cheaper.
TABLE_SHARE = 0.2


class AttentionOnly:
    """One attention layer with `n_heads` heads and no normalisation, the answer read at the last token."""

    name = "attention-only"
    source = "DPC24 equations (1)-(2) and its code"
    takes_vectors = False
    size_fields = (
        SizeField("dim", None, 1, "embedding width d"),
        SizeField("head_dim", None, 1, "head width d_h"),
        SizeField("n_heads", None, 0, "heads H"),
        SizeField("mlp_width", 0, 0, "hidden width of the MLP after the attention, 0 for none"),
    )
    option_fields = (
        OptionField("variant", ("as-written", "as-coded"), "the paper's equations or its code"),
        OptionField(
            "initial", ("width", "one-hot"), "fan-in of embedding and positions: d, or their one-hot inputs"
        ),
        OptionField("form", ("auto", "table", "direct"), "all pairs of tokens at once, or sample by sample"),
    )

    def shapes(self, model: Model, problem: Problem) -> Shapes:
        """Maps are stored as (outputs, inputs), one per head where there are heads."""
        size = model.sizes
        dim, head_dim, n_heads, width = (size[k] for k in ("dim", "head_dim", "n_heads", "mlp_width"))
        coded = model.options["variant"] == "as-coded"
        inner = head_dim if coded else dim
        shapes = {
            "embedding": (dim, problem.n_vocab),
            "positions": (dim, problem.seq_len),
            "query": (n_heads, head_dim, inner),
            "key": (n_heads, head_dim, inner),
            "value": (n_heads, head_dim, inner),
            "output": (n_heads, inner, head_dim),
            "unembedding": (dim, problem.n_classes),
            "mlp_in": (width, dim),
            "mlp_bias": (width, 1),
            "mlp_out": (dim, width),
        }
        if coded:
            shapes |= {"reduce": (head_dim, dim), "expand": (dim, head_dim)}
        return shapes

    def initial(self, model: Model, problem: Problem, generator: torch.Generator) -> dict[str, Tensor]:
        """Uniform on ±1/√fan_in throughout.

        Embedding and positions can be read as tables of rows of width d (fan-in d, `width`) or as maps of one-hot vectors
        (fan-in n_vocab and seq_len, `one-hot`). The description leaves this open. The default was chosen by its outcome: of four
        readings tried at d = d_h = 10 with 21 heads as coded, two seeds each, `width` reached 0.72 and `one-hot` 0.61, where
        0.707 is published. Agreement with that figure is therefore no independent evidence; report both.
        """
        shapes, dim = self.shapes(model, problem), model.sizes["dim"]
        fan_in = {name: shape[-1] for name, shape in shapes.items()}
        fan_in |= {"unembedding": dim, "mlp_bias": dim}
        if model.options["initial"] == "width":
            fan_in |= {"embedding": dim, "positions": dim}
        return {name: uniform(generator, shape, fan_in[name]) for name, shape in shapes.items()}

    def frozen(self, model: Model) -> frozenset[str]:
        """Everything is trained."""
        return frozenset()

    def tables(self, models: Sequence[Model], inputs: Inputs) -> Tables:
        """The scale of each model and, in table form, where each row lies in the table of pairs."""
        assert inputs.tokens is not None
        tokens, form = inputs.tokens, models[0].options["form"]
        n_vocab = max(problem.n_vocab for problem in inputs.problems)
        scale = per_model(models, "head_dim", inputs).rsqrt().view(-1, 1, 1, 1)
        tables = {"scale": scale}
        if any(model.sizes["mlp_width"] for model in models):
            tables["has_mlp"] = scale  # what counts is that the name is there
        ragged = any((p.lengths != p.seq_len).any() for p in inputs.problems)
        is_pairs = tokens.shape[2] == 2 and not ragged
        if form == "table" and not is_pairs:
            raise ValueError("the table form needs sequences of two tokens")
        if (
            not is_pairs
            or form == "direct"
            or (form == "auto" and tokens.shape[1] < TABLE_SHARE * n_vocab**2)
        ):
            return tables | {"tokens": tokens, "lengths": inputs.lengths}
        pairs = tokens[:, :, 0] * n_vocab + tokens[:, :, 1]
        in_order = pairs.shape[1] == n_vocab**2 and bool(
            (pairs == torch.arange(n_vocab**2, device=pairs.device)).all()
        )
        if in_order:
            return tables | {"first": tokens[:, :, 0], "last": tokens[:, :, 1], "all_pairs": scale}
        return tables | {"first": tokens[:, :, 0], "last": tokens[:, :, 1]}

    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        """Logits (n_models, n_rows, n_classes)."""
        stream = _by_table(weights, tables, rows) if "first" in tables else _directly(weights, tables, rows)
        if "has_mlp" in tables:
            hidden = gelu(torch.baddbmm(weights["mlp_bias"], weights["mlp_in"], stream))
            stream = stream + bmm(weights["mlp_out"], hidden)
        return bmm(stream.transpose(1, 2), weights["unembedding"])


def _branch(weights: Weights, vectors: Tensor) -> Tensor:
    """What the heads read: the vectors themselves, or their image under the shared map."""
    return bmm(weights["reduce"], vectors) if "reduce" in weights else vectors


def _rejoin(weights: Weights, tokens: Tensor, placed: Tensor, mixed: Tensor) -> Tensor:
    """Residual stream after the attention: as coded it carries no position."""
    if "expand" in weights:
        return tokens + bmm(weights["expand"], mixed)
    return placed + mixed


def _by_table(weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
    """Residual stream (n_models, dim, n_rows) for pairs of tokens.

    A softmax over two scores is a logistic function of their difference, p_h(a, b). The attention's output is
    Σ_h p_h(a, b) (u_h(a, first) - u_h(b, last)) + u_h(b, last) with u_h = O_h V_h z: products of small tables, with no
    gather per sample and head.
    """
    embedding, positions = weights["embedding"], weights["positions"]
    n_models, _, n_vocab = embedding.shape
    n_heads, head_dim, inner = weights["query"].shape[1:]
    placed = torch.cat([embedding + positions[:, :, :1], embedding + positions[:, :, 1:]], dim=2)
    both = _branch(weights, placed)
    last = both[:, :, n_vocab:]

    def heads(name: str, vectors: Tensor) -> Tensor:
        maps = weights[name].reshape(n_models, n_heads * head_dim, inner)
        return bmm(maps, vectors).reshape(n_models * n_heads, head_dim, vectors.shape[2])

    queries, keys, values = heads("query", last), heads("key", both), heads("value", both)
    queries = (queries.view(n_models, n_heads, head_dim, n_vocab) * tables["scale"]).view_as(queries)
    moved = bmm(weights["output"].reshape(n_models * n_heads, inner, head_dim), values)
    moved = moved.view(n_models, n_heads, inner, 2 * n_vocab)

    own = (queries * keys[:, :, n_vocab:]).sum(dim=1)  # the last token's score for itself
    scores = bmm(queries.transpose(1, 2), keys[:, :, :n_vocab])  # [m·h, b, a]
    share = torch.sigmoid(scores - own.unsqueeze(2)).view(n_models, n_heads, n_vocab, n_vocab)

    def mix(order: tuple[int, ...], side: Tensor) -> Tensor:
        shares = share.permute(order).reshape(n_models * n_vocab, n_heads, n_vocab)
        maps = side.permute(0, 3, 2, 1).reshape(n_models * n_vocab, inner, n_heads)
        return bmm(maps, shares).reshape(n_models, n_vocab, inner, n_vocab)

    from_first = mix((0, 3, 1, 2), moved[..., :n_vocab])  # [m, a, i, b]
    from_last = mix((0, 2, 1, 3), -moved[..., n_vocab:])  # [m, b, i, a]
    rest = moved[..., n_vocab:].sum(dim=1)  # [m, i, b]

    if rows is None and "all_pairs" in tables:
        mixed = from_first.permute(0, 2, 1, 3) + from_last.permute(0, 2, 3, 1) + rest.unsqueeze(2)
        placed = placed[..., n_vocab:].unsqueeze(2).expand(-1, -1, n_vocab, -1).flatten(2)
        tokens = embedding.unsqueeze(2).expand(-1, -1, n_vocab, -1).flatten(2)
        return _rejoin(weights, tokens, placed, mixed.flatten(2))

    a, b = drawn(tables["first"], rows), drawn(tables["last"], rows)
    feature = torch.arange(0, inner * n_vocab, n_vocab, device=a.device).view(1, -1, 1)

    def at(table: Tensor, outer: Tensor, within: Tensor) -> Tensor:
        place = (outer * (inner * n_vocab) + within).unsqueeze(1) + feature
        return table.reshape(n_models, -1).gather(1, place.flatten(1)).view(n_models, inner, -1)

    def columns(table: Tensor) -> Tensor:
        return table.gather(2, b.unsqueeze(1).expand(-1, table.shape[1], -1))

    if "expand" in weights:
        mixed = at(from_first, a, b) + at(from_last, b, a) + columns(rest)
        return _rejoin(weights, columns(embedding), placed, mixed)
    return at(from_first, a, b) + at(from_last, b, a) + columns(placed[..., n_vocab:] + rest)


def _directly(weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
    """Residual stream (n_models, dim, n_rows) for sequences of any length, sample by sample."""
    tokens, lengths = drawn(tables["tokens"], rows), drawn(tables["lengths"], rows)
    embedding, positions = weights["embedding"], weights["positions"]
    n_models, n_rows, seq_len = tokens.shape
    dim = embedding.shape[1]
    found = embedding.gather(2, tokens.flatten(1).unsqueeze(1).expand(-1, dim, -1))
    placed = (found.view(n_models, dim, n_rows, seq_len) + positions.unsqueeze(2)).flatten(2)
    branch = _branch(weights, placed).view(n_models, -1, n_rows, seq_len)
    end = (lengths - 1).view(n_models, 1, n_rows, 1)

    def at_end(table: Tensor) -> Tensor:
        return table.gather(3, end.expand(-1, table.shape[1], -1, -1)).squeeze(3)

    queries = torch.einsum("mhei,mir->mher", weights["query"], at_end(branch)) * tables["scale"]
    keys = torch.einsum("mhei,mirs->mhers", weights["key"], branch)
    scores = torch.einsum("mher,mhers->mhrs", queries, keys)
    beyond = torch.arange(seq_len, device=tokens.device) >= lengths.unsqueeze(2)
    shares = torch.softmax(scores.masked_fill(beyond.unsqueeze(1), -torch.inf), dim=3)
    values = torch.einsum("mhei,mirs->mhers", weights["value"], branch)
    mixed = torch.einsum("mhie,mhers,mhrs->mir", weights["output"], values, shares)
    tokens_end = at_end(found.view(n_models, dim, n_rows, seq_len))
    return _rejoin(weights, tokens_end, at_end(placed.view(n_models, dim, n_rows, seq_len)), mixed)
