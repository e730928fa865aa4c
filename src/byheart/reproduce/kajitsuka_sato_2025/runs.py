"""Code that all figures of KS25 share: the models, the training (Appendix H), and the choice of the best trials.

The paper states the model E_out ∘ FF2 ∘ uniform attention ∘ FF1 ∘ E_in with residual width m = 2 and hidden width q = 8. It trains
with full-batch AdamW for 1,000 epochs, and tunes learning rate and warm-up. It leaves other choices open. A set of such choices is
called a reading of the paper.

The likely reading (our most likely interpretation) has BERT-style weights, and its runs have the initialisation `BERT` in the code:
- An input is a class token and 7 sub-words of MultiNLI's hypotheses or IMDb's reviews. The answer is read at the class token.
- A trained table embeds tokens directly into the stream. Weights and table are drawn from N(0, 0.02²), and biases are zero.
- The warm-up has 50 steps. Two ranges of learning rates are searched and judged separately: one ends at 3e-4, the other at 1e-3.
  Figure 3 also has ranges that end at 4e-4 and 6e-4.

The variations of Figures 1 to 3 use the framework's initialisation, a warm-up of 100 steps, and four learning rates (Figure 3: two,
or one with a trained table):
- Texts are cut to 8 words and the answer is read at the first word, or texts are split into sub-words as above.
- Tokens are embedded by a fixed random table and a trained E_in (`frozen`), or by a trained table directly into the
  two-dimensional stream (`learned`). A trained table alone can hold the labels. The fixed tables have width 256 for words and 768
  for sub-words. Figure 3 also has tables of width 512 and 768 for words.

Everywhere, the weight decay is 0.01, the learning rate is constant after the warm-up, and the best trial of each seed counts; in
the study of the sequence length, the best trial of all seeds. A model has memorised the data if the mean training loss is below
0.01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from byheart.measure.families import ModelConfig
from byheart.measure.recipe import PassRule, Training
from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Scale, Style
from byheart.reproduce.observation import Observation

Embedding = Literal["frozen", "learned"]
EMBEDDINGS: tuple[Embedding, ...] = ("frozen", "learned")
WIDTH = 256  # width of the frozen table of words in Figures 1 and 2
SUB_WORD_WIDTH = 768  # and of sub-words, with a tokenizer and class token as in BERT

MEASURED = ("loss", "accuracy", "best_accuracy")  # the measurements that figures need
PASSES = PassRule("loss", 0.01)
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
Initialisation = Literal["framework", "normal-0.02"]
BERT: Initialisation = "normal-0.02"
# For BERT-style weights, the usual ranges go from 1e-5 or 1e-4 to 3e-4 or 1e-3.
SMALL_RATE, LARGE_RATE = 3e-4, 1e-3  # the upper ends of the two ranges
BERT_RATES = (1e-4, 2e-4, 3e-4, 6e-4, 1e-3)
TEN_RATES = (1e-4, 1.5e-4, 2e-4, 2.5e-4, 3e-4, 4e-4, 5e-4, 6e-4, 8e-4, 1e-3)  # Figure 3's ten trials
N_SEEDS: dict[Scale, int] = {"smoke": 1, "laptop": 1, "paper": 3}
CHOICES = (
    (
        "The likely reading of the paper: an input is a class token and 7 sub-words, and the answer is read at the class token."
        " Tokens are embedded by a trained table with 2 numbers for each token. Weights and table are drawn from N(0, 0.02²), and"
        " biases are zero. The warm-up has 50 steps. Of the learning rates in a range, the best counts."
    ),
    "Variations: words as tokens and the answer read at the first one; fixed random tables with a trained map to the stream.",
    "The model has no positions, so it sees a text as the token at which the answer is read and a multiset of the others.",
    (
        "The variations have PyTorch's default initialisation, the best of the learning rates"
        f" {', '.join(f'{rate:g}' for rate in RATES)}, and a warm-up of 100 steps. Weight decay is 0.01 everywhere."
    ),
    "Memorised means a mean training loss below 0.01. A final loss above 100 times the initial loss counts as diverged.",
    (
        "Texts are MultiNLI's hypotheses (of the matched development set, because we do not have the training set) and IMDb's"
        " training reviews."
    ),
    (
        "MultiNLI's premises, and pairs of premise and hypothesis, cannot be the inputs: a premise has several labels. If texts are"
        " cut to 8 words, only 44 premises and 765 pairs have no conflicting labels, fewer than the 2,000 of Figure 1."
    ),
    (
        "Texts are left out if the same tokens occur with two different labels (414 of 8,078 for MultiNLI, 16 of 12,000 for IMDb)."
        " Repeats count once."
    ),
)
CURVE_STYLES: tuple[Style, ...] = (
    "measured",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "closed-form",
)


def seeds(scale: Scale) -> range:
    """Return the seeds of the runs to train at a scale. The seed determines the sample, the initial weights and the frozen word
    embeddings.
    """
    return range(N_SEEDS[scale])


def training(
    scale: Scale, rate: float, *, stops: bool, initialisation: Initialisation = "framework"
) -> Training:
    """Return the training options: full-batch AdamW for 1,000 epochs, or 30 at scale `smoke`.

    With `stops`, a run ends as soon as a measured loss is below 0.01.
    """
    warmup = 50 if initialisation == BERT else 100
    return Training(
        steps={"smoke": 30, "laptop": 1000, "paper": 1000}[scale],
        learning_rate=rate,
        optimiser="adamw",
        weight_decay=0.01,
        warmup=3 if scale == "smoke" else warmup,
        record_every={"smoke": 5, "laptop": 10, "paper": 10}[scale],
        stop=PASSES if stops else None,
    )


def text_runs(
    scale: Scale,
    samples: Samples,
    collection: str,
    n_samples: int,
    n_blocks: int,
    embedding: Embedding,
    *,
    width: int = WIDTH,
    rates: tuple[float, ...] | None = None,
    stops: bool = False,
    initialisation: Initialisation = "framework",
    n_seeds: int | None = None,
) -> list[Run]:
    """Return one run per seed and learning rate.

    `width` is the width of frozen word embeddings. With other embeddings it is not used.
    """
    sizes = {"n_blocks": n_blocks} | ({"dim": width} if embedding == "frozen" else {})
    options = {"embedding": embedding, "initialisation": initialisation}
    return [
        Run(
            ModelConfig("uniform-attention", sizes, options),
            samples.describe(collection, n_samples, seed),
            training(scale, rate, stops=stops, initialisation=initialisation),
            seed,
        )
        for seed in (seeds(scale) if n_seeds is None else range(n_seeds))
        for rate in rates or rates_of(scale)
    ]


def vector_runs(
    scale: Scale,
    n_samples: int,
    seq_len: int,
    n_blocks: int,
    *,
    seeds: range,
    rates: tuple[float, ...],
    longer: int = 1,
    width: int = 2,
    initialisation: Initialisation = "framework",
) -> list[Run]:
    """Return runs for the study of the sequence length: uniform vectors in [0, 1)^6, labels ±1, and squared error.

    The hidden layers are four times as wide as the stream. `longer` multiplies the number of epochs.
    """
    plans = [training(scale, rate, stops=True, initialisation=initialisation) for rate in rates]
    if longer > 1:
        plans = [
            replace(plan, steps=longer * plan.steps, record_every=longer * plan.record_every)
            for plan in plans
        ]
    model = ModelConfig(
        "uniform-attention",
        {"n_blocks": n_blocks, "width": width, "hidden_width": 4 * width},
        {"initialisation": initialisation},
    )
    return [Run(model, vectors(n_samples, seq_len, seed), plan, seed) for seed in seeds for plan in plans]


def vectors(n_samples: int, seq_len: int, seed: int) -> dict[str, Any]:
    """Return the description of the data for the study of the sequence length."""
    return {
        "kind": "rademacher-vectors",
        "n_samples": n_samples,
        "seq_len": seq_len,
        "dim": 6,
        "read": "first",
        "seed": seed,
    }


def rates_of(scale: Scale) -> tuple[float, ...]:
    """Return the learning rates to try."""
    return RATES[1:3] if scale == "smoke" else RATES


def is_likely(one: Observation) -> bool:
    """Return whether a run has BERT-style initial weights, as in the likely reading (our most likely interpretation) of the
    paper.
    """
    return bool(one.config["options"].get("initialisation", "framework") == BERT)


def rate_of(one: Observation) -> float:
    return float(one.config["training"]["learning_rate"])


def likely_up_to(rate: float) -> str:
    """Describe the runs of the likely reading (the most likely interpretation) of the paper, with learning rates up to `rate`."""
    return f"BERT-style weights, rates up to {rate:g}"


def readings(observations: Sequence[Observation], ends: Sequence[float]) -> dict[str, list[Observation]]:
    """Group the runs by the reading of the paper that they follow. A reading fixes the choices that the paper's text leaves open.

    The likely reading comes first. It has one entry for each learning rate in `ends`, which holds the runs whose learning rate is
    at most this rate. The other readings follow.
    """
    found = {
        likely_up_to(end): [
            one for one in observations if is_likely(one) and rate_of(one) <= end * (1 + 1e-9)
        ]
        for end in ends
    }
    for one in observations:
        if not is_likely(one):
            found.setdefault(_variation(one), []).append(one)
    return {name: mine for name, mine in found.items() if mine}


def _variation(one: Observation) -> str:
    """Describe a variation: its tokens, and whether their embeddings are trained or fixed. For fixed ones, add their width."""
    options, collection = one.config["options"], str(one.config["data"]["collection"])
    table = (
        "learned table" if options["embedding"] == "learned" else f"frozen table of width {one.sizes['dim']}"
    )
    return f"{'sub-words' if collection.endswith('sub-words') else 'words'}, {table}"


def n_blocks(one: Observation) -> int:
    return one.sizes["n_blocks"]


def nearly_all_right(one: Observation) -> bool:
    """Return whether, at some time in training, fewer than 1% of the labels were wrong.

    The paper's "training error below 0.01" may mean this, or a mean loss below 0.01.
    """
    return one.measured["best_accuracy"] > 0.99


def best_trials(
    observations: Iterable[Observation], setting: Callable[[Observation], tuple[object, ...]]
) -> list[Observation]:
    """For every setting and seed, return the run with the smallest loss. `setting` returns the setting of a run."""
    best: dict[tuple[object, ...], Observation] = {}
    for one in observations:
        key = (*setting(one), one.seed)
        if key not in best or one.loss < best[key].loss:
            best[key] = one
    return list(best.values())


def fewest_blocks(
    observations: Iterable[Observation],
    setting: Callable[[Observation], int],
    memorised: Callable[[Observation], bool] = lambda one: PASSES.holds(one.measured),
) -> dict[tuple[int, int], int | None]:
    """For every (setting, seed), return the fewest blocks with which a trial memorised the data, or None if no trial
    did.
    """
    found: dict[tuple[int, int], int | None] = {}
    for one in observations:
        key = (setting(one), one.seed)
        found.setdefault(key, None)
        if memorised(one):
            before = found[key]
            found[key] = n_blocks(one) if before is None else min(before, n_blocks(one))
    return found
