"""Two depths of property tests: `make test` runs the profile quick, `make test-all` the profile deep."""

import os

from hypothesis import HealthCheck, settings

_SHARED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}

settings.register_profile("quick", max_examples=15, **_SHARED)
settings.register_profile("deep", max_examples=100, **_SHARED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
