"""The kind ``peers``: our join beside what a user would write instead, in blocks that ``--only`` can choose."""

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import count
from typing import Any

from semistream.bench.framework.measurement import Measurement, check_least
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.peers.cold_reads import ColdReads
from semistream.bench.measurements.peers.load_time import LOADED, LoadTime
from semistream.bench.measurements.peers.own_algorithms import KEYS, OwnAlgorithm
from semistream.bench.measurements.peers.peer_times import PeerTimes
from semistream.bench.measurements.peers.plans import LMDB, LOOK_UPS, SPARK_PLANS
from semistream.bench.measurements.peers.wide_cases import WIDE_CASES
from semistream.bench.measurements.peers.wide_rows import WIDE_PLANS, WideRows
from semistream.bench.measurements.spark.plans import OURS
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.core.errors import InvalidArgument

__all__ = ["peer_measurements"]

_SALES_APART = 100_000_000  # between the sales of one place and those of the next
_WIDE_ROWS_APART = 2_000_000
_OWN_ROWS_APART = 20_000_000


def peer_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return load times, then the plans block by block, cold reads, and wide rows."""
    for name in (
        "batch_rows",
        "skews",
        "memory_rows",
        "memory_shares",
        "memory_batch_rows",
        "wide_batch_rows",
        "own_batch_rows",
    ):
        if not parameters[name] or min(parameters[name]) < 0:
            raise InvalidArgument(f"{name}={parameters[name]} must have values, none of them negative")
    check_least(parameters, rows=1000, short_rows=1000, larger_rows=1000, cold_rows=1000, most_ballast_bytes=0)
    if not 0 < parameters["cached_share"] <= 1:
        raise InvalidArgument(f"cached_share={parameters['cached_share']} must be above 0 and at most 1")
    own = {field.name: parameters[field.name] for field in fields(SparkSettings) if field.name in parameters}
    settings = SparkSettings(**own, skew=parameters["skews"][0])
    rows, typical = parameters["rows"], parameters["typical_batch_rows"]
    places = count()

    def times(group: str, plans: Mapping[str, tuple[str, float]], **place: Any) -> list[Measurement]:
        """Return all plans of a place, by the names of their series: with the plan and the share of memory."""
        shared: dict[str, Any] = {
            "group": group,
            "first_sale": next(places) * _SALES_APART,
            "missing_share": parameters["missing_share"],
            "cached_share": 1.0,
            "most_ballast_bytes": parameters["most_ballast_bytes"],
            **place,
        }
        skewed = replace(settings, skew=place.get("skew", settings.skew))
        shared.pop("skew", None)
        return [
            PeerTimes(series=series, plan=plan, settings=replace(skewed, memory_share=share), **shared)
            for series, (plan, share) in plans.items()
        ]

    def at_usual_memory(*plans: str) -> dict[str, tuple[str, float]]:
        return {plan: (plan, settings.memory_share) for plan in plans}

    found: list[Measurement] = [LoadTime(rows=rows, store=store, settings=settings) for store in LOADED]
    for skew in parameters["skews"]:
        group = f"resident, {rows:,} rows, Zipf {skew:g}"
        own_plans = (*LOOK_UPS, *SPARK_PLANS) if skew == settings.skew else LOOK_UPS
        for batch_rows in parameters["batch_rows"]:
            # Spark does not broadcast a table of this size, whatever the batch: once is enough to show it.
            plans = [plan for plan in own_plans if plan != "table broadcast" or batch_rows == typical]
            found += times(group, at_usual_memory(*plans), rows=rows, batch_rows=batch_rows, skew=skew)
    for table_rows in parameters["memory_rows"]:
        ours = {f"{OURS}, memory {100 * share:g}%": (OURS, share) for share in parameters["memory_shares"]}
        for batch_rows in parameters["memory_batch_rows"]:
            place = {"rows": table_rows, "batch_rows": batch_rows}
            found += times(f"memory, {table_rows:,} rows", {**ours, **at_usual_memory(LMDB)}, **place)
    short_rows, cached_share = parameters["short_rows"], parameters["cached_share"]
    short_plans = (*LOOK_UPS, *(plan for plan in SPARK_PLANS if plan != "table broadcast"))
    found += times(
        f"short of memory, {short_rows:,} rows, {cached_share:.0%} cached",
        at_usual_memory(*short_plans),
        rows=short_rows,
        batch_rows=typical,
        cached_share=cached_share,
    )
    larger_rows = parameters["larger_rows"]
    found += times(f"larger table, {larger_rows:,} rows", at_usual_memory(OURS), rows=larger_rows, batch_rows=typical)
    found.append(
        ColdReads(
            rows=parameters["cold_rows"],
            tuples=parameters["cold_tuples"],
            page_bytes=settings.page_bytes,
            memory_share=settings.memory_share,
            in_flight=parameters["in_flight"],
            repeats=parameters["cold_repeats"],
        )
    )
    for case in WIDE_CASES:
        for number, batch_rows in enumerate(parameters["wide_batch_rows"]):
            found += [
                WideRows(
                    case=case,
                    table_bytes=parameters["wide_bytes"],
                    batch_rows=batch_rows,
                    plan=plan,
                    first_row=number * _WIDE_ROWS_APART,
                    settings=settings,
                )
                for plan in WIDE_PLANS
            ]
    for key in KEYS:
        for skew in parameters["own_skews"]:
            for number, batch_rows in enumerate(parameters["own_batch_rows"]):
                found += [
                    OwnAlgorithm(
                        series=algorithm,
                        key=key,
                        rows=rows,
                        table_bytes=parameters["wide_bytes"],
                        batch_rows=batch_rows,
                        first_row=number * _OWN_ROWS_APART,
                        settings=replace(settings, skew=skew, measured_batches=parameters["own_measured_batches"]),
                    )
                    for algorithm in parameters["own_algorithms"]
                ]
    return found
