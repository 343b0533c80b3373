"""MLflow. The server, or the local SQLite file, is what MLFLOW_TRACKING_URI names."""

import json
import re

from mlflow import MlflowClient

from gym_core.export.trackers.contract import TrackedRun

ID_TAG = "gym.id"
TABLE_FILE = "rollouts.json"
MAX_NAME = 250
MAX_PARAM = 6000
_TABLES_TAG = "mlflow.loggedArtifacts"
"""By it the page of a run finds its tables."""


class MlflowTracker:
    def log(self, run: TrackedRun) -> str:
        client = MlflowClient()
        run_id, is_new = _find_or_make(client, run)
        if is_new:  # a parameter can be written once
            for name, value in run.config.items():
                client.log_param(run_id, allowed_name(name), str(value)[:MAX_PARAM])
        for name, number in run.metrics.items():
            client.log_metric(run_id, allowed_name(name), number)
        columns = [column.name for column in run.table.columns]
        rows = list(run.table.rows())
        client.log_dict(run_id, {"columns": columns, "data": rows}, TABLE_FILE)
        client.set_tag(run_id, _TABLES_TAG, json.dumps([{"path": TABLE_FILE, "type": "table"}]))
        client.set_terminated(run_id)
        return f"run {run_id} of experiment {run.project!r} at {client.tracking_uri}"


def _find_or_make(client: MlflowClient, run: TrackedRun) -> tuple[str, bool]:
    """The id of the tracker's run, and whether it was made now."""
    experiment = client.get_experiment_by_name(run.project)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(run.project)
    found = client.search_runs([experiment_id], f"tags.`{ID_TAG}` = '{run.id}'")
    if found:
        return found[0].info.run_id, False
    tags = {ID_TAG: run.id, "gym.run_hash": run.run_hash}
    return client.create_run(experiment_id, run_name=run.name, tags=tags).info.run_id, True


def allowed_name(name: str) -> str:
    """A name of ours, or of a dataset's category, as MLflow takes it: it becomes a path there."""
    plain = re.sub(r"[^\w\-. /]", "_", name.replace("@", "_at_"), flags=re.ASCII)
    parts = [part for part in plain.split("/") if part.strip(". ")]
    return "/".join(parts)[:MAX_NAME] or "_"
