"""The attention-only Transformer of Dana, Pydi and Chevaleyre 2024 (DPC24), as in its equations (1)-(2) or as in its code, with or
without an MLP.

Notation: d = embedding width, d_h = head width, e = embedding of a token, pos = the vector of its position, res = the residual
stream at the last token, res_s = the residual stream at token s, h = a head, z = what the heads see of a token (a vector), C and D
= maps that all heads share, U = unembedding, LN = layer normalisation, T = the outputs.

as-written       res = e + pos in R^d;  T = U (res + Σ_h O_h V_h Σ_s softmax_s(resᵀ Q_hᵀ K_h res_s / √d_h) res_s).
as-coded         res = e, and the position is a vector of R^{d_h}. The maps of a head are d_h x d_h matrices, and it sees
                 z = C e + pos. The sum of the heads goes through a second shared map D and is added to e. If d = d_h,
                 there are no shared maps: z = e + pos, D = 1.
layer-norm       the code of August 2024, which made Figures 1a and 2b: as-coded, with z = LN(C e) + pos, LN without
                 weight or bias.
maps-always      the code of September 2024, which made Figures 1b, 2a, 4 and the MLPs of Figure 3: as-coded, but with
                 the shared maps even if d = d_h. If d ≠ d_h, it equals as-coded.
position-first   another model, similar to as-coded: the position is a vector of R^d and is added before the shared
                 map, z = C (e + pos), with both maps even if d = d_h.
The scale 1/√d_h is from the code. Equation (1) has none, but a trained Q can absorb it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import gelu

from byheart.errors import UsageError
from byheart.measure.families.config import ModelConfig, OptionField, SizeField
from byheart.measure.families.family import Family
from byheart.measure.families.initial import uniform
from byheart.measure.families.inputs import Inputs, Tables, Weights, per_model, take_rows
from byheart.measure.matmul import bmm
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import TrainingSet

# The table form computes all n_vocab² pairs. If the data use a smaller share of the pairs than this,
# computing each sample is cheaper.
TABLE_SHARE = 0.2
# Versions of the authors' code: every head is d_h x d_h and the position is added in R^{d_h}.
CODED = ("as-coded", "layer-norm", "maps-always")
TINY = 1e-20  # added to the variance; the authors add 1e-10 to its square root


class AttentionOnlyFamily(Family):
    """One attention layer with `n_heads` heads, then an MLP if `mlp_width` is not 0. The answer is the output at the last token.

    There is no normalisation, except in the variant `layer-norm`.
    """

    name = "attention-only"
    source = "DPC24, equations (1)-(2) and the authors' code"
    size_fields = (
        SizeField("dim", None, 1, "embedding width d"),
        SizeField("head_dim", None, 1, "head width d_h"),
        SizeField("n_heads", None, 0, "heads H"),
        SizeField("mlp_width", 0, 0, "hidden width of the MLP after the attention, 0 for none"),
    )
    option_fields = (
        OptionField(
            "variant",
            ("as-written", "as-coded", "position-first", "layer-norm", "maps-always"),
            "as-written: the paper's equations; as-coded: the paper's code of 2025; position-first: like "
            "as-coded, but with the position added before the shared map; layer-norm: the paper's code of "
            "August 2024; maps-always: the paper's code of September 2024",
        ),
        OptionField(
            "form",
            ("auto", "table", "direct"),
            "how attention is computed. table: once for every pair of vocabulary tokens; direct: sample by sample; "
            "auto: the cheaper of the two",
        ),
    )

    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """Return the shapes of the weights.

        Maps are stored as (outputs, inputs), but the unembedding is stored as (inputs, outputs). Query, key, value and output have
        one map per head.
        """
        size = model.sizes
        dim, head_dim, n_heads, width = (size[k] for k in ("dim", "head_dim", "n_heads", "mlp_width"))
        variant = model.options["variant"]
        inner = dim if variant == "as-written" else head_dim
        shapes = {
            "embedding": (dim, training_set.n_vocab),
            "query": (n_heads, head_dim, inner),
            "key": (n_heads, head_dim, inner),
            "value": (n_heads, head_dim, inner),
            "output": (n_heads, inner, head_dim),
            "unembedding": (dim, training_set.n_classes),
            "mlp_in": (width, dim),
            "mlp_bias": (width, 1),
            "mlp_out": (dim, width),
        }
        if variant in CODED:
            shapes["inner_positions"] = (head_dim, training_set.seq_len)
        else:
            shapes["positions"] = (dim, training_set.seq_len)
        if variant in ("position-first", "maps-always") or (variant in CODED and dim != head_dim):
            shapes |= {"reduce": (head_dim, dim), "expand": (dim, head_dim)}
        return shapes

    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Draw weights uniformly between ±1/√fan_in. For embedding, unembedding and positions, fan_in is their vectors' width.

        In the variants of the authors' code, Q, K and V of a head are the rows of one Xavier-uniform (3·d_h, d_h) matrix, where
        d_h is `head_dim`. They are drawn uniformly between ±√(6 / (4·d_h)) or, if d_h = 1, between ±1.
        """
        shapes = self.shapes(model, training_set)
        dim, head_dim = model.sizes["dim"], model.sizes["head_dim"]
        fan_in: dict[str, float] = {name: shape[-1] for name, shape in shapes.items()}
        fan_in |= {"embedding": dim, "unembedding": dim, "mlp_bias": dim}
        fan_in |= {"positions": dim, "inner_positions": head_dim}
        if model.options["variant"] in CODED:
            fan_in |= dict.fromkeys(("query", "key", "value"), head_dim / 1.5)
        return {name: uniform(generator, shape, fan_in[name]) for name, shape in shapes.items()}

    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Return what the forward pass needs besides the weights: the tokens of every row, and each model's factor of attention
        scores. Further entries say whether a model has an MLP, and which coordinates layer normalisation averages.

        If attention is computed once for every pair of vocabulary tokens, the first and the last token of each row are returned
        separately.
        """
        assert inputs.tokens is not None
        tokens, form = inputs.tokens, models[0].options["form"]
        n_vocab = max(training_set.n_vocab for training_set in inputs.training_sets)
        scale = per_model(models, "head_dim", inputs).rsqrt().view(-1, 1, 1, 1)
        tables = {"scale": scale}
        if any(model.sizes["mlp_width"] for model in models):
            tables["has_mlp"] = scale  # only the presence of the name matters
        if models[0].options["variant"] == "layer-norm":
            counts = per_model(models, "head_dim", inputs).view(-1, 1, 1)
            tables["normed"] = (
                torch.arange(int(counts.max()), device=inputs.device).view(1, -1, 1) < counts
            ) / counts
        ragged = any((p.lengths != p.seq_len).any() for p in inputs.training_sets)
        is_pairs = tokens.shape[2] == 2 and not ragged
        if form == "table" and not is_pairs:
            raise UsageError(
                "the option form = table needs sequences of exactly two tokens; use form = auto.", form=form
            )
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
        stream = _by_table(weights, tables, rows) if "first" in tables else _directly(weights, tables, rows)
        if "has_mlp" in tables:
            hidden = gelu(torch.baddbmm(weights["mlp_bias"], weights["mlp_in"], stream))
            stream = stream + bmm(weights["mlp_out"], hidden)
        return bmm(stream.transpose(1, 2), weights["unembedding"])


def _rejoin(weights: Weights, residual: Tensor, mixed: Tensor) -> Tensor:
    """Add `mixed`, the output of the heads, to the residual stream. If the model has the shared map `expand`, apply it first."""
    return residual + (bmm(weights["expand"], mixed) if "expand" in weights else mixed)


def _layer_norm(vectors: Tensor, share: Tensor) -> Tensor:
    """Normalise to mean 0 and population variance 1 over the features.

    `share` is one over the number of features, and 0 at padding.
    """
    centred = (vectors - (vectors * share).sum(dim=1, keepdim=True)) * (share > 0)
    return centred * ((centred.square() * share).sum(dim=1, keepdim=True) + TINY).rsqrt()


def _place(weights: Weights, tables: Tables, vectors: Tensor, place: slice) -> tuple[Tensor, Tensor]:
    """Add the vectors of the positions `place` to the embeddings `vectors`, where this variant of the model adds them. Return two
    results: the vectors in the residual stream, and the vectors that the heads see.
    """
    if "inner_positions" in weights:
        reduced = bmm(weights["reduce"], vectors) if "reduce" in weights else vectors
        if "normed" in tables:
            reduced = _layer_norm(reduced, tables["normed"])
        return vectors, reduced + weights["inner_positions"][:, :, place]
    placed = vectors + weights["positions"][:, :, place]
    if "reduce" in weights:
        return vectors, bmm(weights["reduce"], placed)
    return placed, placed


def _by_table(weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
    """Return the residual stream (n_models, dim, n_rows) for pairs of tokens.

    For the pair of tokens (a, b), the softmax over two scores is a logistic function of their difference. Let p_h(a, b) be its
    value, which is the weight of token a in head h. Let u_h(a, place) = O_h V_h z, where z is the vector that the heads see for
    token a at this place. Then the output of the attention is Σ_h [p_h(a, b) (u_h(a, first) - u_h(b, last)) + u_h(b, last)]. It is
    computed by products of small tables, without a gather for each sample and head.
    """
    n_models, _, n_vocab = weights["embedding"].shape
    n_heads, head_dim, inner = weights["query"].shape[1:]
    _, first = _place(weights, tables, weights["embedding"], slice(0, 1))
    residual, last = _place(weights, tables, weights["embedding"], slice(1, 2))
    both = torch.cat([first, last], dim=2)

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
        own = residual.unsqueeze(2).expand(-1, -1, n_vocab, -1).flatten(2)
        return _rejoin(weights, own, mixed.flatten(2))

    a, b = take_rows(tables["first"], rows), take_rows(tables["last"], rows)
    feature = torch.arange(0, inner * n_vocab, n_vocab, device=a.device).view(1, -1, 1)

    def at(table: Tensor, outer: Tensor, within: Tensor) -> Tensor:
        place = (outer * (inner * n_vocab) + within).unsqueeze(1) + feature
        return table.reshape(n_models, -1).gather(1, place.flatten(1)).view(n_models, inner, -1)

    def columns(table: Tensor) -> Tensor:
        return table.gather(2, b.unsqueeze(1).expand(-1, table.shape[1], -1))

    if "expand" in weights:
        return _rejoin(weights, columns(residual), at(from_first, a, b) + at(from_last, b, a) + columns(rest))
    return at(from_first, a, b) + at(from_last, b, a) + columns(residual + rest)


def _directly(weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
    """Return the residual stream (n_models, dim, n_rows) for sequences of any length, computed sample by sample."""
    tokens, lengths = take_rows(tables["tokens"], rows), take_rows(tables["lengths"], rows)
    embedding = weights["embedding"]
    n_models, n_rows, seq_len = tokens.shape
    dim = embedding.shape[1]
    places = []
    for place in range(seq_len):
        found = embedding.gather(2, tokens[:, :, place].unsqueeze(1).expand(-1, dim, -1))
        places.append(_place(weights, tables, found, slice(place, place + 1)))
    stream, branch = (torch.stack(side, dim=3) for side in zip(*places, strict=True))
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
    return _rejoin(weights, at_end(stream), mixed)
