-- The audit log, schema 1. Released migrations never change: a test holds the digest of this file.
--
-- Runs in one transaction on an empty file. Times are milliseconds since 1970 by Redis's clock; a text that is not known is empty, a
-- number 0. sql/README.md tells people what is in here, with ready queries.

PRAGMA application_id = 1364410709; -- "QSAU": tells our files from those of others
PRAGMA user_version = 1;

-- One row per event, in the order of arrival (seq), which is all but the order of `at`: who removes old rows begins at the lowest
-- seq and needs no index. Columns are those of sidecar/event.h, small ones first, so that a look at one does not read a payload.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    ref TEXT NOT NULL,   -- first 12 base32 digits of the event id: what people type
    event TEXT NOT NULL, -- the id, 64 hex digits
    kind TEXT NOT NULL,  -- failed, retried, requeued, discarded or gap
    dialect TEXT NOT NULL,
    queue TEXT NOT NULL,
    job TEXT NOT NULL,
    type TEXT NOT NULL,
    worker TEXT NOT NULL,
    reason TEXT NOT NULL,
    term TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    answers TEXT NOT NULL,     -- of requeued and discarded: the id of the failed event that they answer
    answers_ref TEXT NOT NULL, -- the ref of that one
    attempts INTEGER NOT NULL,
    created INTEGER NOT NULL,
    started INTEGER NOT NULL,
    at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    error ANY NOT NULL,  -- TEXT where it is UTF-8 without NUL, so that LIKE works; else BLOB
    payload ANY NOT NULL -- likewise
) STRICT;

-- One row per event id: who adds a row holds the write lock and has looked by this index that the id is not there. It is on the ref
-- alone, because one with the whole id would be five times the size and a row would cost nearly twice the time; and not UNIQUE,
-- because ids may begin alike, if only once in 10^18 pairs.
CREATE INDEX events_ref ON events (ref);
-- Failures of a time, newest first, and those of a queue; both answer counts by queue, reason and hour without the table (SQLite
-- wants `kind` in the index for that, although it is the same in all rows).
CREATE INDEX failures_at ON events (at, queue, reason, kind) WHERE kind = 'failed';
CREATE INDEX failures_queue ON events (queue, at, reason, kind) WHERE kind = 'failed';
CREATE INDEX events_job ON events (job, at);
-- Answers are few beside failures: this says everything of them, so that the state of a failure costs one look here.
CREATE INDEX answers ON events (answers, at, event, kind, answers_ref) WHERE answers <> '';

-- How far the failure stream of each queue is in this log: the id of the last entry. Moves in the transaction that adds the rows.
CREATE TABLE positions (
    queue TEXT PRIMARY KEY,
    position TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What else is known of this file: `instance`, a random name by which its auditor acknowledges.
CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Every event with its state. A final failure is `failed` until somebody answers it; the last answer counts.
CREATE VIEW event_states AS
SELECT e.*,
    CASE WHEN e.kind = 'failed' THEN coalesce(
        (SELECT a.kind FROM events AS a WHERE a.answers = e.event AND a.answers <> '' AND a.kind IN ('requeued', 'discarded')
         ORDER BY a.at DESC, a.event DESC LIMIT 1), 'failed') ELSE '' END AS state
FROM events AS e;

CREATE VIEW failed_jobs AS
SELECT queue, dialect, job AS job_id, type, worker, reason, error, attempts, nullif(created, 0) AS created_at,
    nullif(started, 0) AS started_at, at AS failed_at, state, ref, payload
FROM event_states WHERE kind = 'failed';

-- `hour` is its beginning in UTC, as text; read it from the newest by ORDER BY hour DESC.
CREATE VIEW failures_by_hour AS
SELECT strftime('%Y-%m-%d %H:00', at / 3600000 * 3600, 'unixepoch') AS hour, queue, reason, count(*) AS failures
FROM events WHERE kind = 'failed' GROUP BY at / 3600000, queue, reason;

CREATE VIEW failures_by_reason AS
SELECT reason, count(*) AS failures, count(DISTINCT queue) AS queues, min(at) AS first_at, max(at) AS last_at
FROM events WHERE kind = 'failed' GROUP BY reason;

-- open: those that nobody has answered yet. Only answered ones are looked at one by one.
CREATE VIEW failures_by_queue AS
WITH answered AS (
    SELECT queue, sum(state = 'requeued') AS requeued, sum(state = 'discarded') AS discarded
    FROM event_states
    WHERE kind = 'failed' AND (ref, event) IN (SELECT answers_ref, answers FROM events WHERE answers <> '') GROUP BY queue
), failures AS (
    SELECT queue, count(*) AS failures, min(at) AS first_at, max(at) AS last_at
    FROM events WHERE kind = 'failed' GROUP BY queue
)
SELECT queue, failures, failures - coalesce(requeued, 0) - coalesce(discarded, 0) AS open, coalesce(requeued, 0) AS requeued,
    coalesce(discarded, 0) AS discarded, first_at, last_at
FROM failures LEFT JOIN answered USING (queue);

-- All that happened to a job: WHERE job_id = '...' ORDER BY at.
CREATE VIEW job_history AS
SELECT job AS job_id, queue, at, kind, reason, attempts, worker, error, state, ref, answers FROM event_states;
