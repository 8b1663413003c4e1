"""Options of the channels that have some."""

from typing import Annotated

from pydantic import AfterValidator

from hpfl.network.channel import FADINGS
from hpfl.options import Options, option


def _known(name: str) -> str:
    FADINGS.part(name)  # its error names the known ones
    return name


class FadingOptions(Options):
    """Options of channel `path-loss-and-fading`."""

    fading: Annotated[str, AfterValidator(_known)] = option("rayleigh", "small-scale fading: rayleigh, none")
