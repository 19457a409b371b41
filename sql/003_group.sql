-- The audit log, schema 3: the group of each event. Released migrations never change: a test holds the digest of this file.
--
-- Runs in one transaction on a file of schema 2. user_version stays 2: version 0.1.0 reads and writes a file with this column too,
-- and instances of both versions run side by side. The column itself says that the file has schema 3. The next migration sets
-- user_version to 4.

-- `group` of the config of the instance that decided; '' = not known, as in rows of 0.1.0.
ALTER TABLE events ADD COLUMN "group" TEXT NOT NULL DEFAULT '';

DROP VIEW IF EXISTS failed_jobs;
CREATE VIEW failed_jobs AS
SELECT queue, dialect, job AS job_id, type, worker, reason, error, attempts, nullif(created, 0) AS created_at,
    nullif(started, 0) AS started_at, at AS failed_at, state, ref, payload, "group"
FROM event_states WHERE kind = 'failed';
