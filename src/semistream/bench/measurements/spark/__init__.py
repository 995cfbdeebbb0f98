"""The benchmark of the pipeline on Spark: our join beside every plan that a skilled user could force."""
