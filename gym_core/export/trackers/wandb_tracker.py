"""Weights & Biases. Where and as whom is its own business: WANDB_API_KEY, WANDB_ENTITY, WANDB_MODE=offline, ..."""

import itertools

import wandb

from gym_core.export.trackers.contract import TrackedRun

MAX_ROWS = 10_000
"""What a table of W&B holds."""


class WandbTracker:
    def log(self, run: TrackedRun) -> str:
        # Neither code, nor console, nor machine: a command line may hold a key.
        settings = wandb.Settings(
            console="off", disable_git=True, save_code=False, silent=True, x_disable_stats=True, x_disable_meta=True
        )
        logged = wandb.init(
            project=run.project,
            id=run.id,
            name=run.name,
            config=dict(run.config),
            resume="allow",
            job_type="evaluation",
            settings=settings,
        )
        try:
            logged.summary.update(dict(run.metrics))
            columns = [column.name for column in run.table.columns]
            rows = list(itertools.islice(run.table.rows(), MAX_ROWS))
            logged.log({"rollouts": wandb.Table(columns=columns, data=rows)})
            folder, url = logged.settings.sync_dir, logged.url
        except BaseException:
            logged.finish(exit_code=1)
            raise
        logged.finish()
        return url or f"{folder} (offline; `wandb sync` sends it)"
