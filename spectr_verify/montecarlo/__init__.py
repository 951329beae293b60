"""Monte Carlo evidence, on real models, that decoded text stays distributed as the target model."""

from spectr_verify.montecarlo.accepted import AcceptedLength
from spectr_verify.montecarlo.evidence import ALTERNATIVES, Evidence
from spectr_verify.montecarlo.faults import FAULTS, PlantedFault
from spectr_verify.montecarlo.first_token import FirstToken, first_token_test
from spectr_verify.montecarlo.report import EndToEnd, MonteCarloReport
from spectr_verify.montecarlo.run import Settings, monte_carlo, power
from spectr_verify.montecarlo.score import Reference

__all__ = [
    "ALTERNATIVES",
    "FAULTS",
    "AcceptedLength",
    "EndToEnd",
    "Evidence",
    "FirstToken",
    "MonteCarloReport",
    "PlantedFault",
    "Reference",
    "Settings",
    "first_token_test",
    "monte_carlo",
    "power",
]
