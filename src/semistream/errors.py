"""Every error that semistream raises on purpose, for ``except`` clauses.

Examples
--------
>>> import semistream as ss
>>> try:
...     ss.open_table("/no/such/folder")
... except ss.errors.TableNotFound as error:
...     print(error)
there is no master table at /no/such/folder: check the path, or stage one there
"""

from semistream.core.errors import *  # noqa: F403
from semistream.core.errors import __all__ as __all__
