"""The layer-wise engine: exact gradients of many UEs of a chain of layers, without per-UE weights where that pays."""
