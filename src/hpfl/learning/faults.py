"""What learning refuses: a model, a loss or a setting that cannot be used, said so that its owner can mend it."""


class LearningError(ValueError):
    """A model, loss or setting that has no place in the gradient of one UE."""


class NonFiniteUpdateError(ArithmeticError):
    """A gradient that is not a number, which must never reach a model or a plan."""
