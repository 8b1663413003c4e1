"""A study of other settings than the presets': every run of it with the same keys changed."""

import re
from collections.abc import Sequence
from dataclasses import replace

from hpfl.config import ConfigError, with_overrides
from hpfl.studies.cases import Scale, value_of
from hpfl.studies.study import Found, Study, nothing_more
from hpfl.sweeps.parts import StudyPart


def altered(study: Study, changes: Sequence[str]) -> Study:
    """The study with `section.key=value` applied to all its runs, which go into a folder of their own."""

    def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
        made = [_changed(part, changes) for part in study.parts(scale, seeds)]
        if len({(part.key, part.labels["seed"]) for part in made}) < len({part.name for part in made}):
            raise ConfigError(
                f"--set {' '.join(changes)} leaves runs of {study.name} alike: it varies such a key itself"
            )
        return made

    def then(scale: Scale, seeds: Sequence[int], found: Sequence[Found]) -> list[StudyPart]:
        return [_changed(part, changes) for part in study.then(scale, seeds, found)]

    return replace(study, parts=parts, then=nothing_more if study.then is nothing_more else then) if changes else study


def _changed(part: StudyPart, changes: Sequence[str]) -> StudyPart:
    config = with_overrides(part.config, changes)
    given = {text.partition("=")[0].strip().partition(".")[2]: text.partition("=")[0].strip() for text in changes}
    labels = {name: value_of(config, key) for name, key in given.items() if name in part.labels}
    folder = "_".join(re.sub(r"[^\w.=-]+", "-", text) for text in changes)
    return replace(
        part,
        name=f"{folder}/{part.name}",
        labels={**part.labels, **labels, "data": config.data.dataset},
        config=config,
    )
