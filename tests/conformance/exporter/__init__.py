"""Exports the conformance data: programs and operator cases with expected values from eager PyTorch."""
