"""Makes the generators of `semistream.workloads` known to a Spark session as data sources."""

from typing import TYPE_CHECKING

from semistream.runtime.spark.pyspark_version import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_sources"]


def register_sources(spark: "SparkSession") -> None:
    """Make the formats ``semistream-sales`` and ``semistream-products`` known to a Spark session.

    ``semistream-sales`` is a stream of sales with skewed keys and bursty arrivals, read with ``spark.readStream`` or
    ``spark.read``. ``semistream-products`` is the master table that its keys refer to, read with ``spark.read``. Both
    make their rows in Spark's tasks, from a seed; the same options give the same rows, however they are cut into
    partitions and micro-batches, and after a restart from a checkpoint. The options are listed in
    ``semistream.runtime.spark.sources``, ``sales_source`` and ``products_source``; an unknown one is an error that
    names all.

    Parameters
    ----------
    spark
        The session, classic or Spark Connect, of Spark 4.2 or newer.

    Examples
    --------
    ::

        ss.register_sources(spark)
        master = spark.read.format("semistream-products").option("rows", 1_000_000).load()
        sales = (
            spark.readStream.format("semistream-sales")
            .options(keyDomain=1_000_000, skew=1.0, rate=20_000, burstiness=0.6)
            .load()
        )
    """
    require_pyspark("semistream.register_sources")
    from semistream.runtime.spark.sources.products_source import ProductsSource
    from semistream.runtime.spark.sources.sales_source import SalesSource

    spark.dataSource.register(SalesSource)
    spark.dataSource.register(ProductsSource)
