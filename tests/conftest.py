"""For all tests: one thread a process, as studies' workers have, so that what is compared was summed in one order."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
