"""The same joins through Spark Connect, in a process of its own: a session is classic or Connect, not both."""

import os
import subprocess
import sys
from pathlib import Path

from tests.spark.joins import orders, staged, write_files

_PROGRAM = """
import sys
from collections import Counter
from pathlib import Path
from pyspark.sql import SparkSession
import semistream as ss
from tests.spark.joins import customers

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
source = spark.read.parquet(f"{folder}/orders")
master = spark.createDataFrame(customers().select(["custkey", "name"]))
theirs = Counter((row["order"], row["name"]) for row in source.join(master, "custkey", "left").collect())
for layout, exchange in (("heap", "bucket"), ("clustered", "none")):
    table = f"{folder}/customers-{layout}"
    joined = ss.join(source, table, "custkey", "left", columns=["name"], exchange=exchange, memory="48MB")
    ours = Counter((row["order"], row["name"]) for row in joined.collect())
    assert ours == theirs, (layout, exchange)
    assert ss.metrics(joined).tuples_in == 300, ss.metrics(joined)
stream = spark.readStream.schema(source.schema).option("maxFilesPerTrigger", 2).parquet(f"{folder}/orders")
joined = stream.transform(ss.enrich(table, "custkey", "left", memory="48MB"))
query = (
    joined.writeStream.format("parquet")
    .option("path", f"{folder}/out")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
assert spark.read.parquet(f"{folder}/out").count() == sum(theirs.values())
counted = [found for p in query.recentProgress if (found := ss.JoinMetrics.from_progress(p))]
assert sum(metrics.tuples_in for metrics in counted) == 300, query.recentProgress
assert {metrics.version for metrics in counted} == {1}
assert len(list(Path(table).glob(f"_pins/{query.id}/*"))) == 2
print("all good", len(counted))
spark.stop()
"""


def test_batch_and_streaming_joins_on_spark_connect(tmp_path: Path) -> None:
    for layout in ("heap", "clustered"):
        staged(tmp_path, layout)
    write_files(orders(300), tmp_path / "orders", files=4)
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    root = Path(__file__).parents[2]
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",  # the server takes any free port
    }
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "all good 2" in done.stdout
