"""Figure 4: loss and accuracy of HFL and HPFL under each selection of edges, on CIFAR-10."""

from hpfl.studies.selection import selection_study

STUDY = selection_study("fig4", "cifar10", "CIFAR-10: HPFL and HFL under each selection of edges")
