-- Jobs that say which run to look at and when, and the workers that perform them.
-- One row a run is enough: a job only says "look at this run". Due times are by the lease clock.

CREATE TABLE calandria_jobs (
    run_id TEXT NOT NULL PRIMARY KEY,
    due REAL NOT NULL,
    due_boot TEXT NOT NULL
) WITHOUT ROWID;

-- due times are comparable within a boot; jobs of another one are all due
CREATE INDEX calandria_jobs_due ON calandria_jobs (due_boot, due, run_id);

CREATE TABLE calandria_workers (
    owner TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    process INTEGER NOT NULL,
    threads INTEGER NOT NULL,
    started_at REAL NOT NULL,
    seen_at REAL NOT NULL,
    running TEXT NOT NULL,
    performed INTEGER NOT NULL,
    draining INTEGER NOT NULL CHECK (draining = 0 OR draining = 1)
) WITHOUT ROWID;
