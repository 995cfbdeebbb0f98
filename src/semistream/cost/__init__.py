"""What a join costs before it runs: a model per operator, calibration, tuner and advisor."""

import semistream.cost.hybridjoin
import semistream.cost.inlj
import semistream.cost.meshjoin  # noqa: F401  a model is known once its module was read
