"""Read the memory of a grafted checkpoint from its weights alone. Find every stored context, and every weight that does not belong
to a memory.

The layers are executed symbolically. A token's code is a vector of integers that stands for the token. Each column of the
residual stream holds one of four things: the host's state, a constant (a pin), one coordinate of the code of this token or of a
token a known number of places back, or nothing. A head must copy coordinates of codes, all from the position at one distance. A
hidden unit must move or clear columns, or match codes. This module shares no code with the one that writes grafts, and needs no
record of what was written, so it finds what the checkpoint really holds.
"""

from __future__ import annotations

from itertools import product
from math import log2, sqrt

import numpy as np
import torch

from byheart.graft.host import DTYPES, FolderHost, rotary
from byheart.graft.queries import HeadRead, amplitude_of, differing
from byheart.graft.reading import Reading, StoredUnit, Tokens, find_columns
from byheart.graft.texts import load_packages
from byheart.process.progress import Progress, silent

LEAST_NATS = 200.0
"""The smallest allowed lead of an attention head, in nats. The lead is how much the highest score of a head exceeds all its other
scores. In float32, exp(-104) is already 0; the remaining 96 nats allow for rounding errors.
"""

SATURATED = 128.0
"""For x from this value on, silu(x) = x and silu(-x) = 0 in float32 and bfloat16."""

PER_MULTIPLE = 128
"""A unit's threshold is the sum of a multiple of this number and a remainder. The unit stores the multiple in its weight for the
first pin (constant column), and the remainder in its weight for the second pin.

Both weights are exact in bfloat16.
"""


def read_memory(checkpoint: FolderHost, progress: Progress = silent) -> Reading | None:
    """Read the memory of a checkpoint (the layers that store facts). Return None if it has no memory."""
    reading = find_columns(checkpoint)
    if reading is None:
        return None
    load_packages(progress)  # the rotary frequencies are those of transformers
    run = SymbolicRun(checkpoint, reading)
    for layer in range(reading.n_memory_layers):
        progress(layer, reading.n_memory_layers, "read")
        run.follow(layer)
    run.end()
    return reading


class SymbolicRun:
    """Tracks what the columns of the residual stream hold at one position of an arbitrary text, layer by layer.

    A column may hold a constant, or a coordinate of the code (an integer vector) of a token a known number of positions back.
    """

    def __init__(self, checkpoint: FolderHost, reading: Reading) -> None:
        self.checkpoint, self.reading, self.shape = checkpoint, reading, checkpoint.shape
        self.scale = sqrt(sum(size**2 for size in reading.pins.values()) / self.shape.width)
        # for each column, the offset of the token whose code it holds, and the coordinate of the code; -1 if none
        self.offset = np.full(self.shape.width, -1)
        self.coordinate = np.full(self.shape.width, -1)
        self.offset[reading.message_columns] = 0
        self.coordinate[reading.message_columns] = np.arange(len(reading.message_columns))
        self.pins_left = set(reading.pins)
        self.token_of = reading.token_of()
        self.frequencies, self.scaling = rotary(checkpoint.config)
        self.pin_columns = np.array(sorted(reading.pins))
        self.pin_sizes = np.array([reading.pins[column] for column in self.pin_columns]) / self.scale
        self.heads: list[HeadRead] = []
        self.accepted: dict[Tokens, Tokens] = {}
        self.layer = 0
        self.found: list[tuple[Tokens, np.ndarray, int, int]] = []

    def fault(self, part: str, what: str) -> None:
        self.reading.faults.append(f"model.layers.{self.layer}.{part}: {what}")

    def get(self, part: str) -> np.ndarray:
        weights: np.ndarray = self.checkpoint.tensor(f"model.layers.{self.layer}.{part}").double().numpy()
        return weights

    def follow(self, layer: int) -> None:
        self.layer = layer
        wanted = np.full(self.shape.width, self.scale)
        wanted[self.reading.host_columns] = 0
        wanted[self.pin_columns] = 1
        for norm in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            for column in np.flatnonzero(self.get(norm) != wanted)[:3]:
                self.fault(norm, f"entry {column} is {self.get(norm)[column]}, not {wanted[column]}")
        for name in self.checkpoint.places:
            if (
                name.startswith(f"model.layers.{layer}.")
                and name.endswith(".bias")
                and self.get(name.split(".", 3)[3]).any()
            ):
                self.fault(name.split(".", 3)[3], "a bias is not zero")
        self._follow_heads()
        self._follow_units()

    def _constant(self, weights: np.ndarray, pin: int = 0) -> np.ndarray:
        """For each row of `weights`, return its weight for constant column number `pin`, times the value of this column."""
        return np.asarray(weights[:, self.pin_columns[pin]] * self.pin_sizes[pin])

    def _only_first_pin(self, weights: np.ndarray) -> np.ndarray:
        others = np.ones(weights.shape[1], bool)
        others[self.pin_columns[0]] = False
        return np.asarray(~(weights[:, others] != 0).any(1))

    # --- heads ---------------------------------------------------------------------------------------------------------

    def _follow_heads(self) -> None:
        query, key, value, out = (self.get(f"self_attn.{part}_proj.weight") for part in "qkvo")
        size, group = self.shape.head_dim, self.shape.group
        learnt: list[tuple[int, int, int]] = []
        used_values = np.zeros(len(value), bool)
        used_heads: set[int] = set()
        for head in range(self.shape.n_heads):
            block = out[:, head * size : (head + 1) * size]
            if not block.any():
                continue
            used_heads.add(head)
            first = head // group * size
            distance = self._distance(query[head * size : (head + 1) * size], key[first : first + size], head)
            for column, place in zip(*np.nonzero(block), strict=True):
                row = value[first + place]
                sources = np.flatnonzero(row)
                used_values[first + place] = True
                one = len(sources) == 1 and row[sources[0]] == 1 and block[column, place] == 1
                if (
                    not one
                    or self.offset[sources[0]] < 0
                    or self.offset[column] >= 0
                    or column in self.reading.pins
                ):
                    self.fault(
                        "self_attn.o_proj.weight",
                        f"head {head} writes column {column}, but not as a copy of one entry of a token's code",
                    )
                    continue
                learnt.append(
                    (int(column), int(self.offset[sources[0]]) + distance, int(self.coordinate[sources[0]]))
                )
        groups = {head // group for head in used_heads}
        for part, weights, per, used in (
            ("q", query, size, used_heads),
            ("k", key, size, groups),
            ("v", value, size, groups),
        ):
            for number in range(len(weights) // per):
                if number not in used and weights[number * per : (number + 1) * per].any():
                    self.fault(
                        f"self_attn.{part}_proj.weight",
                        f"head {number} is not used, but its weights are not zero",
                    )
        for row in np.flatnonzero(value.any(1) & ~used_values):
            # values that no head of the group copies; they occur only in blocks that reach past the window
            if not (
                len(np.flatnonzero(value[row])) == 1
                and value[row].sum() == 1
                and self.offset[value[row].argmax()] >= 0
            ):
                self.fault("self_attn.v_proj.weight", f"row {row} does not copy one entry of a token's code")
        if len({column for column, _, _ in learnt}) < len(learnt):
            self.fault("self_attn.o_proj.weight", "two heads write the same column")
        for column, offset, coordinate in learnt:
            self.offset[column], self.coordinate[column] = offset, coordinate

    def _distance(self, query: np.ndarray, key: np.ndarray, head: int) -> int:
        """Return how many tokens back a head reads. This is the distance d at which its attention score is largest.

        Record a fault if d is 0, or if the score depends on more than the distance. Also record a fault unless the score at d
        exceeds the scores at all other distances by at least `LEAST_NATS`, and the score at d - 1 exceeds the scores at all smaller
        distances by at least as much.
        """
        if not (self._only_first_pin(query).all() and self._only_first_pin(key).all()):
            self.fault(
                "self_attn.q_proj.weight",
                f"the score of head {head} depends on more than the distance between tokens",
            )
        q, k = asked, offered = self._constant(query), self._constant(key)
        if self.shape.qk_norm:
            q, k = (
                x
                / sqrt((x**2).mean() + float(self.checkpoint.config["rms_norm_eps"]))
                * self.get(f"self_attn.{name}_norm.weight")
                for name, x in (("q", q), ("k", k))
            )
        half = len(q) // 2
        turned = (q[:half] + 1j * q[half:]) * (k[:half] - 1j * k[half:])
        used = np.flatnonzero(np.abs(turned) > 1e-9 * np.abs(turned).max(initial=1e-300))
        distances = np.arange(int(self.checkpoint.config["max_position_embeddings"]))
        scores = np.zeros(len(distances))
        for pair in used:
            scores += (turned[pair] * np.exp(1j * self.frequencies[pair] * distances)).real
        scores *= self.scaling**2 / sqrt(len(q))
        best = int(scores.argmax())
        nats = float(scores[best] - np.delete(scores, best).max(initial=-np.inf))
        if best > 1:
            nats = min(nats, float(scores[best - 1] - scores[: best - 1].max()))
        self.reading.least_nats = min(self.reading.least_nats, nats)
        if best == 0 or nats < LEAST_NATS:
            self.fault(
                "self_attn.q_proj.weight",
                f"the attention score of head {head} is largest at distance {best}, with a lead of {nats:.1f} "
                f"nats; the distance must be at least 1, and the lead at least {LEAST_NATS:.0f}",
            )
        self.heads.append(HeadRead(self.layer, head, best, asked, offered))
        return best

    def _check_queries(self) -> None:
        """Compare the queries and keys of all heads, entry by entry, with the values that they must have. Do the same with the
        weights of `q_norm` and `k_norm`, if the model has these.
        """
        size, n_pairs = self.shape.head_dim, 0
        if self.heads:
            n_pairs = max(1, min(int(np.count_nonzero(self.heads[0].key)), size // 2))
        amplitude = amplitude_of(
            self.frequencies[:n_pairs],
            self.scaling,
            size,
            int(self.checkpoint.config["max_position_embeddings"]),
            max((head.distance for head in self.heads), default=1),
        )
        for head in self.heads:
            self.layer, wanted_key = head.layer, np.zeros(size)
            wanted_key[:n_pairs] = 1
            wanted = amplitude.query(head.distance, size, self.shape.qk_norm)
            largest = 1.0 if self.shape.qk_norm else amplitude.size
            for part, row, found, meant in (
                ("q", head.head * size, head.query, wanted),
                ("k", head.head // self.shape.group * size, head.key, wanted_key),
            ):
                name = f"self_attn.{part}_proj.weight"
                for place in differing(found, meant, largest, self._dtype(name))[:3]:
                    self.fault(
                        name,
                        f"row {row + place} gives the value {found[place]}; a head that reads at distance "
                        f"{head.distance} needs the value {meant[place]}",
                    )
        if self.shape.qk_norm:
            for layer in range(self.reading.n_memory_layers):
                self.layer = layer
                used = any(head.layer == layer for head in self.heads)
                weights = np.full(size, amplitude.norm_weight(size) if used else 0.0)
                for part in ("q", "k"):
                    name = f"self_attn.{part}_norm.weight"
                    for place in differing(self.get(name), weights, weights[0], self._dtype(name))[:3]:
                        self.fault(name, f"entry {place} is {self.get(name)[place]}, not {weights[place]}")

    def _dtype(self, part: str) -> torch.dtype:
        return DTYPES[self.checkpoint.places[f"model.layers.{self.layer}.{part}"].dtype]

    # --- units ---------------------------------------------------------------------------------------------------------

    def _follow_units(self) -> None:
        gate, up, down = (self.get(f"mlp.{part}_proj.weight") for part in ("gate", "up", "down"))
        constant = self._only_first_pin(gate)
        empty = ~gate.any(1)
        for unit in np.flatnonzero(empty & (up.any(1) | down.any(0)))[:5]:
            self.fault(
                "mlp.up_proj.weight",
                f"unit {unit} is not used (its gate is zero), but its other weights are not zero",
            )
        movers = np.flatnonzero(constant & ~empty)
        self._match(np.flatnonzero(~constant), gate, up, down)
        if not np.array_equal(self._constant(gate[movers]), np.full(len(movers), SATURATED)):
            self.fault(
                "mlp.gate_proj.weight", "a unit that moves or clears a column has a gate other than 128"
            )
        before_offset, before_coordinate = self.offset.copy(), self.coordinate.copy()
        written: dict[int, list[int]] = {}
        for unit in movers:
            sources = np.flatnonzero(up[unit])
            targets = np.flatnonzero(down[:, unit])
            source = int(sources[0]) if len(sources) == 1 else -1
            if source in self.reading.pins and up[unit, source] * self.reading.pins[source] / self.scale == 1:
                good = len(targets) == 1 and int(targets[0]) in self.pins_left
                good = good and down[targets[0], unit] * SATURATED == -self.reading.pins[int(targets[0])]
                if good:
                    self.pins_left.discard(int(targets[0]))
            elif source >= 0 and before_offset[source] >= 0 and up[unit, source] == 1:
                signs = down[targets, unit] * SATURATED
                good = bool(np.isin(signs, (1, -1)).all()) and list(targets[signs == -1]) == [source]
                for target in targets[signs == 1] if good else ():
                    written.setdefault(int(target), []).append(source)
                if good:
                    self.offset[source] = self.coordinate[source] = -1
            else:
                good = False
            if not good:
                self.fault(
                    "mlp.down_proj.weight", f"unit {unit} does something other than move or clear one column"
                )
        for target, origins in written.items():
            if len(origins) != 1 or before_offset[target] >= 0 or target in self.reading.pins:
                self.fault("mlp.down_proj.weight", f"column {target} is overwritten")
                continue
            self.offset[target], self.coordinate[target] = (
                before_offset[origins[0]],
                before_coordinate[origins[0]],
            )

    def _match(self, units: np.ndarray, gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> None:
        if not len(units):
            return
        reading, n_coordinates = self.reading, len(self.reading.message_columns)
        if (self.offset[reading.message_columns] >= 0).any():
            self.fault(
                "mlp.down_proj.weight", "units add answers to columns that still hold the code of a token"
            )
        if len(self.pin_columns) < 2:
            self.fault(
                "mlp.gate_proj.weight",
                "units match contexts, but there is only one constant column, and their thresholds need two",
            )
            return
        window = int(self.offset.max()) + 1
        held = np.flatnonzero(self.offset >= 0)
        places = set(zip(self.offset[held].tolist(), self.coordinate[held].tolist(), strict=True))
        if len(places) < window * n_coordinates:
            self.fault(
                "mlp.gate_proj.weight",
                "a part of the code (integer vector) of an earlier token was not copied to any column",
            )
            return
        columns = np.empty((window, n_coordinates), np.int64)
        columns[self.offset[held], self.coordinate[held]] = held
        allowed = np.zeros(self.shape.width, bool)
        allowed[columns.ravel()] = True
        allowed[self.pin_columns[:2]] = True
        strange = (gate[units][:, ~allowed] != 0).any(1) | ~self._only_first_pin(up[units])
        strange |= self._constant(up[units]) != 1
        silent = np.ones(self.shape.width, bool)
        silent[reading.message_columns] = False
        strange |= (down[silent][:, units] != 0).any(0)
        messages = down[reading.message_columns][:, units].T * SATURATED
        doubled = gate[units][:, columns.ravel()].reshape(len(units), window, n_coordinates) / SATURATED
        strange |= (doubled != doubled.round()).any((1, 2))
        multiples, rests = self._constant(gate[units]), self._constant(gate[units], 1)
        for row, unit in enumerate(units):
            codes = [tuple(code) for code in doubled[row].astype(np.int64).tolist()]
            length = next((place for place, code in enumerate(codes) if not any(code)), window)
            tokens = [self._tokens_with(code) for code in codes[:length]]
            firsts = tokens[-1] if tokens else ()
            total = 2 * length * reading.squared_norm - len(firsts)
            rest = total % PER_MULTIPLE
            right = (multiples[row], rests[row]) == (-SATURATED * (total - rest), -SATURATED * rest)
            whole = len(firsts) > 0 and all(len(each) == 1 for each in tokens[:-1])
            whole = whole and not any(map(any, codes[length:]))
            if strange[row] or not (whole and right):
                self.fault(
                    "mlp.gate_proj.weight",
                    f"unit {unit} does not match whole tokens, has a wrong threshold, or does not write an answer only",
                )
                continue
            rest_of_context = tuple(each[0] for each in reversed(tokens[:-1]))
            for first in firsts:
                self.found.append(((first, *rest_of_context), messages[row], self.layer, int(unit)))

    def _tokens_with(self, doubled: Tokens) -> Tokens:
        """Return the tokens that a unit accepts at one position: one or two, or none if `doubled` is wrong.

        `doubled` is read from the unit's weights. It must be twice the code of the one token, or the sum of the codes of the two.

        The codes of two such tokens are neighbours (see `codes.neighbours`). Two coordinates of their mean are equal in magnitude
        and lie halfway between whole numbers. So four whole-number vectors are closest to the mean. Only two of these vectors have
        the norm that all codes share, and they are the codes of the two tokens.
        """
        if doubled not in self.accepted:
            halves = [place for place, number in enumerate(doubled) if number % 2]
            found = []
            for signs in product((-1, 1), repeat=len(halves)) if len(halves) in (0, 2) else ():
                vector = list(doubled)
                for place, sign in zip(halves, signs, strict=True):
                    vector[place] += sign
                if sum(number**2 for number in vector) == 4 * self.reading.squared_norm:
                    found.append(self.token_of.get(tuple(number // 2 for number in vector), -1))
            good = -1 not in found and len(found) == (2 if halves else 1)
            self.accepted[doubled] = tuple(sorted(found)) if good else ()
        return self.accepted[doubled]

    def _check_answers(self) -> None:
        """Record a fault for each context after which the units do not add the code of a single token."""
        units = {unit.tokens: unit for unit in self.reading.units}
        for tokens, token in self.reading.answers().items():
            if token < 0:
                self.layer = units[tokens].layer
                self.fault(
                    "mlp.down_proj.weight",
                    f"after the tokens {list(tokens)}, unit {units[tokens].unit} and the units of shorter contexts "
                    "do not add the code of one token",
                )

    def end(self) -> None:
        """Record the stored contexts, and check that the memory passes nothing to the host's layers except the answer. Also check
        the queries of all heads.

        Every unit adds a code times a factor, and all units must have the same factor. It is read from the unit of the shortest
        context, which adds the code of one token. Units of longer contexts may add the difference of two codes instead.
        """
        told = [item for item in self.found if item[1].any()]
        if told:
            _, message, self.layer, unit = min(told, key=lambda item: len(item[0]))
            size = log2(np.linalg.norm(message) / sqrt(self.reading.squared_norm))
            self.reading.message = 2.0 ** round(size)
        for tokens, message, layer, unit in self.found:
            self.layer = layer
            change = message / (self.reading.message or 1.0)
            if not np.array_equal(change, change.round()):
                self.fault(
                    "mlp.down_proj.weight", f"what unit {unit} adds is not a code or a difference of codes"
                )
            else:
                self.reading.units.append(StoredUnit(tokens, tuple(int(x) for x in change), self.layer, unit))
        self._check_answers()
        left = np.flatnonzero(self.offset >= 0)
        if len(left) or self.pins_left:
            self.fault(
                "mlp.down_proj.weight",
                f"column {(*left, *self.pins_left)[0]} is not cleared at the end of the memory",
            )
        self._check_queries()
