"""Every function of `bounds` called at many points, most of them drawn at random: what `test_numbers` compares with a file.

python -m tests.bounds.numbers        writes tests/bounds/numbers.json anew; read the difference before you commit it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from byheart.bounds import (
    DataShape,
    capacity_of,
    dana_2024,
    empirical,
    enclosures,
    for_shape,
    lookup,
    madden_2024,
    orders,
    pigeonhole,
    plan,
    predecessors,
    rank_gap,
    read_architecture,
    vc_dimension,
)
from byheart.bounds import kajitsuka_sato_2025 as upper
from byheart.bounds import kajitsuka_sato_2025_lower as lower
from byheart.bounds.assumptions import DataChecks
from byheart.bounds.bound import Bound, NotApplicable, Theorem
from byheart.bounds.token_vectors import tokens_as_vectors
from byheart.errors import ByheartError
from tests.bounds import architectures
from tests.bounds.settings_at_random import random_problem

FILE = Path(__file__).with_name("numbers.json")
SMALL = (1, 2, 3, 4, 5, 7, 8, 9)
SIZES = (*SMALL, 15, 16, 17, 100, 1000, 1023, 1024, 12_345, 10**6)
LENGTHS = {
    "radius": (Fraction(1, 2), 1, Fraction(7, 3), 10, 1000),
    "separation": (Fraction(1, 1000), Fraction(1, 3), 1, Fraction(5, 2)),
    "radius_pi": (0, 1, 2),
    "batch_root": SMALL,
}
Called = dict[str, Any]


def plain(value: Any) -> Any:
    """What can be compared in JSON: numbers as texts, records by their fields, and no sentence."""
    if isinstance(value, Bound):
        return [value.name, value.statement, value.quantity, value.kind, str(value.value), value.speaks_of]
    if isinstance(value, NotApplicable):
        return ["not applicable", value.name, value.statement]
    if isinstance(value, Theorem):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        left_out = ("note", "source", "conditions", "shape", "architecture", "assumptions")
        return {
            each.name: plain(getattr(value, each.name)) for each in fields(value) if each.name not in left_out
        }
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return str(value) if isinstance(value, int | float | Fraction) else value


def call(function: Callable[..., Any], given: Called) -> Any:
    try:
        return plain(function(**given))
    except (ByheartError, ZeroDivisionError) as error:
        return f"refused: {type(error).__name__}"


def points() -> Iterator[tuple[str, Callable[..., Any], Called]]:
    """Each function with arguments, and a name for the pair."""
    rng = Random(0)
    for function, names, n_points in FUNCTIONS:
        for number in range(2 * n_points):
            sizes = SMALL if number % 2 else SIZES
            given = {name: rng.choice(LENGTHS.get(name, sizes)) for name in names}
            yield f"{_name(function)}({_spell(given)})", function, given
    for function, given in AT_EDGES:
        yield f"{_name(function)}({_spell(given)})", function, given
    for number in range(100):
        problem = random_problem(rng)
        yield f"table {number}", _table, {"shape": problem}
        yield f"vectors {number}", tokens_as_vectors, {"shape": problem}
    for number, problem in enumerate(small_problems(rng)):
        yield f"small table {number}", _table, {"shape": problem}
        yield f"small vectors {number}", tokens_as_vectors, {"shape": problem}
    for name, config in sorted(vars(architectures).items()):
        if name.isupper() and isinstance(config, dict) and "model_type" in config:
            yield f"architecture {name}", read_architecture, {"config": config}
            yield f"capacity {name}", _capacity, {"config": config}

    for family in FAMILIES:
        whole = {**EVERY_KEY, "model_type": family}
        for key in (None, *EVERY_KEY):
            for name, config in (
                (f"without {key}", {name: value for name, value in whole.items() if name != key}),
                (
                    f"other {key}",
                    {**whole, key: OTHER.get(key, 3)} if key else {**SQUARE, "model_type": family},
                ),
            ):
                yield f"count {family}({name})", _count, {"config": config}


def _name(function: Callable[..., Any]) -> str:
    room = function.__module__.rpartition(".")[2]
    name = function.__qualname__.lstrip("_")
    return name if room in ("numbers", "__main__") else f"{room}.{name}"


def _spell(given: Called) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())


def _table(shape: DataShape) -> str:
    """A digest: the functions behind a table are called on their own too."""
    reasons = DataChecks("no", "no", "no")
    entries = [
        entry
        for found in (for_shape(shape), for_shape(shape, checks=reasons))
        for entry in (*found.applicable, *found.not_applicable)
    ]
    return hashlib.sha256(json.dumps(plain(entries)).encode()).hexdigest()[:16]


def _count(config: Any) -> Any:
    found = read_architecture(config)
    sizes = (
        found.parameters,
        found.active_parameters,
        found.n_layers,
        found.n_kv_heads,
        found.head_dim,
        found.hidden_width,
    )
    return [*sizes, found.n_experts, found.experts_per_token, found.context_length, found.activation]


def _capacity(config: Any) -> Any:
    return capacity_of(read_architecture(config), value_bits=3, bits_per_parameter=8)


def small_problems(rng: Random) -> Iterator[DataShape]:
    """Problems of every kind with few samples, tokens and classes."""
    for number in range(300):
        task = ("next-token", "seq-to-seq", "set", "distribution")[number % 4]
        given: Called = {
            "n_samples": rng.choice(SMALL),
            "seq_len": rng.choice((1, 2, 3)),
            "n_classes": rng.choice((1, 2, 3, 5)),
        }
        if task == "distribution" or rng.random() < 0.5:
            given["vocab"] = rng.choice((1, 2, 3, 9))
        else:
            given["dim"] = rng.choice((1, 2, 3, 5))
        if rng.random() < 0.6:
            given |= {name: rng.choice(LENGTHS[name]) for name in ("radius", "separation")}
        given |= {"ordered": task != "set" and rng.random() < 0.5, "ragged": rng.random() < 0.4}
        given["is_consistent"] = rng.random() < 0.8
        try:
            problem = DataShape(**given, task=task)
            problem.require_possible()
        except ByheartError:
            continue
        yield problem


def _decoder_parameters(**sizes: int) -> int:
    return madden_2024.DecoderShape(**sizes).parameters


def _equation_3(**sizes: int) -> Bound:
    return madden_2024.equation_3(madden_2024.DecoderShape(**sizes))


def _madden_theorem_5(**sizes: int) -> Bound:
    return madden_2024.theorem_5(madden_2024.DecoderShape(**sizes))


def _attention_only(**sizes: int) -> Any:
    shape = dana_2024.AttentionOnlyShape(**sizes)
    return [shape.parameters, shape.rank, dana_2024.theorem_1(shape), dana_2024.corollary_2(shape, 40)]


def _blocks(n_samples: int, seq_len: int, depth: int, **sizes: int) -> Any:
    shape = lower.BlockShape(**sizes)
    return [
        shape.block_parameters,
        shape.parameters(depth),
        lower.log2_hard_attention_patterns(shape, depth, n_samples, seq_len),
        lower.theorem_4_3_depth(shape, n_samples, seq_len),
    ]


def _lookup(
    count: int,
    dim: int,
    radius_pi: int,
    separation: Any,
    radius: Any,
    n_stored: int,
    n_values: int,
    batch_root: int,
) -> Any:
    r, delta = lookup.normalise(radius, separation)
    points = lookup.Points(count, dim, r**2, radius_pi, delta)
    plainly = lookup.lookup_size(points, n_stored, n_values)
    ranges = [points.key_range.ceil(), points.projection_range.ceil(), points.key_range.integer_bits]
    return [
        plainly,
        *ranges,
        lookup.batched_lookup_size(points, max(n_stored, batch_root**2), n_values, batch_root),
    ]


def _distinct_tokens(n_samples: int, dim: int, radius: Any, separation: Any) -> Any:
    shape = DataShape(n_samples, 2, 2, dim=dim, radius=radius, separation=separation)
    vectors = tokens_as_vectors(shape)
    return None if vectors is None else vectors.distinct_tokens(n_samples)


def _plan(n_facts: int, value_bits: int, vocab: int, seq_len: int) -> Any:
    return [
        [row.name, row.kind, row.parameters, row.bits, row.precision, row.bits_per_stored_bit]
        for row in plan(n_facts, value_bits, vocab=vocab, seq_len=seq_len).rows
    ]


def _law(n_parameters: int, n_bits: int) -> Any:
    law = empirical.law_from_runs("here", [(n_parameters, n_bits), (2 * n_parameters, n_bits)], "", "")
    return [law, law.parameters_for(n_bits), law.bits_held_by(n_parameters), law.bits_per_stored_bit,
            [law.covers(n_parameters + shift) for shift in (-1, 0, 1)], [law.covers(2 * n_parameters + 1)]]  # fmt: skip


DECODER = ("dim", "n_heads", "key_dim", "value_dim", "hidden_width", "vocab", "seq_len")
FUNCTIONS: tuple[tuple[Callable[..., Any], tuple[str, ...], int], ...] = (
    (upper.theorem_4_1, ("n_samples", "seq_len", "n_classes", "dim", "radius", "separation"), 16),
    (upper.corollary_4_1, ("n_samples", "seq_len", "n_classes", "dim", "radius", "separation"), 16),
    (upper.theorem_f_1, ("n_samples", "seq_len", "n_classes", "dim", "radius", "separation"), 16),
    (upper.theorem_d_1, ("n_samples", "seq_len", "n_classes", "dim", "radius", "separation"), 16),
    (upper.theorem_e_1, ("n_samples", "seq_len", "n_classes", "vocab"), 16),
    (lower.remark_4_3, ("dim",), 4),
    (lower.feed_forward_input, ("seq_len", "dim"), 6),
    (lower.theorem_4_2, ("n_samples",), 12),
    (lower.theorem_4_2_depth, ("n_samples", "dim", "width"), 16),
    (lower.theorem_4_2_shallow, ("n_samples", "n_maps"), 16),
    (lower.theorem_4_3, ("n_samples", "seq_len", "n_outputs"), 16),
    (
        _blocks,
        ("n_samples", "seq_len", "depth", "dim", "model_width", "head_size", "n_heads", "hidden_width"),
        30,
    ),
    (
        _lookup,
        ("count", "dim", "radius_pi", "separation", "radius", "n_stored", "n_values", "batch_root"),
        24,
    ),
    (lookup.group_count, ("n_stored",), 12),
    (lookup.group_size, ("n_stored",), 12),
    (lookup.dense_parameters, ("width", "layers", "input_dim"), 6),
    (dana_2024.theorem_1_parameters, ("n_contexts", "n_tokens", "seq_len", "dim", "n_last_tokens"), 20),
    (dana_2024.theorem_3_parameters, ("n_contexts", "n_tokens", "seq_len", "dim", "n_last_tokens"), 20),
    (dana_2024.corollary_1_parameters, ("n_contexts", "n_tokens", "seq_len", "n_last_tokens"), 20),
    (dana_2024.proposition_2, ("n_tokens", "n_contexts"), 12),
    (dana_2024.proposition_2, ("n_tokens",), 6),
    (dana_2024.johnson_lindenstrauss_coherence, ("n_tokens", "dim"), 8),
    (madden_2024.lemma_1, ("n_parameters", "vocab"), 16),
    (madden_2024.lemma_1_parameters, ("n_contexts", "vocab"), 12),
    (madden_2024.theorem_1, ("n_parameters", "vocab"), 16),
    (madden_2024.theorem_1_parameters, ("n_contexts", "vocab"), 12),
    (madden_2024.theorem_5_parameters, ("n_contexts", "vocab", "seq_len", "n_outputs"), 12),
    (madden_2024.theorem_7_parameters, ("n_contexts", "vocab", "seq_len", "n_outputs"), 12),
    (madden_2024.theorem_7, ("hidden_width",), 4),
    (_decoder_parameters, DECODER, 10),
    (_equation_3, DECODER, 16),
    (_madden_theorem_5, DECODER, 8),
    (predecessors.sontag_1997, ("n_samples",), 8),
    (predecessors.siegel_2024, ("n_samples", "radius", "separation"), 24),
    (predecessors.baum_1988, ("n_samples", "input_dim"), 12),
    (predecessors.bubeck_2020, ("n_samples", "input_dim"), 12),
    (predecessors.two_layer_relu_size, ("n_samples", "input_dim"), 10),
    (predecessors.kajitsuka_sato_2023_size, ("n_samples", "seq_len", "dim", "head_size"), 10),
    (predecessors.mahdavi_2023, ("n_heads", "head_dim", "seq_len"), 12),
    (predecessors.mahdavi_2023_parameters, ("n_samples", "seq_len", "dim"), 16),
    (predecessors.linear_memory, ("dim",), 4),
    (orders.table_1, ("n_samples", "seq_len", "dim", "vocab"), 12),
    (orders.park_2021, ("n_samples", "radius", "separation"), 12),
    (orders.footnote_2, ("n_samples", "seq_len"), 12),
    (orders.section_6, ("n_sequences", "n_tokens", "seq_len", "dim"), 12),
    (orders.fixed_precision, ("n_samples",), 3),
    (pigeonhole.label_bits, ("n_labels", "n_classes"), 20),
    (pigeonhole.counting_next_token, ("n_samples", "n_classes"), 8),
    (pigeonhole.counting_seq_to_seq, ("n_samples", "seq_len", "n_classes"), 8),
    (pigeonhole.parameter_floor, ("bits", "bits_per_parameter"), 12),
    (vc_dimension.log2_sign_patterns, ("n_polynomials", "degree", "n_variables"), 20),
    (vc_dimension.goldberg_jerrum_vc_dimension, ("n_parameters", "n_predicates", "degree"), 16),
    (vc_dimension.uniform_width_vc_dimension, ("width", "depth", "input_dim"), 16),
    (vc_dimension.depth_limited_vc_dimension, ("n_parameters", "n_maps", "n_tokens"), 16),
    (vc_dimension.smallest_relu_parameters, ("n_points",), 16),
    (_distinct_tokens, ("n_samples", "dim", "radius", "separation"), 30),
    (_law, ("n_parameters", "n_bits"), 6),
    (_plan, ("n_facts", "value_bits", "vocab", "seq_len"), 12),
)
THIRD = Fraction(1, 3)
AT_EDGES: tuple[tuple[Callable[..., Any], Called], ...] = (
    *((_attention_only, {"n_heads": h, "head_dim": k, "dim": d, "n_tokens": n, "seq_len": s})
      for h, k, d, n, s in ((1, 1, 2, 3, 2), (2, 3, 5, 11, 4), (4, 2, 3, 5, 1), (3, 7, 2, 40, 3))),
    *((vc_dimension.bartlett_vc_dimension, {"layer_units": u, "layer_parameters": p})
      for u, p in (((1,), (2,)), ((3, 1), (9, 4)), ((5, 4, 1), (20, 24, 5)), ((), ()), ((1, 1), (1, 1)))),
    *((orders.robust_memorisation, {"n_samples": n, "dim": d, "ratio": Fraction(r, 100)})
      for n, d, r in ((10, 3, 50), (3, 10, 90), (100, 7, 99), (5, 5, 0), (5, 5, 100))),
    *((predecessors.vardi_2022_size,
       {"n_samples": n, "n_classes": c, "input_dim": d, "radius_square": r, "separation": s})
      for n, c, d, r, s in ((2, 2, 1, 1, 1), (100, 5, 4, 30, THIRD), (1000, 1000, 12, THIRD, 2), (1, 1, 1, 0, 1))),
    *((dana_2024.theorem_2, {"context_weights": w, "distributions": d, "coherence": c})
      for w, d, c in (
          ((1,), ((1 - THIRD, THIRD),), 0),
          ((THIRD, 1 - THIRD), ((1, 0, 0), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))), Fraction(1, 8)),
          ((1,), ((1, 0),), Fraction(1, 2)), ((1,), (), 0), ((1,), ((1, 0),), -1))),
    *((madden_2024.lemma_2, {"context_counts": c, "next_token_counts": n})
      for c, n in (((3,), (1, 2)), ((3, 4), (1, 2, 4)), ((5, 5), (1, 4, 2, 3)), ((1,), (1,)))),
    *((rank_gap.excess_loss, {"counts": c, "totals": t})
      for c, t in (
          (((3, 1), (1, 3)), (4, 4)), (((1, 1), (1, 1)), (2, 2)), (((5, 1, 1), (1, 5, 1), (1, 1, 5)), (7, 7, 7)),
          (((1, 2, 3), (4, 1, 2), (2, 3, 1)), (10, 9, 6)), (((1,),), (1,)), (((0, 1), (1, 1)), (2, 2)),
          (((3, 1), (1, 5)), (4, 5)), (((3, 1), (1, 3)), (4,)), (((1, 3), (3, 1)), (4, 4)))),
    *((function, {"value": v, "bits": b}) for function in (enclosures.log2, enclosures.ln, enclosures.sqrt)
      for v in (THIRD, 1, 2, 3, 10, 1000, Fraction(1, 10**9), 10**9 + 7) for b in (8, 64)),
    *((function, {"bits": b}) for function in (enclosures.pi, enclosures.e, enclosures.ln2) for b in (8, 64, 200)),
    *((enclosures.exp2, {"exponent": v, "bits": b})
      for v in (0, 1, Fraction(1, 2), -5 * THIRD, Fraction(7, 8), Fraction(22, 7)) for b in (8, 64)),
    *((enclosures.floor_log2, {"value": v}) for v in (1, 2, 3, 4, THIRD, Fraction(1, 4), Fraction(5, 4), 0, -1)),
    *((enclosures.ceil_sqrt, {"value": v}) for v in (0, 1, 2, 4, 5, Fraction(9, 4), Fraction(17, 4))),
    *((_plan, {"n_facts": n, "value_bits": b, "vocab": 10**6, "seq_len": 8})
      for n, b in ((0, 1), (1, 0), (10**18, 1), (10**18 + 1, 1), (10**9, 8), (200_000, 9))),
)  # fmt: skip


FAMILIES = (
    "gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "mixtral", "qwen2_moe", "qwen3_moe",
    "t5", "bert",
)  # fmt: skip
EVERY_KEY: dict[str, Any] = {
    "vocab_size": 101, "n_positions": 23, "n_embd": 12, "n_layer": 5, "n_head": 4, "n_inner": 31, "activation_function": "relu",
    "hidden_size": 16, "intermediate_size": 37, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 5, "attention_bias": True, "mlp_bias": True, "max_position_embeddings": 29, "hidden_act": "silu",
    "hidden_activation": "gelu", "tie_word_embeddings": False, "num_local_experts": 7, "num_experts": 9, "num_experts_per_tok": 3,
    "moe_intermediate_size": 11, "shared_expert_intermediate_size": 13, "decoder_sparse_step": 2, "mlp_only_layers": [1, 2, 9],
    "d_model": 14, "d_kv": 6, "d_ff": 33, "num_layers": 3, "num_heads": 4, "num_decoder_layers": 5,
    "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 17, "type_vocab_size": 3,
    "position_embedding_type": "absolute", "add_cross_attention": False,
}  # fmt: skip
SQUARE = EVERY_KEY | {
    "num_experts_per_tok": 9,
    "num_local_experts": 9,
    "vocab_size": 1 << 48,
    "mlp_only_layers": [0, 5, -1, 3],
}
OTHER: dict[str, Any] = {
    "vocab_size": (1 << 48) + 1, "hidden_size": 0, "n_layer": "5", "attention_bias": False, "mlp_bias": None, "hidden_act": 3,
    "tie_word_embeddings": True, "num_experts_per_tok": 10, "feed_forward_proj": "relu", "num_key_value_heads": 8, "n_embd": 8,
    "position_embedding_type": "relative", "mlp_only_layers": 3, "add_cross_attention": True, "decoder_sparse_step": 1,
    "activation_function": "gelu",
}  # fmt: skip


def numbers() -> dict[str, Any]:
    """What each function says at each of its points."""
    return {name: call(function, given) for name, function, given in points()}


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in numbers().items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
