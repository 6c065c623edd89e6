"""How far Spark's running jobs are, for people who wait for them."""

from __future__ import annotations

from pyspark import SparkContext

from tideline.wording import counted


def running_tasks() -> str | None:
    """Such as "12 of 200 tasks of Spark"; None when nothing runs, or nothing can be said.

    May be asked from any thread.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return None
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    except Exception:  # Spark may end at any moment, and this only reports on it.
        return None
    known = [stage for stage in stages if stage is not None]
    if not known:
        return None
    done = sum(stage.numCompletedTasks for stage in known)
    return f"{done:,} of {counted(sum(stage.numTasks for stage in known), 'task')} of Spark"
