"""Other packages' speculative decoding as functions to audit, one module a package."""
