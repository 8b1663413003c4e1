"""Figure 3: loss and accuracy of HFL and HPFL under each selection of edges, on MNIST."""

from hpfl.studies.selection import selection_study

STUDY = selection_study("fig3", "mnist", "MNIST: HPFL and HFL under each selection of edges")
