"""What a join costs before it runs: a model per algorithm, calibration and advice."""

import semistream.cost.models  # noqa: F401  a model is known once its module was read
