-- The audit log, schema 7: each event is one row, and has a group and a traceparent. Released migrations never change: a test holds
-- the digest of this file.
--
-- Runs in one transaction on a file of schema 2. Schemas 3 to 6 were never released.

PRAGMA user_version = 7;

-- `group` of the config of the instance that decided; '' = not known, as in rows of 0.1.0.
ALTER TABLE events ADD COLUMN "group" TEXT NOT NULL DEFAULT '';

-- Of a failure: the W3C traceparent in the payload (`trace_path`); '' = none.
ALTER TABLE events ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';

-- So two logs are merged by INSERT OR IGNORE.
CREATE UNIQUE INDEX events_event ON events (event);

DROP VIEW IF EXISTS failed_jobs;
CREATE VIEW failed_jobs AS
SELECT queue, dialect, job AS job_id, type, worker, reason, error, attempts, nullif(created, 0) AS created_at,
    nullif(started, 0) AS started_at, at AS failed_at, state, ref, payload, "group", traceparent
FROM event_states WHERE kind = 'failed';
