"""Networks whose weights are each UE's own: gradients and local descent of many UEs at once, written out by hand."""
