"""The join algorithms, one file each."""

from semistream.operators.hybridjoin import Hybridjoin, HybridjoinConfig
from semistream.operators.inlj import Inlj, InljConfig
from semistream.operators.meshjoin import Meshjoin, MeshjoinConfig
from semistream.operators.registry import algorithm, algorithm_names

__all__ = [
    "Hybridjoin",
    "HybridjoinConfig",
    "Inlj",
    "InljConfig",
    "Meshjoin",
    "MeshjoinConfig",
    "algorithm",
    "algorithm_names",
]
