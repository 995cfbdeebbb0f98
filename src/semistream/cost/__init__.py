"""What a join costs before it runs: a model per operator, calibration, tuner and advisor."""

# ruff: noqa: F401  a model is known once its module was read

import semistream.cost.cmeshjoin
import semistream.cost.hybridjoin
import semistream.cost.inlj
import semistream.cost.meshjoin
import semistream.cost.ssbj
