"""A part's own options: the base of their models, how what was written is read into one, and what is said of faults."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Options(BaseModel):
    """Options of a part: strict, and fixed once they are read. Each has a default, bounds and a line of meaning."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Fault(NamedTuple):
    """What is wrong with one option: where below the table (`.gamma`), and ` is -1; it should be greater than 0`."""

    where: str
    said: str


class OptionError(ValueError):
    """Options that a part does not take, told one by one in `faults`."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{fault.where.lstrip('.')}{fault.said}" for fault in self.faults))


def option(default: Any, meaning: str, *, unit: str = "", **bounds: Any) -> Any:
    """One option: its default, one line of meaning, its unit and its bounds."""
    return Field(default, description=meaning, json_schema_extra={"unit": unit}, validate_default=True, **bounds)


def read_options(model: type[BaseModel] | None, given: Mapping[str, Any], *, of: str) -> BaseModel | None:
    """The options `of` a part (`planner joint`) as its model has them; None for a part without options."""
    known = {} if model is None else model.model_fields
    strange = [name for name in given if name not in known]
    if strange and not _takes_any(model):
        raise OptionError(Fault(f".{name}", _unknown(of, known)) for name in strange)
    if model is None:
        return None
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise OptionError(_fault(fault, of) for fault in error.errors()) from None


def sentence(fault: Any) -> str:
    """What pydantic has to say of one value, in our words."""
    text: str = fault["msg"].removeprefix("Value error, ")
    return text.replace("Input should be", "it should be").replace("a valid number", "a number")


def shown(value: Any) -> str:
    """A value as it is told in a refusal."""
    return repr(value) if isinstance(value, str) else str(value)


def _takes_any(model: type[BaseModel] | None) -> bool:
    return model is not None and model.model_config.get("extra") == "allow"


def _unknown(of: str, known: Iterable[str]) -> str:
    names = ", ".join(known)
    return f" is not an option of {of}; it has {names}" if names else f" is not an option; {of} has no options"


def _fault(fault: Any, of: str) -> Fault:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    if fault["type"] == "missing":
        return Fault(where, f" is not given; {of} needs it")
    return Fault(where, f" is {shown(fault['input'])}; {sentence(fault)}" if where else f": {sentence(fault)}")
