-- Every statement the run store sends, under a name, each after one line that says what it is for.
-- {name} stands for the text of another statement. Two parameters belong to the lease clock:
-- :clock_now and :clock_boot. On SQLite they are values; a server's dialect writes its own clock
-- in their place.

-- name: reserve_key
-- Claim an idempotency key for a run; changes nothing if the reactor has used it before.
INSERT INTO calandria_idempotency_keys (reactor, idempotency_key, run_id, inputs_digest)
VALUES (:reactor, :idempotency_key, :run_id, coalesce(:inputs_digest, ''))
ON CONFLICT (reactor, idempotency_key) DO NOTHING

-- name: find_key
-- What is known of an idempotency key, its run pruned or not.
SELECT k.run_id, k.inputs_digest, coalesce(r.status, k.status), k.outcome
FROM calandria_idempotency_keys AS k LEFT JOIN calandria_runs AS r ON r.run_id = k.run_id
WHERE k.reactor = :reactor AND k.idempotency_key = :idempotency_key

-- name: insert_run
-- Create a run; with an owner, under a lease.
INSERT INTO calandria_runs (
    run_id, reactor, shape, root_id, parent_id, parent_path,
    idempotency_key, inputs_digest, correlation_id, created_at, updated_at,
    status, rollback, rollback_trigger, end_status, pending_compensation,
    waits_for, wake_at, finished_at,
    epoch, lease_owner, lease_boot, lease_expires)
VALUES (
    :run_id, :reactor, :shape, :root_id, :parent_id, :parent_path,
    :idempotency_key, :inputs_digest, :correlation_id, :created_at, :now,
    :status, :rollback, :trigger, :end_status, :pending_compensation,
    :waits_for, :wake_at, :finished_at,
    :epoch, :owner,
    CASE WHEN :owner IS NULL THEN NULL ELSE :clock_boot END,
    CASE WHEN :owner IS NULL THEN NULL ELSE :clock_now + :ttl END)

-- name: insert_run_values
-- The values of a new run that may be large.
INSERT INTO calandria_run_values (run_id, inputs, outcome, outline)
VALUES (:run_id, :inputs, :outcome, :outline)

-- name: fence
-- Fence a commit that leaves the run's row as it is: no row means the lease is stale.
SELECT cancel_requested FROM calandria_runs WHERE run_id = :run_id AND epoch = :epoch

-- name: release_lease
-- Give a lease back, the header left as it is.
UPDATE calandria_runs SET
    updated_at = :now,
    lease_owner = NULL,
    lease_boot = NULL,
    lease_expires = NULL
WHERE run_id = :run_id AND epoch = :epoch

-- name: write_header
-- Replace what no index holds of the header.
UPDATE calandria_runs SET
    updated_at = :now,
    lease_owner = CASE WHEN :release THEN NULL ELSE lease_owner END,
    lease_boot = CASE WHEN :release THEN NULL ELSE lease_boot END,
    lease_expires = CASE WHEN :release THEN NULL ELSE lease_expires END,
    rollback_trigger = :trigger,
    end_status = :end_status,
    waits_for = :waits_for,
    wake_at = :wake_at,
    cancel_requested = CASE WHEN :ended THEN NULL ELSE cancel_requested END
WHERE run_id = :run_id AND epoch = :epoch

-- name: write_standing
-- Replace what indexes hold of the header, only if it differs: most headers leave it as it is.
UPDATE calandria_runs SET
    status = :status,
    rollback = :rollback,
    pending_compensation = :pending_compensation,
    finished_at = :finished_at
WHERE run_id = :run_id AND (
    status <> :status OR rollback <> :rollback
    OR pending_compensation IS NOT :pending_compensation OR finished_at IS NOT :finished_at)

-- name: write_outcome
-- Replace the outcome of a run, only if it differs.
UPDATE calandria_run_values SET outcome = :outcome
WHERE run_id = :run_id AND outcome IS NOT :outcome

-- name: write_step
-- Write a step's record whole, over one with the same path.
INSERT INTO calandria_steps (
    run_id, path, scope, position, started_at, status, attempts, recoveries, completed_order,
    rollback, rollback_attempts, due_at, nested, finished_at, inputs, result, error, rollback_error)
VALUES (
    :run_id, :path, :scope, :position, :started_at, :status, :attempts, :recoveries,
    :completed_order, :rollback, :rollback_attempts, :due_at, :nested, :finished_at, :inputs,
    :result, :error, :rollback_error)
ON CONFLICT (run_id, path) DO UPDATE SET
    scope = excluded.scope,
    position = excluded.position,
    started_at = excluded.started_at,
    status = excluded.status,
    attempts = excluded.attempts,
    recoveries = excluded.recoveries,
    completed_order = excluded.completed_order,
    rollback = excluded.rollback,
    rollback_attempts = excluded.rollback_attempts,
    due_at = excluded.due_at,
    nested = excluded.nested,
    finished_at = excluded.finished_at,
    inputs = excluded.inputs,
    result = excluded.result,
    error = excluded.error,
    rollback_error = excluded.rollback_error

-- name: update_step
-- Change a recorded step; a value that is not given stays.
UPDATE calandria_steps SET
    status = :status,
    attempts = :attempts,
    recoveries = :recoveries,
    completed_order = :completed_order,
    rollback = :rollback,
    rollback_attempts = :rollback_attempts,
    due_at = :due_at,
    nested = :nested,
    finished_at = :finished_at,
    result = coalesce(:result, result),
    error = coalesce(:error, error),
    rollback_error = coalesce(:rollback_error, rollback_error)
WHERE run_id = :run_id AND path = :path

-- name: append_event
-- Add one line to a run's trace.
INSERT INTO calandria_events (run_id, sequence, at, kind, path, data)
VALUES (:run_id, :sequence, :at, :kind, :path, :data)

-- name: lease_owner
-- Who has a run's lease, live or lapsed.
SELECT lease_owner FROM calandria_runs WHERE run_id = :run_id

-- name: take_lease
-- Take a lease that is free, has lapsed, or was written under another boot; no row means it is not.
UPDATE calandria_runs SET
    epoch = epoch + 1,
    lease_owner = :owner,
    lease_boot = :clock_boot,
    lease_expires = :clock_now + :ttl
WHERE run_id = :run_id AND (
    lease_owner IS NULL OR lease_boot <> :clock_boot OR lease_expires <= :clock_now)
RETURNING epoch, coalesce(
    (SELECT max(sequence) FROM calandria_events WHERE run_id = :run_id), 0)

-- name: renew_lease
-- Extend a lease; no row means it is lost.
UPDATE calandria_runs SET lease_boot = :clock_boot, lease_expires = :clock_now + :ttl
WHERE run_id = :run_id AND epoch = :epoch AND lease_owner = :owner
RETURNING cancel_requested

-- name: select_runs
-- The columns of a stored run, in the order they are read in.
SELECT r.run_id, r.reactor, r.shape, v.inputs, r.created_at, r.root_id, r.parent_id, r.parent_path,
    r.idempotency_key, r.inputs_digest, r.correlation_id,
    r.status, r.rollback, r.rollback_trigger, r.end_status, v.outcome, r.pending_compensation,
    r.waits_for, r.wake_at, r.finished_at,
    r.epoch, r.lease_owner,
    r.lease_owner IS NOT NULL AND r.lease_boot = :clock_boot AND r.lease_expires > :clock_now,
    r.cancel_requested,
    max(r.updated_at, coalesce(
        (SELECT e.at FROM calandria_events AS e
            WHERE e.run_id = r.run_id ORDER BY e.sequence DESC LIMIT 1),
        r.updated_at)),
    v.outline
FROM calandria_runs AS r JOIN calandria_run_values AS v ON v.run_id = r.run_id

-- name: load_run
-- One run.
{select_runs}
WHERE r.run_id = :run_id

-- name: request_cancel
-- Note that a run is to be cancelled, unless it is over or rolling back; the first reason stays.
UPDATE calandria_runs SET cancel_requested = coalesce(cancel_requested, :reason)
WHERE run_id = :run_id AND status IN ('pending', 'running', 'paused')

-- name: select_steps
-- The columns of a step's record, in the order they are read in.
SELECT path, scope, position, inputs, started_at, status, attempts, recoveries, completed_order,
    result, error, rollback, rollback_attempts, rollback_error, due_at, nested,
    finished_at
FROM calandria_steps

-- name: read_step
-- One step.
{select_steps}
WHERE run_id = :run_id AND path = :path

-- name: read_steps
-- Steps of one scope between two positions, by position.
{select_steps}
WHERE run_id = :run_id AND scope = :scope AND position > :after AND position < :before
ORDER BY position, path LIMIT :limit

-- name: read_steps_descending
-- Steps of one scope between two positions, highest position first.
{select_steps}
WHERE run_id = :run_id AND scope = :scope AND position > :after AND position < :before
ORDER BY position DESC, path DESC LIMIT :limit

-- name: read_steps_with_status
-- Steps of one scope and of the statuses named in a JSON array, by position.
{select_steps}
WHERE run_id = :run_id AND scope = :scope AND position > :after AND position < :before
    AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY position, path LIMIT :limit

-- name: read_steps_with_status_descending
-- Steps of one scope and of the statuses named in a JSON array, highest position first.
{select_steps}
WHERE run_id = :run_id AND scope = :scope AND position > :after AND position < :before
    AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY position DESC, path DESC LIMIT :limit

-- name: read_events
-- A run's trace from a place on.
SELECT sequence, at, kind, path, data FROM calandria_events
WHERE run_id = :run_id AND sequence > :after
ORDER BY sequence LIMIT :limit

-- name: find_prunable
-- Top-level runs that may be deleted, oldest end first: none of its tree needs anyone or lives.
SELECT r.run_id FROM calandria_runs AS r
WHERE r.parent_id IS NULL AND r.finished_at IS NOT NULL
    AND r.status <> 'pending' AND r.status <> 'running' AND r.status <> 'paused'
    AND r.status <> 'rolling_back' AND r.status <> 'aborted'
    AND r.rollback <> 'incomplete' AND r.pending_compensation IS NULL
    AND r.finished_at < :finished_before
    AND NOT (
        r.lease_owner IS NOT NULL AND r.lease_boot = :clock_boot AND r.lease_expires > :clock_now)
    AND NOT EXISTS (
        SELECT 1 FROM calandria_runs AS c
        WHERE c.root_id = r.run_id AND c.parent_id IS NOT NULL AND (
            c.status NOT IN ('completed', 'failed', 'halted', 'cancelled')
            OR c.rollback = 'incomplete' OR c.pending_compensation IS NOT NULL
            OR (c.lease_owner IS NOT NULL AND c.lease_boot = :clock_boot
                AND c.lease_expires > :clock_now)))
ORDER BY r.finished_at, r.run_id LIMIT :limit

-- name: find_tree
-- A top-level run and every run below it.
SELECT run_id FROM calandria_runs WHERE root_id = :run_id AND parent_id IS NOT NULL
UNION ALL SELECT :run_id

-- name: keep_outcome
-- Leave a pruned run's end with its idempotency key.
UPDATE calandria_idempotency_keys SET
    status = (SELECT status FROM calandria_runs WHERE run_id = :run_id),
    outcome = (SELECT outcome FROM calandria_run_values WHERE run_id = :run_id)
WHERE run_id = :run_id AND (reactor, idempotency_key) = (
    SELECT reactor, idempotency_key FROM calandria_runs WHERE run_id = :run_id)

-- name: delete_events
-- A pruned run's trace.
DELETE FROM calandria_events WHERE run_id = :run_id

-- name: delete_steps
-- A pruned run's steps.
DELETE FROM calandria_steps WHERE run_id = :run_id

-- name: delete_run_values
-- A pruned run's inputs and outcome.
DELETE FROM calandria_run_values WHERE run_id = :run_id

-- name: delete_run
-- A pruned run.
DELETE FROM calandria_runs WHERE run_id = :run_id

-- name: create_schema_table
-- The record of which migrations this storage has.
CREATE TABLE IF NOT EXISTS calandria_schema (
    number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL)

-- name: schema_numbers
-- The migrations this storage has.
SELECT number FROM calandria_schema ORDER BY number

-- name: record_migration
-- Note that a migration was applied.
INSERT INTO calandria_schema (number, name) VALUES (:number, :name)

-- name: insert_child
-- Create a run together with its parent's commit; changes nothing if it exists.
INSERT INTO calandria_runs (
    run_id, reactor, shape, root_id, parent_id, parent_path,
    idempotency_key, inputs_digest, correlation_id, created_at, updated_at,
    status, rollback, epoch)
VALUES (
    :run_id, :reactor, :shape, :root_id, :parent_id, :parent_path,
    :idempotency_key, :inputs_digest, :correlation_id, :created_at, :created_at,
    :status, :rollback, 0)
ON CONFLICT (run_id) DO NOTHING

-- name: add_job
-- Have a run looked at; of two jobs for one run the sooner stays.
INSERT INTO calandria_jobs (run_id, due, due_boot)
VALUES (:run_id, :clock_now + :delay, :clock_boot)
ON CONFLICT (run_id) DO UPDATE SET due = excluded.due, due_boot = excluded.due_boot
WHERE calandria_jobs.due_boot <> excluded.due_boot OR calandria_jobs.due > excluded.due

-- name: find_due_job
-- The job due longest whose run nobody executes; those of another boot, all due, come first.
-- A part for each range of the index, so that jobs that are not due yet cost nothing.
SELECT run_id, status, lease_owner FROM (
    SELECT j.run_id, r.status, r.lease_owner FROM calandria_jobs AS j
    JOIN calandria_runs AS r ON r.run_id = j.run_id
    WHERE (j.due_boot < :clock_boot OR j.due_boot > :clock_boot) AND (
        r.lease_owner IS NULL OR r.lease_boot <> :clock_boot OR r.lease_expires <= :clock_now)
    LIMIT 1)
UNION ALL
SELECT run_id, status, lease_owner FROM (
    SELECT j.run_id, r.status, r.lease_owner FROM calandria_jobs AS j
    JOIN calandria_runs AS r ON r.run_id = j.run_id
    WHERE j.due_boot = :clock_boot AND j.due <= :clock_now AND (
        r.lease_owner IS NULL OR r.lease_boot <> :clock_boot OR r.lease_expires <= :clock_now)
    ORDER BY j.due, j.run_id LIMIT 1)
LIMIT 1

-- name: delete_job
-- A job that a worker has taken.
DELETE FROM calandria_jobs WHERE run_id = :run_id

-- name: delete_useless_jobs
-- Jobs whose run is gone, and those due at no time that makes sense (text is above any number).
DELETE FROM calandria_jobs
WHERE run_id NOT IN (SELECT run_id FROM calandria_runs) OR due > :clock_now + :longest

-- name: next_job
-- In how many seconds the next job is due that is not due yet.
SELECT min(due) - :clock_now FROM calandria_jobs
WHERE due_boot = :clock_boot AND due > :clock_now AND due <= :clock_now + :longest

-- name: soonest_job
-- In how many seconds the first of all jobs is due, or how long it has been.
SELECT CASE
    WHEN EXISTS (
        SELECT 1 FROM calandria_jobs WHERE due_boot < :clock_boot OR due_boot > :clock_boot) THEN 0
    ELSE (SELECT min(due) FROM calandria_jobs WHERE due_boot = :clock_boot) - :clock_now END

-- name: sweep
-- Give a job to every run that lost its owner or its job.
INSERT INTO calandria_jobs (run_id, due, due_boot)
SELECT r.run_id, :clock_now, :clock_boot FROM calandria_runs AS r
WHERE (r.status = 'pending' OR r.status = 'running' OR r.status = 'rolling_back')
    AND (r.lease_owner IS NULL OR r.lease_boot <> :clock_boot OR r.lease_expires <= :clock_now)
    AND (
        r.lease_owner IS NOT NULL
        OR (r.waits_for IS NULL AND r.updated_at < :now - :pending_after)
        OR (r.waits_for IS NOT NULL AND r.wake_at < :now - :pending_after)
        OR (r.waits_for LIKE 'unit %' AND NOT EXISTS (
            SELECT 1 FROM calandria_runs AS c WHERE c.parent_id = r.run_id
                AND c.finished_at IS NULL
                AND instr(', ' || r.waits_for || ',', ', unit ' || c.parent_path || ',') > 0)))
    AND NOT EXISTS (SELECT 1 FROM calandria_jobs AS j WHERE j.run_id = r.run_id)

-- name: report_worker
-- What a worker says of itself.
INSERT INTO calandria_workers
    (owner, host, process, threads, started_at, seen_at, running, performed, draining)
VALUES (
    :owner, :host, :process, :threads, :started_at, :seen_at, :running, :performed, :draining)
ON CONFLICT (owner) DO UPDATE SET
    seen_at = excluded.seen_at,
    running = excluded.running,
    performed = excluded.performed,
    draining = excluded.draining

-- name: remove_worker
-- A worker that has ended.
DELETE FROM calandria_workers WHERE owner = :owner

-- name: forget_workers
-- Workers that were not seen for long: they died without a word.
DELETE FROM calandria_workers WHERE seen_at < :seen_before

-- name: list_workers
-- All workers, the one seen last first.
SELECT owner, host, process, threads, started_at, seen_at, running, performed, draining
FROM calandria_workers ORDER BY seen_at DESC, owner

-- name: live_holds_of_key
-- Everyone who holds a key now.
SELECT execution, path, kind, nested, token FROM calandria_holds
WHERE hold_key = :key AND expires_boot = :clock_boot AND expires > :clock_now

-- name: drop_lapsed_holds
-- Holds of a key whose process died.
DELETE FROM calandria_holds
WHERE hold_key = :key AND (expires_boot <> :clock_boot OR expires <= :clock_now)

-- name: paths_of_execution
-- The paths through which an execution holds anything, lapsed or not.
SELECT DISTINCT path FROM calandria_holds WHERE execution = :execution

-- name: any_hold
-- Whether an execution has a hold, live or lapsed.
SELECT 1 FROM calandria_holds WHERE execution = :execution LIMIT 1

-- name: drop_lapsed_of_execution
-- Holds of an execution that nobody kept alive.
DELETE FROM calandria_holds
WHERE execution = :execution AND (expires_boot <> :clock_boot OR expires <= :clock_now)

-- name: next_token
-- The next fencing token of a key.
INSERT INTO calandria_fences (hold_key, token) VALUES (:key, 1)
ON CONFLICT (hold_key) DO UPDATE SET token = token + 1 RETURNING token

-- name: write_hold
-- Note a hold, or extend the one that the path has.
INSERT INTO calandria_holds (
    hold_key, execution, path, kind, label, nested, token, acquired_at, expires, expires_boot)
VALUES (
    :key, :execution, :path, :kind, :label, :nested, :token, :now, :clock_now + :ttl, :clock_boot)
ON CONFLICT (hold_key, execution, path) DO UPDATE SET
    token = excluded.token, expires = excluded.expires, expires_boot = excluded.expires_boot

-- name: release_holds
-- Let go of what a path holds.
DELETE FROM calandria_holds WHERE execution = :execution AND path = :path RETURNING hold_key

-- name: release_hold
-- Let go of one hold.
DELETE FROM calandria_holds WHERE hold_key = :key AND execution = :execution AND path = :path

-- name: renew_hold
-- Extend a hold that is still there.
UPDATE calandria_holds SET expires = :clock_now + :ttl, expires_boot = :clock_boot
WHERE hold_key = :key AND execution = :execution AND path = :path AND token = :token

-- name: extend_holds
-- Let the holds of a parked execution outlast its wait.
UPDATE calandria_holds SET expires = max(expires, :clock_now + :ttl), expires_boot = :clock_boot
WHERE execution = :execution AND expires_boot = :clock_boot AND expires > :clock_now

-- name: renumber_holds
-- Give the holds of an execution on one key a new token.
UPDATE calandria_holds SET token = :token WHERE hold_key = :key AND execution = :execution

-- name: select_holds
-- The columns of a hold, in the order they are read in.
SELECT kind, hold_key, execution, path, label, token, acquired_at, expires - :clock_now
FROM calandria_holds

-- name: holds_of_execution
-- The live holds of one execution, oldest first.
{select_holds}
WHERE execution = :execution AND expires_boot = :clock_boot AND expires > :clock_now
ORDER BY acquired_at, hold_key, path

-- name: all_holds
-- All live holds, oldest first.
{select_holds}
WHERE expires_boot = :clock_boot AND expires > :clock_now
ORDER BY acquired_at, hold_key, execution, path

-- name: windows
-- How often work started in the last window used of each length.
SELECT seconds, place, used FROM calandria_windows WHERE rate_key = :key

-- name: count_start
-- Count one start in a window.
INSERT INTO calandria_windows (rate_key, seconds, place, used)
VALUES (:key, :seconds, :place, 1)
ON CONFLICT (rate_key, seconds) DO UPDATE SET
    used = CASE WHEN place = excluded.place THEN used + 1 ELSE 1 END, place = excluded.place

-- name: mark_of
-- Who has left a mark in a bucket of time.
SELECT run_id, path FROM calandria_marks WHERE period_key = :key AND bucket = :bucket

-- name: leave_mark
-- Leave a mark in a bucket of time; the first one stays.
INSERT INTO calandria_marks (period_key, bucket, run_id, path, marked_at, over_at)
VALUES (:key, :bucket, :run_id, :path, :now, :over_at)
ON CONFLICT (period_key, bucket) DO NOTHING

-- name: take_marks
-- Take away the marks of work that was undone.
DELETE FROM calandria_marks WHERE run_id = :run_id AND path = :path

-- name: take_all_marks
-- Take away the marks of a run that was rolled back, but those of the paths in a JSON array.
DELETE FROM calandria_marks
WHERE run_id = :run_id AND path NOT IN (SELECT value FROM json_each(:kept))

-- name: prune_marks
-- Marks of buckets that are over.
DELETE FROM calandria_marks WHERE over_at <= :now

-- name: prune_windows
-- Windows of rate limits that are over.
DELETE FROM calandria_windows WHERE (place + 1) * seconds <= :now

-- name: prune_positions
-- Sequences in which nobody waits or works, but who was passed and is still to learn of it.
DELETE FROM calandria_positions
WHERE sequence_key NOT IN (
    SELECT sequence_key FROM calandria_positions WHERE state = 'waiting' OR state = 'active')
    AND (state <> 'stale' OR execution NOT IN (
        SELECT run_id FROM calandria_runs WHERE finished_at IS NULL))

-- name: prune_sequences
-- Sequences without positions: the next one is the first again.
DELETE FROM calandria_sequences WHERE sequence_key NOT IN (
    SELECT sequence_key FROM calandria_positions)

-- name: prune_holds
-- Holds that nobody has kept alive for a day.
DELETE FROM calandria_holds WHERE expires_boot <> :clock_boot OR expires <= :clock_now - 86400

-- name: prune_waiters
-- What ended or pruned runs waited for.
DELETE FROM calandria_waiters WHERE run_id NOT IN (
    SELECT run_id FROM calandria_runs WHERE finished_at IS NULL)

-- name: own_position
-- The position of an execution's path in a sequence.
SELECT position, state FROM calandria_positions
WHERE sequence_key = :key AND execution = :execution AND path = :path

-- name: next_position
-- The next position of a sequence.
INSERT INTO calandria_sequences (sequence_key, next_position) VALUES (:key, 2)
ON CONFLICT (sequence_key) DO UPDATE SET next_position = next_position + 1
RETURNING next_position - 1

-- name: write_position
-- Give an execution its position.
INSERT INTO calandria_positions (
    sequence_key, position, execution, path, label, state, seen, seen_boot)
VALUES (:key, :position, :execution, :path, :label, 'waiting', :clock_now, :clock_boot)

-- name: see_position
-- Note that a position's execution lives, and what it does.
UPDATE calandria_positions SET state = :state, seen = :clock_now, seen_boot = :clock_boot
WHERE sequence_key = :key AND position = :position

-- name: see_execution
-- Note that an execution with open positions lives.
UPDATE calandria_positions SET seen = :clock_now, seen_boot = :clock_boot
WHERE execution = :execution AND (state = 'waiting' OR state = 'active')

-- name: hand_back_position
-- Give up a position whose turn was not waited for.
DELETE FROM calandria_positions WHERE sequence_key = :key AND position = :position

-- name: head_of_sequence
-- The first position that is not done, and when its execution was last seen.
SELECT position, execution, seen_boot = :clock_boot AND seen > :clock_now - :poison_timeout
FROM calandria_positions
WHERE sequence_key = :key AND position < :position AND (state = 'waiting' OR state = 'active')
ORDER BY position LIMIT 1

-- name: failed_before
-- Whether a position before this one failed.
SELECT position FROM calandria_positions
WHERE sequence_key = :key AND position < :position AND state = 'failed' LIMIT 1

-- name: open_positions
-- Whether anything of a sequence is not done.
SELECT 1 FROM calandria_positions
WHERE sequence_key = :key AND (state = 'waiting' OR state = 'active') LIMIT 1

-- name: active_paths
-- The paths of an execution whose turn in a sequence it is: what is nested in them re-enters.
SELECT path FROM calandria_positions
WHERE sequence_key = :key AND execution = :execution AND state = 'active'

-- name: positions_of_execution
-- The positions of an execution, done or not.
SELECT sequence_key, path FROM calandria_positions WHERE execution = :execution

-- name: positions
-- A whole sequence.
SELECT position, execution, path, state, label FROM calandria_positions
WHERE sequence_key = :key ORDER BY position

-- name: parked_for
-- The runs under way that wait for a key, the longest wait first.
SELECT w.run_id FROM calandria_waiters AS w JOIN calandria_runs AS r ON r.run_id = w.run_id
WHERE w.wait_key = :key AND r.finished_at IS NULL
ORDER BY w.since, w.run_id

-- name: sequence_keys
-- Sequences that have not drained.
SELECT sequence_key FROM calandria_sequences ORDER BY sequence_key

-- name: drain_positions
-- A sequence whose positions are all done.
-- One that was passed is kept while its run is under way, which is to learn of it when it wakes.
DELETE FROM calandria_positions
WHERE sequence_key = :key AND (state <> 'stale' OR execution NOT IN (
    SELECT run_id FROM calandria_runs WHERE finished_at IS NULL))

-- name: drain_sequence
-- A sequence whose positions are all done; while any is kept, the numbers go on.
DELETE FROM calandria_sequences WHERE sequence_key = :key
    AND NOT EXISTS (SELECT 1 FROM calandria_positions WHERE sequence_key = :key)

-- name: forget_positions
-- A whole sequence.
DELETE FROM calandria_positions WHERE sequence_key = :key

-- name: delete_positions
-- What is left in sequences of a run that is pruned.
DELETE FROM calandria_positions WHERE execution = :run_id

-- name: run_lives
-- Whether a run is in someone's hands, or was not long ago, waits for a person, or is scheduled.
SELECT r.status = 'paused' OR j.run_id IS NOT NULL OR (
    r.lease_owner IS NOT NULL AND r.lease_boot = :clock_boot
    AND r.lease_expires > :clock_now - :poison_timeout)
FROM calandria_runs AS r LEFT JOIN calandria_jobs AS j ON j.run_id = r.run_id
WHERE r.run_id = :execution
    AND r.status NOT IN ('completed', 'failed', 'halted', 'cancelled', 'aborted')

-- name: write_waiter
-- Note that a parked run waits for a key, once more; since when stays.
INSERT INTO calandria_waiters (run_id, wait_key, label, since, tries)
VALUES (:run_id, :key, :label, :now, 1)
ON CONFLICT (run_id, wait_key) DO UPDATE SET tries = tries + 1
RETURNING tries

-- name: forget_waiter
-- A run that waits no more.
DELETE FROM calandria_waiters WHERE run_id = :run_id

-- name: waits_no_more
-- One piece of work of a run that has got what it waited for.
DELETE FROM calandria_waiters WHERE run_id = :run_id AND label = :label

-- name: first_waiter
-- Who has waited longest for a key, of the runs under way that are not due anyhow.
SELECT w.run_id FROM calandria_waiters AS w JOIN calandria_runs AS r ON r.run_id = w.run_id
LEFT JOIN calandria_jobs AS j ON j.run_id = w.run_id
WHERE w.wait_key = :key AND r.finished_at IS NULL
    AND (j.run_id IS NULL OR (j.due_boot = :clock_boot AND j.due > :clock_now))
ORDER BY w.since, w.run_id LIMIT 1

-- name: next_in_turn
-- The execution at the head of a sequence, and whether it is a run that is parked for its turn.
SELECT p.execution, EXISTS (
    SELECT 1 FROM calandria_waiters AS w JOIN calandria_runs AS r ON r.run_id = w.run_id
    WHERE w.run_id = p.execution AND w.wait_key = 'turn:' || :key AND r.finished_at IS NULL)
FROM calandria_positions AS p
WHERE p.sequence_key = :key AND (p.state = 'waiting' OR p.state = 'active')
ORDER BY p.position LIMIT 1

-- name: forgive_try
-- A run that was woken for a key.
UPDATE calandria_waiters SET tries = max(tries - 1, 0) WHERE run_id = :run_id AND wait_key = :key

-- name: stop_waiting
-- A run that waits for one key no more.
DELETE FROM calandria_waiters WHERE run_id = :run_id AND wait_key = :key

-- name: waits_no_more_for
-- What the work that now waits for one key had waited for before.
DELETE FROM calandria_waiters WHERE run_id = :run_id AND label = :label AND wait_key <> :key
RETURNING wait_key

-- name: keys_waited_for
-- What a run waits for.
SELECT wait_key FROM calandria_waiters WHERE run_id = :run_id

-- name: waiters
-- All parked runs that wait for keys, the longest wait first.
SELECT w.run_id, w.wait_key, w.label, w.since
FROM calandria_waiters AS w JOIN calandria_runs AS r ON r.run_id = w.run_id
WHERE r.finished_at IS NULL ORDER BY w.since, w.run_id

-- name: first_before
-- The first position before one's own in a sequence that is not done.
SELECT p.execution FROM calandria_positions AS p JOIN calandria_positions AS own
    ON own.sequence_key = p.sequence_key AND own.execution = :execution
WHERE p.sequence_key = :key AND p.position < own.position
    AND (p.state = 'waiting' OR p.state = 'active') LIMIT 1

-- name: blocked_before
-- Who comes before one's own position in a sequence and waits for more than its turn, or is `run_id`.
SELECT DISTINCT p.execution FROM calandria_positions AS p JOIN calandria_positions AS own
    ON own.sequence_key = p.sequence_key AND own.execution = :execution
WHERE p.sequence_key = :key AND p.position < own.position
    AND (p.state = 'waiting' OR p.state = 'active') AND (p.execution = :run_id OR EXISTS (
        SELECT 1 FROM calandria_waiters AS w
        WHERE w.run_id = p.execution AND w.wait_key <> :wait))
