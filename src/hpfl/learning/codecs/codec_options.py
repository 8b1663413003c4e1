"""The options of codecs, apart from them: models are also trained where pydantic is not installed."""

from typing import Literal

from pydantic import model_validator

from hpfl.options import Options, option


class TernaryOptions(Options):
    """How far a scale reaches."""

    bucket: int = option(512, "numbers that share a scale of 32 bits", ge=1)


class RoundingOptions(TernaryOptions):
    """How fine numbers are rounded."""

    bits: Literal[2, 4, 8] = option(8, "bits of a number", unit="bit")


class SparseOptions(Options):
    """How many numbers are sent."""

    share: float = option(0.01, "share of the numbers that is sent, at least one", gt=0, le=1)
    k: int | None = option(None, "how many numbers are sent, in place of a share", ge=1)

    @model_validator(mode="after")
    def _one_of_them(self) -> "SparseOptions":
        if self.k is not None and "share" in self.model_fields_set:
            raise ValueError(f"share is {self.share} and k is {self.k}; give one of them")
        return self
