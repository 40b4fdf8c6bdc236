-- Runs, their journals, and the idempotency keys that outlive them.
-- The hot row of a run is small: what may be large (inputs, outcome) stands beside it, so that a
-- commit costs what it writes and not what the run once received.

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
    status TEXT NOT NULL CHECK (status IN (
        'pending', 'running', 'paused', 'rolling_back',
        'completed', 'failed', 'halted', 'cancelled', 'aborted')),
    rollback TEXT NOT NULL CHECK (rollback IN ('none', 'complete', 'incomplete')),
    rollback_trigger TEXT CHECK (rollback_trigger IN ('failure', 'undo')),
    end_status TEXT CHECK (end_status IN (
        'pending', 'running', 'paused', 'rolling_back',
        'completed', 'failed', 'halted', 'cancelled', 'aborted')),
    pending_compensation TEXT,
    waits_for TEXT,
    wake_at REAL,
    finished_at REAL,
    cancel_requested TEXT,
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    lease_owner TEXT,
    lease_boot TEXT,
    lease_expires REAL,
    last_sequence INTEGER NOT NULL,
    last_completed_order INTEGER NOT NULL,
    CHECK ((lease_owner IS NULL) = (lease_expires IS NULL))
) WITHOUT ROWID;

CREATE INDEX calandria_runs_listed ON calandria_runs (created_at, run_id)
    WHERE parent_id IS NULL;
CREATE INDEX calandria_runs_by_status ON calandria_runs (status, created_at, run_id)
    WHERE parent_id IS NULL;
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
      AND status IN ('completed', 'failed', 'halted', 'cancelled')
      AND rollback <> 'incomplete' AND pending_compensation IS NULL;

CREATE TABLE calandria_run_values (
    run_id TEXT NOT NULL PRIMARY KEY,
    inputs TEXT NOT NULL,
    outcome TEXT
) WITHOUT ROWID;

-- status and outcome are filled when the run is pruned; before that the run itself has them.
CREATE TABLE calandria_idempotency_keys (
    reactor TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    inputs_digest TEXT NOT NULL,
    status TEXT CHECK (status IN ('completed', 'failed', 'halted', 'cancelled')),
    outcome TEXT,
    PRIMARY KEY (reactor, idempotency_key)
) WITHOUT ROWID;

CREATE TABLE calandria_steps (
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    scope TEXT NOT NULL,
    position INTEGER NOT NULL,
    started_at REAL NOT NULL,
    status TEXT NOT NULL CHECK (status IN (
        'started', 'retrying', 'completed', 'skipped', 'halted', 'failed')),
    attempts INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    completed_order INTEGER,
    rollback TEXT NOT NULL CHECK (rollback IN (
        'none', 'compensating', 'compensated', 'compensate_failed',
        'undoing', 'undone', 'undo_failed')),
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
