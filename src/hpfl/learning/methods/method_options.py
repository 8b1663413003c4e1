"""The options of methods, apart from them: models are also trained where pydantic is not installed."""

from typing import Literal

from hpfl.options import Options, option

_RATE = "learning rate of {}; none: learning.outer_lr"


class SgdOptions(Options):
    """Of the local SGD."""

    momentum: float = option(0.0, "momentum of the local steps", ge=0, lt=1)
    weight_decay: float = option(0.0, "weight decay of the local steps", ge=0)


class FineTunedOptions(SgdOptions):
    """FedAvg, fine-tuned at evaluation."""

    finetune_steps: int = option(10, "full-batch steps of the fine-tuning", ge=0)
    finetune_lr: float | None = option(None, _RATE.format("the fine-tuning"), gt=0)


class FedProxOptions(SgdOptions):
    """FedProx."""

    mu: float = option(1.0, "weight of the proximal term, mu", ge=0)


class PFedMeOptions(Options):
    """pFedMe."""

    penalty: float = option(15.0, "lambda: how near the personal model stays", gt=0)
    inner_steps: int = option(5, "K: gradient steps towards each personal model", ge=1)
    personal_lr: float = option(0.1, "learning rate of these steps", gt=0)
    local_lr: float | None = option(0.005, "eta: learning rate of the local model; none: learning.outer_lr", gt=0)
    server_mix: float = option(1.0, "beta: share of the UEs' mean in the new model", gt=0)


class DittoOptions(SgdOptions):
    """Ditto."""

    penalty: float = option(1.0, "lambda: how near the personal model stays", ge=0)
    personal_lr: float | None = option(None, _RATE.format("the personal model"), gt=0)


class ApflOptions(Options):
    """APFL."""

    alpha: float = option(0.5, "share of the private model in the mixture, at first", ge=0, le=1)
    adaptive: bool = option(True, "whether the share is learnt, once a round")


class HeadOptions(SgdOptions):
    """FedPer."""

    head: list[str] = option([], "layers that a UE keeps, by name; none: the last one")


class FedRepOptions(HeadOptions):
    """FedRep."""

    momentum: float = option(0.5, "momentum of the local steps", ge=0, lt=1)
    head_passes: int = option(
        10, "passes over the local steps that train the head, before one that trains the body", ge=1
    )


class FedBabuOptions(HeadOptions):
    """FedBABU."""

    momentum: float = option(0.9, "momentum of the local steps", ge=0, lt=1)
    head: list[str] = option([], "layers that are never trained together, by name; none: the last one")
    finetune: Literal["all", "body", "head"] = option("all", "what the fine-tuning at evaluation trains")
    finetune_steps: int = option(5, "full-batch steps of the fine-tuning", ge=0)
    finetune_lr: float | None = option(None, _RATE.format("the fine-tuning"), gt=0)


class FedAlaOptions(SgdOptions):
    """FedALA."""

    layers: list[str] = option([], "layers whose weights are learnt, by name; none: the last one (p = 1)")
    weight_lr: float = option(1.0, "eta: learning rate of these weights", gt=0)
    first_passes: int = option(10, "passes over the local steps when a UE first learns its weights; later one", ge=1)


class ScaffoldOptions(Options):
    """SCAFFOLD."""

    control: Literal["gradient", "difference"] = option(
        "difference", "a UE's new control variate: its gradient at the model (option I), or its mean step (option II)"
    )
