-- Who holds which key, how often work started under one, where marks were left, whose turn it is.
-- Expiry is by the lease clock; windows, marks and times shown to people are by the wall clock.

CREATE TABLE calandria_holds (
    hold_key TEXT NOT NULL,
    execution TEXT NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind = 'lock' OR kind = 'semaphore'),
    label TEXT NOT NULL,
    nested INTEGER NOT NULL CHECK (nested = 0 OR nested = 1),
    token INTEGER NOT NULL,
    acquired_at REAL NOT NULL,
    expires REAL NOT NULL,
    expires_boot TEXT NOT NULL,
    PRIMARY KEY (hold_key, execution, path)
) WITHOUT ROWID;

CREATE INDEX calandria_holds_by_execution ON calandria_holds (execution, path);

-- The last fencing token of each key; it outlives the holds.
CREATE TABLE calandria_fences (
    hold_key TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE calandria_windows (
    rate_key TEXT NOT NULL,
    seconds INTEGER NOT NULL,
    place INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (rate_key, seconds)
) WITHOUT ROWID;

CREATE TABLE calandria_marks (
    period_key TEXT NOT NULL,
    bucket TEXT NOT NULL,
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    marked_at REAL NOT NULL,
    over_at REAL NOT NULL,
    PRIMARY KEY (period_key, bucket)
) WITHOUT ROWID;

CREATE INDEX calandria_marks_by_run ON calandria_marks (run_id, path);

CREATE TABLE calandria_sequences (
    sequence_key TEXT NOT NULL PRIMARY KEY,
    next_position INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE calandria_positions (
    sequence_key TEXT NOT NULL,
    position INTEGER NOT NULL,
    execution TEXT NOT NULL,
    path TEXT NOT NULL,
    label TEXT NOT NULL,
    state TEXT NOT NULL CHECK (
        state = 'waiting' OR state = 'active' OR state = 'done' OR state = 'failed'
        OR state = 'stale'),
    seen REAL NOT NULL,
    seen_boot TEXT NOT NULL,
    PRIMARY KEY (sequence_key, position)
) WITHOUT ROWID;

CREATE UNIQUE INDEX calandria_positions_by_execution
    ON calandria_positions (execution, path, sequence_key);

CREATE TABLE calandria_waiters (
    run_id TEXT NOT NULL,
    wait_key TEXT NOT NULL,
    label TEXT NOT NULL,
    since REAL NOT NULL,
    tries INTEGER NOT NULL,
    PRIMARY KEY (run_id, wait_key)
) WITHOUT ROWID;

CREATE INDEX calandria_waiters_by_key ON calandria_waiters (wait_key, since, run_id);
