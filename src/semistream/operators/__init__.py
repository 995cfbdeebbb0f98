"""The join algorithms, one file each."""

from semistream.operators.chybridjoin import Chybridjoin, ChybridjoinConfig
from semistream.operators.cinlj import Cinlj, CinljConfig
from semistream.operators.cmeshjoin import Cmeshjoin, CmeshjoinConfig
from semistream.operators.hybridjoin import Hybridjoin, HybridjoinConfig
from semistream.operators.inlj import Inlj, InljConfig
from semistream.operators.meshjoin import Meshjoin, MeshjoinConfig
from semistream.operators.registry import algorithm, algorithm_names, register
from semistream.operators.shedding.load_shedding import SheddingConfig
from semistream.operators.ssbj import PartitionSsbj, ScanningSsbj, SsbjConfig
from semistream.operators.sweepjoin import Sweepjoin, SweepjoinConfig

__all__ = [
    "Chybridjoin",
    "ChybridjoinConfig",
    "Cinlj",
    "CinljConfig",
    "Cmeshjoin",
    "CmeshjoinConfig",
    "Hybridjoin",
    "HybridjoinConfig",
    "Inlj",
    "InljConfig",
    "Meshjoin",
    "MeshjoinConfig",
    "PartitionSsbj",
    "ScanningSsbj",
    "SheddingConfig",
    "SsbjConfig",
    "Sweepjoin",
    "SweepjoinConfig",
    "algorithm",
    "algorithm_names",
    "register",
]
