"""Options of a part: a strict pydantic model of its own, and sentences for what does not fit it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Options(BaseModel):
    """What a part may be told: unknown keys, wrong types and non-finite numbers are refused; frozen once read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_default=True)


class OptionError(ValueError):
    """Options that the chosen part does not take; `place` is the option's name, empty where none is to blame."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def option(default: Any, meaning: str, *, unit: str = "", **bounds: Any) -> Any:
    """One option: its default, one line of meaning, its unit and its bounds."""
    return Field(default, description=meaning, json_schema_extra={"unit": unit}, **bounds)


def read_options(model: type | None, given: Mapping[str, Any], *, of: str) -> Any:
    """`given` as the part's own model; `OptionError` names the first option at fault and what was wanted."""
    if model is None:
        raise OptionError(f"{of} has no options; it was given {', '.join(given)}", next(iter(given), ""))
    assert issubclass(model, BaseModel)
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise _explained(error, model, of) from None


def _explained(error: ValidationError, model: type[BaseModel], of: str) -> OptionError:
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields) or "none"
        return OptionError(f"{of} has no option {place}; it has {known}", place)
    if fault["type"] == "missing":
        return OptionError(f"{of} needs its option {place}", place)
    said = fault["msg"].removeprefix("Value error, ")
    return OptionError(f"{of}: option {place} is {fault['input']!r}; {said}", place)
