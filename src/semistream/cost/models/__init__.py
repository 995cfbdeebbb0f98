"""One cost model per algorithm, and what they share."""

# ruff: noqa: F401  a model is known once its module was read

import semistream.cost.models.chybridjoin
import semistream.cost.models.cinlj
import semistream.cost.models.cmeshjoin
import semistream.cost.models.hybridjoin
import semistream.cost.models.inlj
import semistream.cost.models.meshjoin
import semistream.cost.models.ssbj
import semistream.cost.models.sweepjoin
