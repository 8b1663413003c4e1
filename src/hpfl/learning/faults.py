"""What learning refuses: a model, a loss or a setting that cannot be used, said so that its owner can mend it."""


class LearningError(ValueError):
    """A model, loss or setting that has no place in the gradient of one UE."""
