"""spectr-verify: acceptance rules for speculative decoding, proved, bounded, broken and cleared for deployment."""

__version__ = "0.1.0"
