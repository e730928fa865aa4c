"""MFT24 Theorems 5 and 7 as constructions: one interface, four solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from byheart.bounds.madden_2024 import theorem_5_parameters, theorem_7_parameters
from byheart.construct.madden_2024.associations import associate
from byheart.construct.madden_2024.context_vectors import draw_mixing, mixed_contexts, with_outputs
from byheart.construct.madden_2024.convex import Regression, regress, smallest_width
from byheart.construct.madden_2024.fitted_neurons import ShapedFit, fit_shaped
from byheart.construct.madden_2024.random_features import draw_neurons, features_of, solve_by_random_features
from byheart.construct.madden_2024.size import (
    FIRST_WIDTH,
    METHOD_NAMES,
    Kind,
    MaddenOptions,
    require_attention,
)
from byheart.construct.madden_2024.step_solution import solve_by_steps
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset, Task
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.decoder.architecture import Decoder
from byheart.network.memoriser import Memoriser
from byheart.process.progress import Progress
from byheart.program.construction import Construction, report_attempts, size_of_bound
from byheart.program.fewest import find_fewest
from byheart.program.targets import ALLOWED_DIVERGENCE, LOGIT_MARGIN, NextTokenTargets, targets_of
from byheart.theorems import realises

DRAWS = 8
MOST_RECHECKED = 4096
"""Up to this many contexts, labels are also checked with the backend `equations`, which is slower than the native forward pass."""

LARGEST_RESIDUAL = 1e-2
"""If a logit differs from the wanted logit by more than this, the linear system counts as unsolved. For smaller differences, the
divergence of the distributions, about half of the squared difference, is far below the allowed divergence."""


@realises("MFT24-T5", "MFT24-T7", "MFT24-Def1", "MFT24-skip", "MFT24-base")
def plan(
    data: Dataset,
    options: MaddenOptions,
    rng: np.random.Generator,
    progress: Progress | None = None,
    *,
    kind: Kind,
) -> Construction:
    """Compile contexts, and the tokens that follow them, into one decoder layer.

    Source:     MFT24 Theorem 5 (`kind` attention) and Theorem 7 (averaging); the proofs' algorithm, as repaired in the modules
                `step_solution`, `random_features` and `convex`.
    Assumes:    contexts of tokens. Contexts that occur several times count as one; in next-token data they carry equal labels.
    Guarantee:  for next-token data, the right label of every context has the largest logit, which is checked. Distributions are
                not exact, because finite logits only approximate them. The divergence from every distribution is measured, and
                the certificate states it.
    Size:       `size_of`: for the solver `steps`, one neuron per context, in dimension 1. For other solvers the options
                determine the size.
    Departs:    see the modules of the solvers.
    """
    require_attention(kind, options)
    name = METHOD_NAMES[kind]
    targets = targets_of(data)
    margin = LOGIT_MARGIN[options.precision] if options.margin is None else options.margin
    decoder, notes = _solve(_Problem(kind, options, targets, margin, rng, progress, data.task))
    n_contexts = len(targets)
    parameters = theorem_5_parameters if kind == "attention" else theorem_7_parameters
    bound = parameters(n_contexts, decoder.pad, decoder.seq_len, decoder.n_outputs)
    theorem = {"attention": "MFT24 Theorem 5", "averaging": "MFT24 Theorem 7"}[kind]
    if options.skip:
        theorem += ", with the skip connection of section 3's remark"
    if options.base is not None:
        theorem += f", softmax to the base {options.base:g}"
    has_neurons = decoder.hidden_width >= n_contexts
    if data.task == "next-token":
        _require_right(name, decoder, targets, options.precision)
    if data.task == "distribution":
        aims_at_total = notes["solver"] == "convex" and targets.entropy_nats > 0
        if notes["solver"] == "convex" and not aims_at_total:
            _require_close(name, decoder, targets, options.precision)
        notes |= {
            "allowed_divergence": None if aims_at_total else ALLOWED_DIVERGENCE,
            "allowed_gap": options.gap,
        }
    return Construction(
        Memoriser.of(decoder, data, ordered=True),
        name,
        theorem
        if has_neurons
        else f"the network of {theorem} with fewer neurons than contexts (no theorem of the papers covers this)",
        assumptions=(
            Assumption(
                "distinct contexts", True, f"contexts: {n_contexts}, maximum length: {decoder.seq_len}"
            ),
            Assumption(
                "as many neurons as contexts",
                has_neurons,
                f"neurons: {decoder.hidden_width}, contexts: {n_contexts}",
            ),
        ),
        theorem_size=size_of_bound(bound, width=n_contexts, depth=2) if has_neurons else None,
        notes={**notes, "n_contexts": n_contexts, "margin": margin},
    )


def _require_right(name: str, decoder: Decoder, targets: NextTokenTargets, precision: str) -> None:
    """Reject data with contexts that the decoder answers wrongly in this precision, for example because they are too close to each
    other.
    """
    encoded = targets.contexts.pad(decoder.pad, decoder.seq_len)
    is_wrong = decoder.compute_logits(encoded).argmax(axis=1) != targets.next_tokens
    if len(targets) <= MOST_RECHECKED:  # a lead within the rounding error may be lost in another program
        is_wrong |= decoder.bound_logits(encoded).value.argmax(axis=1) != targets.next_tokens
    wrong = int(is_wrong.sum())
    if wrong:
        finer = "precision float64, or " if precision == "float32" else ""
        raise AssumptionViolated(
            f"{name} answers {wrong} of these {len(targets)} contexts wrongly in {precision}, for example because "
            "attention or averaging maps them too close to each other.\n"
            f"  Choose {finer}a construction that separates them exactly, such as retrieval.",
            wrong=wrong,
        )


def _require_close(name: str, decoder: Decoder, targets: NextTokenTargets, precision: str) -> None:
    """Reject a fit made in float64 if rounding its weights to `precision` makes its distributions differ too much from the data."""
    logits = decoder.compute_logits(targets.contexts.pad(decoder.pad, decoder.seq_len))
    wrong = int((~(targets.divergences(logits.astype(np.float64)) <= ALLOWED_DIVERGENCE)).sum())
    if wrong:
        raise AssumptionViolated(
            f"rounding the weights of {name} to {precision} changes its answers too much: for {wrong} of {len(targets)} contexts, "
            "the predicted probabilities of the next token are no longer close to those in the data.\n"
            "  Choose precision float64, a larger hidden_width, or another solver.",
            wrong=wrong,
        )


@dataclass(frozen=True, eq=False)
class _Problem:
    """What a solver needs to find the weights of a decoder: the data, the options and a random number generator."""

    kind: Kind
    options: MaddenOptions
    targets: NextTokenTargets
    margin: float
    rng: np.random.Generator
    progress: Progress | None
    task: Task

    def draw_front(self, dim: int) -> tuple[Decoder, np.ndarray]:
        """Draw a network that has embeddings and mixing weights, but no neurons yet. Also return the contexts, padded for it."""
        contexts, options = self.targets.contexts, self.options
        sizes = (contexts.n_vocab, contexts.max_len, dim, self.targets.n_outputs)
        front = draw_mixing(
            self.kind,
            *sizes,
            self.rng,
            n_heads=options.n_heads if dim > 1 else 1,
            activation=options.activation,
            precision=options.precision,
            has_skip=options.skip,
            base=options.base,
        )
        return front, contexts.pad(front.pad, front.seq_len)


def _solve(problem: _Problem) -> tuple[Decoder, dict[str, Any]]:
    options = problem.options
    if options.tries_steps:
        try:
            return _by_steps(problem)
        except AssumptionViolated:
            if options.solver == "steps":
                raise
    if options.solver in ("convex", "stochastic"):
        front, encoded = problem.draw_front(options.dim)
        solve = _by_regression if options.solver == "convex" else _by_stochastic_steps
        return solve(problem, front, encoded)
    return _by_random_features(problem)


def _by_random_features(problem: _Problem) -> tuple[Decoder, dict[str, Any]]:
    """Draw neurons, up to `DRAWS` times, until all logits are within `LARGEST_RESIDUAL` of the wanted logits.

    A draw can fail, for example because a few GELU neurons are all 0 on the same contexts. If all draws fail, return the last one,
    unless its condition number is infinite.
    """
    logits = problem.targets.logits(problem.margin)
    for _ in range(DRAWS):
        front, encoded = problem.draw_front(problem.options.dim)
        fit = solve_by_random_features(
            front, encoded, logits, problem.rng, n_neurons=problem.options.hidden_width
        )
        if fit.residual <= LARGEST_RESIDUAL:
            return fit.network, {"solver": "random-features", **fit.to_notes()}
    # solved up to rounding; a later check decides whether the error is too large
    if fit.condition < float("inf"):
        return fit.network, {"solver": "random-features", **fit.to_notes()}
    raise AssumptionViolated(
        f"{fit.network.hidden_width} random neurons do not distinguish these {len(encoded)} contexts (condition number "
        f"{fit.condition:.2g}, logits off by {fit.residual:.2g}).\n  Use a larger hidden_width, another seed or another solver.",
        condition=fit.condition,
    )


def _by_steps(problem: _Problem) -> tuple[Decoder, dict[str, Any]]:
    """Draw embeddings, up to `DRAWS` times, until attention or averaging maps all contexts to numbers that are far enough apart."""
    for draw in range(DRAWS):
        front, encoded = problem.draw_front(dim=1)
        try:
            steps = solve_by_steps(front, encoded, problem.targets.logits(problem.margin))
        except AssumptionViolated:
            if draw == DRAWS - 1:
                raise
            continue
        return steps.decoder, {
            "solver": "steps",
            "min_gap": steps.injectivity.min_gap,  # infinite for a single context
            "rounding": steps.injectivity.rounding,
            "grid_bits": steps.grid_bits,
            "draws": draw + 1,
        }
    raise AssertionError("unreachable")


def _by_stochastic_steps(
    problem: _Problem, front: Decoder, encoded: np.ndarray
) -> tuple[Decoder, dict[str, Any]]:
    """Fit the output matrix of random neurons, doubling their number until every label has the largest logit.

    If `hidden_width` is given, use only that number.
    """
    targets, rng, hidden_width = problem.targets, problem.rng, problem.options.hidden_width
    if len(targets.next_tokens) > len(targets):
        raise UsageError(
            "solver=stochastic needs exactly one right token per context.\n  Use solver=convex for distributions."
        )
    n_neurons, mixed = hidden_width or FIRST_WIDTH, mixed_contexts(front, encoded)
    while True:
        neurons = draw_neurons(front, mixed, n_neurons, rng)
        features = features_of(neurons, encoded)
        found = associate(
            features, targets.next_tokens, rng, n_outputs=targets.n_outputs, progress=problem.progress
        )
        if not found.unsettled:
            notes = {"solver": "stochastic", "passes": found.passes, "seconds": found.seconds}
            factor = (
                _certainty(features @ found.coefficients, targets) if problem.task == "distribution" else 1.0
            )
            return with_outputs(neurons, factor * found.coefficients), notes
        if hidden_width is not None or n_neurons > len(targets):
            raise AssumptionViolated(
                f"with hidden_width={n_neurons}, the right token is not yet probable enough for {found.unsettled} of "
                f"{len(targets)} contexts after {found.passes:.0f} passes over the data.\n"
                "  Use a larger hidden_width, or another solver.",
                unsettled=found.unsettled,
            )
        n_neurons *= 2


def _certainty(logits: np.ndarray, targets: NextTokenTargets) -> float:
    """Return a factor for the logits that brings the probability of every context's next token close to 1.

    Every context must have only one next token.

    If the largest of ω logits exceeds the others by at least ln(ω / p), all other tokens together have a probability of at most p.
    Here p is the allowed divergence divided by e, which leaves room for rounding.
    """
    rows = np.arange(len(logits))
    right = logits[rows, targets.next_tokens]
    others = logits.copy()
    others[rows, targets.next_tokens] = -np.inf
    lead = float((right - others.max(axis=1)).min())
    wanted = float(np.log(np.e * logits.shape[1] / ALLOWED_DIVERGENCE))
    return max(1.0, wanted / lead) if lead > 0 else 1.0


def _by_regression(problem: _Problem, front: Decoder, encoded: np.ndarray) -> tuple[Decoder, dict[str, Any]]:
    """Fit a network whose loss exceeds the entropy of the data by at most a goal, which follows from the option `gap`.

    If the options give a number of neurons, the network has exactly that many. Otherwise, the smallest number is searched for.
    Raise `AssumptionViolated` if the network does not reach the goal.
    """
    options, targets = problem.options, problem.targets
    goal = options.gap * targets.entropy_nats
    if goal <= 0 and problem.task == "distribution":
        # With one continuation per context the entropy is 0, and so is any share of it. Then every context must be right by itself:
        # c_i KL_i <= Σ c KL <= goal, so KL_i <= goal / c_i
        goal = ALLOWED_DIVERGENCE * float(targets.counts.min())
    elif goal <= 0:  # labels only need to lead: allow a hundredth of `gap` times the loss of guessing
        goal = options.gap * float(targets.counts.sum()) * float(np.log(targets.n_outputs)) * 1e-2
    solve = _with_shaped_neurons if options.neurons == "shaped" else _with_random_neurons
    decoder, fit, notes = solve(problem, front, encoded, goal)
    if not fit.reached:
        raise AssumptionViolated(
            f"with hidden_width={decoder.hidden_width}, the loss exceeds the entropy by {fit.gap_nats:.4g} nats, but the goal is "
            f"at most {goal:.4g}.\n"
            f"  Use a larger hidden_width{' or a larger gap' if targets.entropy_nats > 0 else ''}, or leave hidden_width out.",
            gap=fit.gap_nats,
            goal=goal,
        )
    return decoder, {"solver": "convex", "neurons": options.neurons, "gap_nats": fit.gap_nats, **notes}


Regressed = tuple[Decoder, Regression, dict[str, Any]]


def _with_shaped_neurons(problem: _Problem, front: Decoder, encoded: np.ndarray, goal: float) -> Regressed:
    targets, hidden_width = problem.targets, problem.options.hidden_width
    seed = int(problem.rng.integers(2**63))
    begin = report_attempts(problem.progress)

    def fit(n_neurons: int) -> ShapedFit:
        begin()
        rng = np.random.default_rng(seed)
        return fit_shaped(front, encoded, targets, n_neurons, rng, goal_nats=goal)

    notes: dict[str, Any] = {}
    if hidden_width is not None:
        found = fit(hidden_width)
    else:
        most = 2 * len(targets) + 2
        search = find_fewest(fit, lambda each: each.fit.reached, min(FIRST_WIDTH, len(targets)), most=most)
        if search is None:
            raise _out_of_reach(most, goal)
        found = search.fit
        # each width with its gap; the width just below the smallest one misses the goal for this seed and this solver
        notes["tried"] = [
            [width, each.fit.gap_nats, each.fit.reached] for width, each in search.tried.items()
        ]
    return found.decoder, found.fit, {**notes, "evaluations": found.evaluations}


def _out_of_reach(most: int, goal: float) -> AssumptionViolated:
    return AssumptionViolated(
        f"with {most} neurons, the gap between loss and entropy is still larger than {goal:.4g} nats.\n"
        "  Choose another solver or, if the same context has several next tokens, allow a larger gap.",
        most=most,
        goal=goal,
    )


def _with_random_neurons(problem: _Problem, front: Decoder, encoded: np.ndarray, goal: float) -> Regressed:
    targets, hidden_width = problem.targets, problem.options.hidden_width
    n_neurons = hidden_width or FIRST_WIDTH
    notes: dict[str, Any] = {}
    while True:
        neurons = draw_neurons(front, mixed_contexts(front, encoded), n_neurons, problem.rng)
        features = features_of(neurons, encoded)
        if hidden_width is not None:
            fit = regress(features, targets, goal_nats=goal)
            break
        found = smallest_width(features, targets, goal, progress=problem.progress)
        if found is not None:
            fit = found.fit
            notes["tried"] = [[width, each.gap_nats, each.reached] for width, each in found.tried.items()]
            # with one neuron fewer, no output matrix whose logits are below this size reaches the goal
            if found.narrower is not None:
                notes["narrower_gap_nats"] = found.narrower.gap_nats
                notes["narrower_excluded_norm"] = found.narrower.excluded_norm
            break
        if n_neurons > 2 * len(targets):  # as many neurons as contexts suffice, except for rounding
            raise _out_of_reach(n_neurons, goal)
        n_neurons *= 2
    return with_outputs(neurons, fit.coefficients), fit, {**notes, "evaluations": fit.evaluations}
