"""How unevenly weather reports are spread over longitudes: measured once on real reports, kept as a few points.

Measured on the 481,462 reports that ships made at sea (RN-WW2 of oldWeather, Royal Navy logbooks of 1936 to 1955;
contains public sector information licensed under the Open Government Licence v2.0): the reports of each hundredth of a
degree, the most frequent first. Between the points the curve is straight on logarithmic scales; the shares of the most
frequent longitudes that follow from it are within half a per cent of all reports of those measured.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["LONGITUDES", "longitude_shares"]

LONGITUDES = 36_001
"""Values of the papers' domain, [0, 36000]: hundredths of a degree."""

_REPORTS_AT_RANK = {
    1: 880,
    2: 832,
    5: 590,
    10: 390,
    20: 310,
    50: 198,
    100: 150,
    200: 109,
    500: 74,
    1000: 54,
    2000: 41,
    5000: 26,
    10_000: 17,
    15_000: 11,
    20_000: 6,
    24_000: 3,
    27_000: 2,
    29_000: 1,
    31_228: 1,
}


def longitude_shares() -> npt.NDArray[np.float64]:
    """Return the shares of the longitudes in all reports, the largest first; the last 4,773 longitudes have none.

    Examples
    --------
    >>> shares = longitude_shares()
    >>> round(float(shares[0]), 4), round(float(shares[:1000].sum()), 2)
    (0.0018, 0.2)
    """
    known_ranks = np.array(list(_REPORTS_AT_RANK))
    known_reports = np.array(list(_REPORTS_AT_RANK.values()))
    ranks = np.arange(1, known_ranks[-1] + 1)
    shares = np.zeros(LONGITUDES)
    shares[: ranks.size] = np.exp(np.interp(np.log(ranks), np.log(known_ranks), np.log(known_reports)))
    shares /= shares.sum()
    return shares
