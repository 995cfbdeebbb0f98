"""Functions that run on executors, told apart from executors that cannot run them.

Spark pickles a function of an importable module by name. An executor without that module then fails while it unpickles,
with a message about pickling. What `on_executor` returns travels by value and uses nothing but the standard library
until it has made sure that the executor has this package, in the driver's version.
"""

import pickle
from collections.abc import Callable
from typing import Any

from semistream._version import __version__

__all__ = ["on_executor"]


def on_executor(module: str, function: str, config: object) -> Callable[..., Any]:
    """Return a callable for Spark that calls ``module.function(config, ...)`` on the executor.

    Parameters
    ----------
    module, function
        The name of a function at the top of a module of this package.
    config
        Its first argument: anything that pickles. It is unpickled after the checks, so its classes may come from
        this package. What Spark calls the callable with follows, for ``mapInArrow`` the iterator of batches.

    Raises
    ------
    ExecutorMismatch
        On the executor, when the package is missing there, cannot be imported, or has another version.
        `semistream.runtime.spark.job_errors` tells it on the driver as the library's own error of that name.
    """
    payload = pickle.dumps(config, protocol=pickle.HIGHEST_PROTOCOL)
    version = __version__

    # A function inside a function is pickled by value, as long as it refers to no name of this module.
    def call(*arguments: Any) -> Any:
        from importlib import import_module
        from pickle import loads
        from socket import gethostname

        class ExecutorMismatch(ImportError):
            """Stands for the library's own error of that name, which this executor may not have."""

        try:
            found = import_module("semistream").__version__
            target = getattr(import_module(module), function)
        except ImportError as error:
            where = f"the executor on {gethostname()}"
            if getattr(error, "name", None) == "semistream":
                message = f"semistream is not installed on {where}: install version {version} there"
            else:
                message = f"semistream cannot be imported on {where} ({error}): install it there with what it needs"
            raise ExecutorMismatch(message) from None
        if found != version:
            message = f"semistream {found} is on the executor on {gethostname()}, the driver has {version}: "
            raise ExecutorMismatch(message + "install the same version on both")
        return target(loads(payload), *arguments)

    return call
