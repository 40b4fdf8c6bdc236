-- Runs, their journals, and the idempotency keys that outlive them.
-- The hot row of a run is small: what may be large (inputs, outcome) stands beside it, so that a
-- commit costs what it writes and not what the run once received. The checks are chains of OR,
-- not lists: SQLite builds a temporary index for a list each time it checks a row.

CREATE TABLE calandria_runs (
    run_id TEXT NOT NULL PRIMARY KEY,
    reactor TEXT NOT NULL,
    shape TEXT NOT NULL,
    root_id TEXT NOT NULL,
    parent_id TEXT,
    parent_path TEXT,
    idempotency_key TEXT,
    inputs_digest TEXT,
    correlation_id TEXT,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    status TEXT NOT NULL CHECK (
        status = 'pending' OR status = 'running' OR status = 'paused' OR status = 'rolling_back'
        OR status = 'completed' OR status = 'failed' OR status = 'halted'
        OR status = 'cancelled' OR status = 'aborted'),
    rollback TEXT NOT NULL CHECK (
        rollback = 'none' OR rollback = 'complete' OR rollback = 'incomplete'),
    rollback_trigger TEXT CHECK (rollback_trigger = 'failure' OR rollback_trigger = 'undo'),
    end_status TEXT CHECK (
        end_status IS NULL
        OR end_status = 'pending' OR end_status = 'running' OR end_status = 'paused'
        OR end_status = 'rolling_back' OR end_status = 'completed' OR end_status = 'failed'
        OR end_status = 'halted' OR end_status = 'cancelled' OR end_status = 'aborted'),
    pending_compensation TEXT,
    waits_for TEXT,
    wake_at REAL,
    finished_at REAL,
    cancel_requested TEXT,
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    lease_owner TEXT,
    lease_boot TEXT,
    lease_expires REAL,
    CHECK ((lease_owner IS NULL) = (lease_expires IS NULL))
) WITHOUT ROWID;

CREATE INDEX calandria_runs_listed ON calandria_runs (created_at, run_id)
    WHERE parent_id IS NULL;
-- for listings of top-level runs, and for the sweep, which looks at all that have not ended
CREATE INDEX calandria_runs_by_status ON calandria_runs (status, parent_id, created_at, run_id);
CREATE INDEX calandria_runs_by_reactor ON calandria_runs (reactor, created_at, run_id)
    WHERE parent_id IS NULL;
CREATE INDEX calandria_runs_by_key ON calandria_runs (idempotency_key, created_at, run_id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX calandria_runs_by_correlation ON calandria_runs (correlation_id, created_at, run_id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX calandria_runs_by_parent ON calandria_runs (parent_id, created_at, run_id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX calandria_runs_by_root ON calandria_runs (root_id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX calandria_runs_needing_attention ON calandria_runs (created_at, run_id)
    WHERE rollback = 'incomplete' OR status = 'aborted' OR pending_compensation IS NOT NULL;
CREATE INDEX calandria_runs_prunable ON calandria_runs (finished_at, run_id)
    WHERE parent_id IS NULL AND finished_at IS NOT NULL
      AND status <> 'pending' AND status <> 'running' AND status <> 'paused'
      AND status <> 'rolling_back' AND status <> 'aborted'
      AND rollback <> 'incomplete' AND pending_compensation IS NULL;

CREATE TABLE calandria_run_values (
    run_id TEXT NOT NULL PRIMARY KEY,
    inputs TEXT NOT NULL,
    outcome TEXT,
    outline TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

-- status and outcome are filled when the run is pruned; before that the run itself has them.
CREATE TABLE calandria_idempotency_keys (
    reactor TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    inputs_digest TEXT NOT NULL,
    status TEXT CHECK (
        status = 'completed' OR status = 'failed' OR status = 'halted' OR status = 'cancelled'),
    outcome TEXT,
    PRIMARY KEY (reactor, idempotency_key)
) WITHOUT ROWID;

CREATE TABLE calandria_steps (
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    scope TEXT NOT NULL,
    position INTEGER NOT NULL,
    started_at REAL NOT NULL,
    status TEXT NOT NULL CHECK (
        status = 'started' OR status = 'retrying' OR status = 'completed' OR status = 'skipped'
        OR status = 'halted' OR status = 'failed'),
    attempts INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    completed_order INTEGER,
    rollback TEXT NOT NULL CHECK (
        rollback = 'none' OR rollback = 'compensating' OR rollback = 'compensated'
        OR rollback = 'compensate_failed' OR rollback = 'undoing' OR rollback = 'undone'
        OR rollback = 'undo_failed'),
    rollback_attempts INTEGER NOT NULL,
    due_at REAL,
    nested INTEGER NOT NULL CHECK (nested IN (0, 1)),
    finished_at REAL,
    inputs TEXT,
    result TEXT,
    error TEXT,
    rollback_error TEXT,
    PRIMARY KEY (run_id, path)
) WITHOUT ROWID;

CREATE INDEX calandria_steps_in_scope ON calandria_steps (run_id, scope, position);

CREATE TABLE calandria_events (
    run_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    path TEXT,
    data TEXT,
    PRIMARY KEY (run_id, sequence)
) WITHOUT ROWID;
