"""Which engine computes a run, and what it makes of the samples beforehand."""

from collections.abc import Callable

from torch import Tensor

from hpfl.learning.batches import Batch, Samples
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.engine import Engine
from hpfl.learning.general import GeneralEngine
from hpfl.learning.method import Method
from hpfl.learning.objective import LocalTraining
from hpfl.learning.own.own_engine import OwnEngine
from hpfl.learning.packing import LITTLE_PADDING, MOST_PADDING
from hpfl.learning.precision import Products
from hpfl.learning.shared import ProductTable
from hpfl.learning.task import Task


def engine_for(
    task: Task, training: LocalTraining, samples: Samples, method: Method | None, *, layerwise: bool
) -> tuple[Engine, float]:
    """The engine, and the share of padding that suits it."""
    chain = ChainEngine.choose(task, training, samples) if layerwise and method is None else None
    own = OwnEngine.read(task, training, samples, method) if layerwise and _suits_own(training, method, chain) else None
    if own is not None:
        return own, LITTLE_PADDING
    if chain is None:
        return GeneralEngine.choose(task, training, samples.one_ue(2), method), LITTLE_PADDING
    return chain, MOST_PADDING if samples.inputs.is_cuda and chain.dense else LITTLE_PADDING


def _suits_own(training: LocalTraining, method: Method | None, chain: ChainEngine | None) -> bool:
    """Whether UEs are computed with weights of their own: methods are, and objectives whose steps are many or plain."""
    first_order = not training.adapts or training.objective == "first-order"
    return method is not None or (first_order and (training.in_epochs or chain is None))


def tabling(engine: Engine, training: LocalTraining, products: Products) -> ChainEngine | None:
    """What makes a table of samples that UEs share, if it is used: in full batches, by full products."""
    able = isinstance(engine, ChainEngine) and engine.shares and training.batch_size is None and products == "full"
    return engine if able and isinstance(engine, ChainEngine) else None


def gram(engine: Engine, training: LocalTraining) -> Callable[[Batch], Tensor] | None:
    """What makes the inner products of inputs, if they are used."""
    if not isinstance(engine, ChainEngine) or engine.gram_bias is None or not training.adapts:
        return None
    return engine.gram


def look_up(engine: Engine, table: ProductTable | None, params: Tensor) -> None:
    """Have the engine make what a table's rows are at these parameters, where there is a table."""
    if table is not None and isinstance(engine, ChainEngine):
        engine.look_up(params, table)
