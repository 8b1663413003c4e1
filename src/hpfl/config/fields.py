"""The building blocks of a section: keys with a meaning and a unit, and distributions as TOML writes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from hpfl.network.distributions import Choice, Constant, Distribution, LogNormal, Uniform


class Section(BaseModel):
    """Strict: unknown keys and wrong types are refused, also when a field is assigned in Python."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_assignment=True, allow_inf_nan=False)
    section: ClassVar[str] = ""

    def __init__(self, **keys: Any) -> None:
        with self._told():
            super().__init__(**keys)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # so that validation does not come by here

    def __setattr__(self, name: str, value: Any) -> None:
        with self._told():
            super().__setattr__(name, value)

    @classmethod
    @contextmanager
    def _told(cls) -> Iterator[None]:
        """Have faults told as those of a file are."""
        try:
            yield
        except ValidationError as error:
            from hpfl.config.errors import from_validation  # which knows all sections

            raise from_validation(error, cls.section) from None


def key(default: Any, meaning: str, *, unit: str = "", since: int = 1, decides: bool = True, **bounds: Any) -> Any:
    """One configuration key: its default, one line of meaning, its unit and its bounds.

    A key that came `since` a later version than 1 changes no fingerprint while it has its default, for runs of the
    versions before were made with that. One that does not `decide` a run's numbers is no part of any.
    """
    told: Any = {"unit": unit, "since": since, "decides": decides}
    return Field(default, description=meaning, json_schema_extra=told, validate_default=True, **bounds)


def said_of(field: Any, name: str) -> Any:
    """What `key` was told of a field: its `unit`, `since` or `decides`."""
    return (field.json_schema_extra or {}).get(name, {"unit": "", "since": 1, "decides": True}[name])


class ChoiceSpec(Section):
    """Classes of devices: `{ choice = [1e9, 2e9], shares = [0.3, 0.7] }`."""

    choice: list[float] = Field(min_length=1)
    shares: list[Annotated[float, Field(gt=0)]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _as_many_shares(self) -> "ChoiceSpec":
        if self.shares and len(self.shares) != len(self.choice):
            raise ValueError(f"{len(self.choice)} values need as many shares, not {len(self.shares)}")
        return self


class LogNormalSpec(Section):
    """`{ lognormal = [median, sigma] }`, sigma in nepers."""

    lognormal: Annotated[list[float], Field(min_length=2, max_length=2)]


def _kind(value: Any) -> str | None:
    """Which of the four a value is meant as, so that what is wrong with it is said of that one alone."""
    if isinstance(value, dict):
        return next((name for name in ("choice", "lognormal") if name in value), None)
    kinds = ((ChoiceSpec, "choice"), (LogNormalSpec, "lognormal"), (list, "range"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "number")


DistributionSpec = Annotated[
    Annotated[float, Tag("number")]
    | Annotated[list[float], Field(min_length=2, max_length=2), Tag("range")]
    | Annotated[ChoiceSpec, Tag("choice")]
    | Annotated[LogNormalSpec, Tag("lognormal")],
    Discriminator(
        _kind,
        custom_error_type="distribution",
        custom_error_message="it should be a number, [low, high], { choice = [...], shares = [...] } or "
        "{ lognormal = [median, sigma] }",
    ),
]
"""A number (all alike), `[low, high]` (uniform), a choice or a log-normal."""


def distribution(spec: Any) -> Distribution:
    """The distribution a validated specification means."""
    if isinstance(spec, ChoiceSpec):
        return Choice(tuple(spec.choice), tuple(spec.shares or [1.0] * len(spec.choice)))
    if isinstance(spec, LogNormalSpec):
        return LogNormal(*spec.lognormal)
    if isinstance(spec, list):
        return Uniform(*spec)
    return Constant(float(spec))


def check_distribution(spec: Any, *, least: float, what: str) -> Any:
    """Refuse a distribution that is upside down or reaches below `least`."""
    if isinstance(spec, list) and spec[0] > spec[1]:
        raise ValueError(f"[low, high] needs low <= high, not {spec}")
    if isinstance(spec, LogNormalSpec) and (spec.lognormal[0] <= 0 or spec.lognormal[1] < 0):
        raise ValueError("lognormal = [median, sigma] needs a positive median and a sigma of at least 0")
    if distribution(spec).lowest < least or (least == 0 and distribution(spec).lowest <= 0):
        raise ValueError(f"{what} must be {'positive' if least == 0 else f'at least {least:g}'} everywhere")
    return spec


Auto = Literal["auto"]
