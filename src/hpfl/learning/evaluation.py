"""Figures of every UE by name: what an evaluation answers."""

from collections.abc import Iterator, Mapping

from hpfl.arrays import FloatArray


class Evaluation(Mapping[str, FloatArray]):
    """Per-UE figures [N] by name, as items and as attributes: `evaluation.meta_loss`.

    `loss` and `meta_loss` are f_i(w) and F_i(w) on the training shard; what follows are the columns of metrics, on the
    UE's own test samples: of its personal model, then of the one all share. They are NaN for a UE without test samples.
    """

    def __init__(self, columns: Mapping[str, FloatArray]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> FloatArray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getattr__(self, name: str) -> FloatArray:
        if name.startswith("_") or name not in self._columns:
            raise AttributeError(f"this evaluation has no {name!r}; it has {', '.join(self.__dict__['_columns'])}")
        return self._columns[name]
