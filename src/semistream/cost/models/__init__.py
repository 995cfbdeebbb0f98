"""One cost model per algorithm, and what they share.

Symbols of all models
---------------------
==========  ==============================  ======================================================
papers      here                            unit
==========  ==============================  ======================================================
``M``       ``memory_bytes``                bytes
``b``       ``settings["b"]``               pages per iteration
``w``       ``loop.tuples``                 stream tuples per iteration, of which the cache
``wN, wS``  ``loop.cached_tuples``,         answers wN (S2: w_F), and the disk phase wS (S2: w_B)
            ``loop.disk_tuples``
``h``       ``loop.cache_share``            share of tuples that the cache answers, wN / w
``hS``      ``window_tuples``               stream tuples that wait at most
``c_loop``  ``loop_s``                      seconds; its counts are in a `Loop`, factors in a `Clock`
``mu``      ``tuples_per_s``                tuples per second that are answered, of a `Prediction`
``lambda``  ``arrivals_per_s``              tuples per second that arrive
==========  ==============================  ======================================================

A model's own symbols, its equations and its deviations from a paper are in its module.
"""

from semistream.cost.model import CostModel, register_model
from semistream.cost.models import chybridjoin, cinlj, cmeshjoin, hybridjoin, inlj, meshjoin, ssbj, sweepjoin

__all__ = ["chybridjoin", "cinlj", "cmeshjoin", "hybridjoin", "inlj", "meshjoin", "ssbj", "sweepjoin"]

for _model in (chybridjoin, cinlj, cmeshjoin, hybridjoin, inlj, meshjoin, ssbj, sweepjoin):
    register_model(CostModel(_model.__name__.rpartition(".")[2], _model.plan, _model.settings_to_try))
