"""Other packages' speculative decoding as functions to audit, and a pair of models from one, one module a package."""
