"""The configuration of a model: the name of a family, with sizes and options that the family checks and completes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byheart.errors import UsageError

if TYPE_CHECKING:
    from byheart.measure.families.family import Family


@dataclass(frozen=True)
class ModelConfig:
    """One model to train: a family, its sizes (widths, heads, depths) and its options (variants)."""

    family: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SizeField:
    """A size of a model family, such as a width: a whole number of at least `least`. If it has no default, it must be given."""

    name: str
    default: int | None  # None means that it must be given
    least: int
    meaning: str


@dataclass(frozen=True)
class OptionField:
    """An option of a family. The first choice is the default.

    If `is_implied` is set, a configuration does not contain the option when the option has its default value. Options that were
    added later are implied, so that older runs keep their keys (hashes of their configurations).
    """

    name: str
    choices: tuple[str, ...]
    meaning: str
    is_implied: bool = False


def complete_model(family: Family, model: ModelConfig) -> ModelConfig:
    """Return `model` with defaults filled in, but without implied options that have their default value (see `OptionField`).

    Raise `UsageError` if a size or option is unknown, missing or not allowed.
    """
    sizes = {f.name: f.default for f in family.size_fields if f.default is not None} | dict(model.sizes)
    options = {o.name: o.choices[0] for o in family.option_fields} | dict(model.options)
    known = {f.name for f in family.size_fields} | {o.name for o in family.option_fields}

    def refuse(name: str, message: str) -> UsageError:
        given = {**sizes, **options, **model.sizes, **model.options}
        return UsageError(message, family=family.name, name=name, value=given.get(name))

    for name in [*model.sizes, *model.options]:
        if name not in known:
            names = ", ".join(sorted(known))
            raise refuse(
                name, f"family {family.name} has no size or option `{name}`.\n  Choose from: {names}."
            )
    for size in family.size_fields:
        if size.name in model.options:
            value: object = model.options[size.name]
            raise refuse(
                size.name,
                f"`{size.name}` of family {family.name} is a size, but {value!r} was given as an option.",
            )
    for option in family.option_fields:
        if option.name in model.sizes:
            wanted = f"is an option, one of {', '.join(option.choices)}"
            value = model.sizes[option.name]
            raise refuse(option.name, f"`{option.name}` of family {family.name} {wanted}; got {value!r}.")
    missing = [size for size in family.size_fields if sizes.get(size.name) is None]
    if missing:
        named = ", ".join(f"`{size.name}` ({size.meaning})" for size in missing)
        some = "the size" if len(missing) == 1 else "the sizes"
        raise UsageError(
            f"family {family.name} needs {some} {named}.",
            family=family.name,
            missing=[m.name for m in missing],
        )
    for size in family.size_fields:
        value = sizes[size.name]
        if isinstance(value, bool) or not isinstance(value, int) or value < size.least:
            wanted = f"must be a whole number of at least {size.least}"
            raise refuse(size.name, f"`{size.name}` of family {family.name} {wanted}; got {value!r}.")
    for option in family.option_fields:
        choice = options[option.name]
        if choice not in option.choices:
            wanted = f"must be one of {', '.join(option.choices)}"
            raise refuse(option.name, f"`{option.name}` of family {family.name} {wanted}; got {choice!r}.")
        if option.is_implied and choice == option.choices[0]:
            del options[option.name]
    return ModelConfig(model.family, dict(sorted(sizes.items())), dict(sorted(options.items())))
