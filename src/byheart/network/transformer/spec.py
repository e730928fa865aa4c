"""The shape of a Transformer without its weights.

Consecutive layers of equal shape are stored as one run, so thousands of layers are a few runs. The size is computed from the runs,
without going through the layers. It is therefore known immediately, even for 10^12 layers, and a file that claims more layers than
it has bytes is rejected before anything is built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import Any, Literal, get_args

from byheart.network.exact.dyadic import Weights
from byheart.network.protocol import MAX_COLUMNS, MAX_FILLED_LEN, MAX_ROWS, MAX_SEQ_LEN, Precision
from byheart.network.transformer.architecture import (
    Attention,
    AttentionKind,
    Embedding,
    FeedForward,
    Head,
    Layer,
    Pattern,
    SumPool,
    Transformer,
    precision_of,
)
from byheart.network.weight_format import BFLOAT16, FLOAT32, FORMATS, Storage, WeightFormat
from byheart.records.fields import Fields

RunKind = Literal["feed-forward", "attention", "sum-pool"]


@dataclass(frozen=True)
class LayerRun:
    """`n_layers` consecutive layers of one kind and shape.

    `sizes` is (hidden width,) for feed-forward layers, the size of each head for attention, and () for pooling. `formats`
    holds the storage format of each array of a layer; only networks of precision int8 have such formats.
    """

    kind: RunKind
    n_layers: int
    sizes: tuple[int, ...] = ()
    attention: AttentionKind | None = None
    pattern: Pattern = "full"
    formats: tuple[WeightFormat, ...] = ()

    def shapes(self, model_width: int) -> list[tuple[str, tuple[int, int]]]:
        """Return the name and shape of every parameter of one of these layers, which all have the same shapes. A bias is a matrix
        with one column.
        """
        if self.kind == "feed-forward":
            (hidden,) = self.sizes
            return [
                ("w1", (hidden, model_width)),
                ("b1", (hidden, 1)),
                ("w2", (model_width, hidden)),
                ("b2", (model_width, 1)),
            ]
        found = []
        for number, size in enumerate(self.sizes):
            names = ["value", "output", *([] if self.attention == "uniform" else ["key", "query"])]
            shapes = {"output": (model_width, size)}
            found += [(f"heads.{number}.{name}", shapes.get(name, (size, model_width))) for name in names]
        return found

    def describe_heads(self) -> tuple[str, str]:
        """Describe these layers for display, as two texts: their kind, and the sizes of the heads of one layer.

        The layers must be of a kind that mixes tokens. Layers that sum all tokens have no heads; their second text is empty.
        """
        if self.kind == "sum-pool":
            return "sum of all tokens", ""
        heads = ", ".join(f"{n} of size {size}" for size, n in Counter(self.sizes).items())
        return f"{self.attention} attention", f"heads: {heads}"

    def to_json(self) -> dict[str, Any]:
        if self.kind == "sum-pool":
            return {"kind": self.kind}
        shown: dict[str, Any] = {"kind": self.kind, "n_layers": self.n_layers}
        if self.formats:
            shown["stored"] = [str(each) for each in self.formats]
        if self.kind == "feed-forward":
            return {**shown, "hidden_width": self.sizes[0]}
        pattern = {} if self.pattern == "full" else {"pattern": self.pattern}
        return {**shown, "attention": self.attention, "head_sizes": list(self.sizes), **pattern}

    @staticmethod
    def from_json(fields: Fields, has_formats: bool) -> LayerRun:
        """Read a run (consecutive layers of one kind and shape) from model.json.

        A run of pooling layers always consists of one layer. Pooling layers have no weights, so if the file gave their number, a
        wrong number could not be detected.
        """
        found = LayerRun._shape_from_json(fields)
        if not has_formats:
            return found
        n_arrays = len(found.shapes(1))
        stored = fields.texts("stored") if n_arrays else ()
        if len(stored) != n_arrays or not set(stored) <= set(FORMATS):
            raise fields.refuse(
                "stored", f"a list of {n_arrays} formats. Each format is one of {', '.join(FORMATS)}"
            )
        return replace(found, formats=tuple(FORMATS[each] for each in stored))

    @staticmethod
    def _shape_from_json(fields: Fields) -> LayerRun:
        kind = fields.text("kind", get_args(RunKind))
        if kind == "sum-pool":
            return LayerRun("sum-pool", 1)
        n_layers = fields.integer("n_layers", 1, MAX_ROWS)
        if kind == "feed-forward":
            return LayerRun("feed-forward", n_layers, (fields.integer("hidden_width", 0, MAX_COLUMNS),))
        attention: Any = fields.text("attention", get_args(AttentionKind))
        sizes = fields.integers("head_sizes", 0, MAX_COLUMNS)
        if not sizes:
            raise fields.refuse("head_sizes", "a list of at least one head size")
        pattern: Any = fields.text("pattern", get_args(Pattern)) if fields.has("pattern") else "full"
        if pattern != "full" and attention != "uniform":
            raise fields.refuse("pattern", '"full", because only uniform attention may have another pattern')
        return LayerRun("attention", n_layers, sizes, attention, pattern)


@dataclass(frozen=True)
class TransformerSpec:
    """Describes a Transformer without its weights.

    n_vocab    the number of token ids; None if the inputs are vectors
    pad        the token id that pads short sequences; None if no sequence is padded
    runs       the layers: each run stands for consecutive layers of one kind and shape
    has_extra  whether the network puts one additional token before every sequence
    """

    precision: Precision
    seq_len: int
    dim: int
    model_width: int
    n_outputs: int
    n_vocab: int | None
    has_positions: bool
    pad: int | None
    runs: tuple[LayerRun, ...]
    has_extra: bool = False

    family = "transformer"

    @property
    def n_layers(self) -> int:
        """The number of layers, including pooling."""
        return sum(run.n_layers for run in self.runs)

    @property
    def depth(self) -> int:
        return sum(run.n_layers for run in self.runs if run.kind != "sum-pool")

    @property
    def width(self) -> int:
        """The largest of these numbers in any layer: channels of the residual stream, sum of the head sizes, hidden units."""
        return max([self.model_width, *(sum(run.sizes) for run in self.runs)])

    @property
    def n_arrays(self) -> int:
        return self._total(lambda shape: 1)

    @property
    def n_rows(self) -> int:
        return self._total(lambda shape: shape[0])

    @property
    def parameters_dense(self) -> int:
        return self._total(prod)

    def _total(self, count: Callable[[tuple[int, int]], int]) -> int:
        """Return the sum of `count(shape)` over all weight matrices."""
        layers = sum(
            run.n_layers * sum(count(shape) for _, shape in run.shapes(self.model_width)) for run in self.runs
        )
        ends = [*self._before(), ("w_out", (self.n_outputs, self.model_width))]
        return layers + sum(count(shape) for _, shape in ends)

    def _before(self) -> list[tuple[str, tuple[int, int]]]:
        found = []
        if self.n_vocab is not None:
            found.append(("embedding.tokens", (self.n_vocab, self.dim)))
        if self.has_positions:
            found.append(("embedding.positions", (self.seq_len, self.dim)))
        if self.has_extra:
            found.append(("extra", (1, self.dim)))
        return [*found, ("w_in", (self.model_width, self.dim))]

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and shape of every parameter, in the order of `Transformer.parameters`.

        In an exact network, a bias is a matrix with one column.
        """
        yield from self._before()
        number = 0
        for run in self.runs:
            shapes: list[tuple[str, tuple[int, ...]]] = list(run.shapes(self.model_width))
            if self.precision != "exact" and run.kind == "feed-forward":
                shapes = [(name, shape[:1] if name in ("b1", "b2") else shape) for name, shape in shapes]
            for _ in range(run.n_layers):
                yield from ((f"layers.{number}.{name}", shape) for name, shape in shapes)
                number += 1
        yield "w_out", (self.n_outputs, self.model_width)

    def build(self, weights: Iterator[Weights], files: Mapping[str, bytes]) -> Transformer:
        def take() -> Weights:
            return next(weights)

        embedding = None
        if self.n_vocab is not None:
            embedding = Embedding(take(), take() if self.has_positions else None)
        extra = take() if self.has_extra else None
        w_in = take()
        layers = tuple(_layer(run, take) for run in self.runs for _ in range(run.n_layers))
        return Transformer(w_in, layers, take(), self.seq_len, embedding, self.pad, extra, self.storage)

    @property
    def storage(self) -> Storage | None:
        """The storage format of each array of a bfloat16 or int8 network; None for other precisions.

        In an int8 network, the arrays before and after the layers, such as `w_in` and `w_out`, are float32.
        """
        if self.precision == "bfloat16":
            return Storage("bfloat16", (BFLOAT16,) * self.n_arrays)
        if self.precision == "int8":
            layers = (each for run in self.runs for each in run.formats * run.n_layers)
            return Storage("int8", (*(FLOAT32,) * len(self._before()), *layers, FLOAT32))
        return None

    @property
    def n_stored(self) -> int:
        """The number of arrays in a file: all weight arrays, and for each array of integers another one with its exponents."""
        return self.n_arrays + sum(
            run.n_layers * sum(each.scale is not None for each in run.formats) for run in self.runs
        )

    def with_floats(self, precision: Precision) -> TransformerSpec:
        """Return the same shape with weights of another precision, which must not be int8. Storage formats are removed."""
        return replace(self, precision=precision, runs=tuple(replace(run, formats=()) for run in self.runs))

    def to_json(self) -> dict[str, Any]:
        return {
            "precision": self.precision,
            "seq_len": self.seq_len,
            "dim": self.dim,
            "model_width": self.model_width,
            "n_outputs": self.n_outputs,
            "n_vocab": self.n_vocab,
            "positions": self.has_positions,
            "pad": self.pad,
            **({"extra_token": True} if self.has_extra else {}),
            "layers": [run.to_json() for run in self.runs],
        }

    def sections(self) -> list[tuple[str, str, str]]:
        """Return the layers for display, as rows of three texts: the numbers of the layers, their kind and their sizes.

        Consecutive feed-forward layers share a row, which lists how often each hidden width occurs.
        """
        rows = []
        first = 0
        for kind, group in groupby(self.runs, key=lambda run: run.kind):
            runs = list(group)
            if kind == "feed-forward":
                widths: Counter[int] = Counter()
                for run in runs:
                    widths[run.sizes[0]] += run.n_layers
                listed = ", ".join(f"{width:,} ({n:,}x)" for width, n in sorted(widths.items()))
                lines = [(sum(widths.values()), "feed-forward", f"hidden width {listed}")]
            else:
                lines = [(run.n_layers, *run.describe_heads()) for run in runs]
            for n_layers, name, sizes in lines:
                last = first + n_layers - 1
                rows.append((f"{first:,}" if n_layers == 1 else f"{first:,} to {last:,}", name, sizes))
                first = last + 1
        return rows

    @staticmethod
    def from_json(fields: Fields) -> TransformerSpec:
        precision: Any = fields.text("precision", get_args(Precision))
        n_vocab = fields.integer("n_vocab", 1, MAX_ROWS) if fields.has("n_vocab") else None
        has_positions = fields.boolean("positions")
        if n_vocab is None and (has_positions or fields.has("pad")):
            raise fields.refuse(
                "n_vocab",
                "the number of token ids, because only networks on token ids have positions or padding",
            )
        pad = fields.integer("pad", 0, (n_vocab or 1) - 1) if fields.has("pad") else None
        return TransformerSpec(
            precision,
            fields.integer("seq_len", 1, MAX_SEQ_LEN if has_positions or pad is None else MAX_FILLED_LEN),
            fields.integer("dim", 1, MAX_COLUMNS),
            fields.integer("model_width", 1, MAX_COLUMNS),
            fields.integer("n_outputs", 1, MAX_COLUMNS),
            n_vocab,
            has_positions,
            pad,
            tuple(LayerRun.from_json(run, precision == "int8") for run in fields.children("layers")),
            fields.boolean("extra_token") if fields.has("extra_token") else False,
        )


def _layer(run: LayerRun, take: Callable[[], Weights]) -> Layer:
    if run.kind == "feed-forward":
        return FeedForward(take(), take(), take(), take())
    if run.kind == "sum-pool":
        return SumPool()
    assert run.attention is not None
    scored = run.attention != "uniform"
    heads = tuple(
        Head(take(), take(), take() if scored else None, take() if scored else None) for _ in run.sizes
    )
    return Attention(heads, run.attention, run.pattern)


def spec_of(network: Transformer) -> TransformerSpec:
    runs = []
    storage = network.storage
    for shape, group in groupby(_layer_shapes(network)):
        n_layers = sum(1 for _ in group)
        runs += [shape] * n_layers if shape.kind == "sum-pool" else [replace(shape, n_layers=n_layers)]
    embedding = network.embedding
    return TransformerSpec(
        precision_of(network.w_in) if storage is None else storage.precision,
        network.seq_len,
        int(network.w_in.shape[1]),
        network.model_width,
        int(network.w_out.shape[0]),
        None if embedding is None else int(embedding.tokens.shape[0]),
        embedding is not None and embedding.positions is not None,
        network.pad,
        tuple(runs),
        network.extra is not None,
    )


def _layer_shapes(network: Transformer) -> Iterator[LayerRun]:
    """Yield a `LayerRun` (a number of equal consecutive layers) for each layer, with only this layer in it. In an int8 network,
    it includes the storage formats of the layer's arrays.
    """
    stored = {}
    if network.storage is not None and network.storage.precision == "int8":
        names = (name for name, _ in network.parameters())
        stored = dict(zip(names, network.storage.formats, strict=True))
    for number, layer in enumerate(network.layers):
        formats = (stored[f"layers.{number}.{name}"] for name, _ in layer.parameters() if stored)
        yield replace(_shape_of(layer), formats=tuple(formats))


def _shape_of(layer: Layer) -> LayerRun:
    if isinstance(layer, FeedForward):
        return LayerRun("feed-forward", 1, (layer.hidden_width,))
    if isinstance(layer, Attention):
        sizes = tuple(int(head.value.shape[0]) for head in layer.heads)
        return LayerRun("attention", 1, sizes, layer.kind, layer.pattern)
    assert isinstance(layer, SumPool), (
        f"a layer of kind {type(layer).__name__} cannot be stored in the file format"
    )
    return LayerRun("sum-pool", 1)
