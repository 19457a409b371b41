-- The audit log, schema 4: refs and jobs are indexed in sorted batches. Released migrations never change: a test holds the digest of
-- this file.
--
-- Runs in one transaction on a file of schema 3. Versions that know schema 3 refuse the file from here on.

PRAGMA user_version = 4;

-- Refs and jobs come in no order, so an index of them changes another page for each new row: in a log of a million rows that cost
-- more than all else. Rows of these tables are added in sorted batches, many to a page. Events with a seq above `indexed` of facts
-- have none yet. A row here may outlive its event.
CREATE TABLE ids (
    ref TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (ref, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    job TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job, seq)
) STRICT, WITHOUT ROWID;

-- `indexed`: see above. `last_seq`: the highest seq that was ever given; it is never given again. `stale`: number of removed events
-- whose rows in `ids` and `jobs` are still there, when there are any.
INSERT INTO facts SELECT 'indexed', CAST(coalesce(min(seq) - 1, 0) AS TEXT) FROM events;
INSERT INTO facts SELECT 'last_seq', CAST(coalesce(max(seq), 0) AS TEXT) FROM events;

DROP INDEX events_ref;
DROP INDEX events_job;

-- Finds events by ref: WHERE seq IN (SELECT seq FROM refs WHERE ref = '...').
CREATE VIEW refs AS
SELECT ref, seq FROM ids
UNION ALL SELECT ref, seq FROM events WHERE seq > (SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'indexed');

-- The same by job.
CREATE VIEW job_seqs AS
SELECT job, seq FROM jobs
UNION ALL SELECT job, seq FROM events WHERE seq > (SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'indexed');

-- As in 001_init, with job_seqs.
DROP VIEW job_history;
CREATE VIEW job_history AS
SELECT e.job AS job_id, queue, at, kind, reason, attempts, worker, error, state, ref, answers
FROM job_seqs AS j CROSS JOIN event_states AS e ON e.seq = j.seq AND e.job = j.job;

-- As in 001_init, with ids. An answer names its failure by ref and id.
DROP VIEW failures_by_queue;
CREATE VIEW failures_by_queue AS
WITH answered AS (
    SELECT queue, sum(state = 'requeued') AS requeued, sum(state = 'discarded') AS discarded
    FROM event_states
    WHERE seq IN (SELECT r.seq FROM events AS a CROSS JOIN refs AS r ON r.ref = a.answers_ref WHERE a.answers <> '')
        AND kind = 'failed' AND (ref, event) IN (SELECT answers_ref, answers FROM events WHERE answers <> '')
    GROUP BY queue
), failures AS (
    SELECT queue, count(*) AS failures, min(at) AS first_at, max(at) AS last_at
    FROM events WHERE kind = 'failed' GROUP BY queue
)
SELECT queue, failures, failures - coalesce(requeued, 0) - coalesce(discarded, 0) AS open, coalesce(requeued, 0) AS requeued,
    coalesce(discarded, 0) AS discarded, first_at, last_at
FROM failures LEFT JOIN answered USING (queue);
