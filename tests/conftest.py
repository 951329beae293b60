"""Settings that every test shares."""

import signal

import hypothesis
import torch

# A shared machine may stall for longer than any honest deadline; time is measured in benchmarks/.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.load_profile("default")

# Tiny tensors: threads wait for each other longer than they work.
torch.set_num_threads(1)

# A shell that starts the tests in the background has them ignore Ctrl-C, which what they start would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
