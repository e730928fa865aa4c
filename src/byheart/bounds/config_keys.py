"""The keys of an architecture file (config.json). Numbers, flags and words are read by `records.reader`. Errors name the key and,
if it has one, its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from byheart.errors import MalformedFile
from byheart.records.reader import read_value, within
from byheart.records.refusals import refuse_file

T = TypeVar("T", bool, str)
Size = Annotated[int, within(1, 1 << 48)]  # larger than any published size; larger values are mistakes


@dataclass(frozen=True)
class ConfigKeys:
    """The keys of one file, read for one family of architectures. JSON's null counts as absent."""

    config: Mapping[str, object]
    family: str

    def need(self, *names: str) -> None:
        """Raise `MalformedFile` unless all these keys are present. The error names every missing key."""
        missing = tuple(name for name in names if self.config.get(name) is None)
        if missing:
            raise MalformedFile(
                f"this {self.family} architecture file lacks these keys: {', '.join(missing)}.\n"
                f"  It has: {', '.join(sorted(map(str, self.config))) or 'no keys at all'}.",
                missing=missing,
                family=self.family,
            )

    def first_present(self, *names: str) -> str:
        """Return the first of these alternative names of one key that is in the file. If none is, return the first of all."""
        return next((name for name in names if self.config.get(name) is not None), names[0])

    def size(self, name: str, default: int | None = None) -> int:
        """Return the value of the key, which must be an integer from 1 to 2^48, or `default` if the key is absent.

        Raise `MalformedFile` if the key is absent and there is no default. A default of 0 stands for "none".
        """
        value = self.config.get(name)
        if value is None:
            if default is None:
                self.need(name)
            return default or 0
        size: int = read_value(value, Size, self._where, f"`{name}`", refuse=refuse_file)
        return size

    def sizes(self, **names: str) -> dict[str, int]:
        """Return the values of several keys: `sizes(dim="n_embd")` returns the value of the key `n_embd` under the name `dim`.

        All keys must be present, and their values must be integers from 1 to 2^48.
        """
        self.need(*names.values())
        return {field: self.size(name) for field, name in names.items()}

    def flag(self, name: str, default: bool) -> bool:
        return self._read(name, default, bool)

    def word(self, name: str, default: str) -> str:
        return self._read(name, default, str)

    def _read(self, name: str, default: T, kind: type[T]) -> T:
        value = self.config.get(name)
        if value is None:
            return default
        found: T = read_value(value, kind, self._where, f"`{name}`", refuse=refuse_file)
        return found

    @property
    def _where(self) -> str:
        return f"a {self.family} architecture file"

    def refuse(self, name: str, value: object, reason: str) -> None:
        """Raise `MalformedFile` if the key has this value, because byheart cannot count the parameters of such a model.

        The error ends with `reason`.
        """
        if self.config.get(name) == value:
            raise MalformedFile(f"`{name}` is {value!r}: {reason}.", key=name, value=value)

    def require(self, name: str, value: object, reason: str) -> None:
        """Raise `MalformedFile` if the key is present with a value other than `value`. The error ends with `reason`."""
        given = self.config.get(name)
        if given is not None and given != value:
            raise MalformedFile(f"`{name}` is {given!r}, not {value!r}: {reason}.", key=name, value=given)

    def quotient(self, whole: str, part: str) -> int:
        """Return the value of the key `whole` divided by that of the key `part`. Raise `MalformedFile` if there is a remainder."""
        return self.must_divide(part, self.size(part), whole, self.size(whole))

    def must_divide(self, part: str, part_value: int, whole: str, whole_value: int) -> int:
        """Return whole_value / part_value. Raises `MalformedFile` if the quotient is not an integer."""
        if whole_value % part_value:
            raise MalformedFile(
                f"`{part}` = {part_value} does not divide `{whole}` = {whole_value}; one of them is wrong.",
                **{part: part_value, whole: whole_value},
            )
        return whole_value // part_value

    def sparse_layers(self, n_layers: int) -> int:
        """Return the number of layers with experts: every `decoder_sparse_step`-th layer, except those in `mlp_only_layers`."""
        step = self.size("decoder_sparse_step", 1)
        layers: tuple[int, ...] = read_value(
            self.config.get("mlp_only_layers") or (),
            tuple[int, ...],
            self._where,
            "`mlp_only_layers`",
            refuse=refuse_file,
        )
        dense = sum(1 for i in set(layers) if 0 <= i < n_layers and (i + 1) % step == 0)
        return n_layers // step - dense
