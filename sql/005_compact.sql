-- The audit log, schema 5: a row takes half the space. Released migrations never change: a test holds the digest of this file.
--
-- Runs in one transaction on a file of schema 4. The events stay in the table `moving` until the program has moved them, in steps,
-- to `records`, under the same seq. Then it drops `moving`. Versions that know schema 4 refuse the file from here on.

PRAGMA user_version = 5;

DROP VIEW IF EXISTS failed_jobs;
DROP VIEW IF EXISTS failures_by_hour;
DROP VIEW IF EXISTS failures_by_reason;
DROP VIEW IF EXISTS failures_by_queue;
DROP VIEW IF EXISTS job_history;
DROP VIEW IF EXISTS event_states;
DROP VIEW IF EXISTS refs;
DROP VIEW IF EXISTS job_seqs;
DROP INDEX IF EXISTS failures_at;
DROP INDEX IF EXISTS failures_queue;
DROP INDEX IF EXISTS others_at;
DROP INDEX IF EXISTS answers;
ALTER TABLE events RENAME TO moving;

-- What many events have in common. `last` is at least the highest seq of an event that refers to the row.
CREATE TABLE contexts (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL, -- failed, retried, requeued, discarded, gap or filled
    reason TEXT NOT NULL,
    dialect TEXT NOT NULL,
    type TEXT NOT NULL,
    term TEXT NOT NULL,
    "group" TEXT NOT NULL,
    last INTEGER NOT NULL,
    UNIQUE (queue, kind, reason, term, type, dialect, "group")
) STRICT;

-- One row per event, in the order of arrival; small columns first, so that a look at one does not read a payload.
CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    id_high INTEGER NOT NULL, -- the first 8 bytes of the event id
    id_low ANY NOT NULL,      -- the other 24; TEXT where the id is not 64 hex digits: then all of it
    context INTEGER NOT NULL, -- id of contexts
    job TEXT NOT NULL,
    worker TEXT NOT NULL,
    sha256 ANY NOT NULL,      -- 32 bytes; TEXT where it is not 64 hex digits
    attempts INTEGER NOT NULL,
    created ANY,              -- how long before `at`, in ms; NULL where it is not known; TEXT where the difference has over 64 bits
    started ANY,              -- likewise
    at INTEGER NOT NULL,
    size INTEGER,             -- NULL where it is that of `payload`
    error ANY NOT NULL,       -- TEXT where it is UTF-8 without NUL, so that LIKE works; else BLOB
    payload ANY NOT NULL      -- likewise
) STRICT;

-- Retention removes the first entries. Filters by queue, kind and reason look at the context of each entry, not at its record.
CREATE INDEX records_at ON records (at, context);

-- The events that answer another one, by seq: few beside failures.
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY,
    answers TEXT NOT NULL,    -- id of the event that is answered
    answers_ref TEXT NOT NULL -- its ref
) STRICT;
CREATE INDEX answers_event ON answers (answers);

-- As in 004_lookup, with shorter keys, which several refs and jobs may have.
DROP TABLE ids;
CREATE TABLE ids (
    prefix TEXT NOT NULL, -- the first 6 digits of the ref
    seq INTEGER NOT NULL,
    PRIMARY KEY (prefix, seq)
) STRICT, WITHOUT ROWID;

DROP TABLE jobs;
CREATE TABLE jobs (
    key INTEGER NOT NULL, -- 23 bits made from the job: see job_seqs
    seq INTEGER NOT NULL,
    PRIMARY KEY (key, seq)
) STRICT, WITHOUT ROWID;

UPDATE facts SET value = (SELECT CAST(coalesce(min(seq) - 1, 0) AS TEXT) FROM moving) WHERE name = 'indexed';
DELETE FROM facts WHERE name = 'stale';

-- The columns of the table `events` of schema 4.
CREATE VIEW events AS
SELECT r.seq,
    substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 59 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 54 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 49 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 44 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 39 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 34 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 29 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 24 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 19 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 14 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 9 & 31), 1)
        || substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (r.id_high >> 4 & 31), 1) AS ref,
    iif(typeof(r.id_low) = 'text', r.id_low, printf('%016x', r.id_high) || lower(hex(r.id_low))) AS event,
    coalesce(c.kind, '') AS kind, coalesce(c.dialect, '') AS dialect, coalesce(c.queue, '') AS queue, r.job,
    coalesce(c.type, '') AS type, r.worker, coalesce(c.reason, '') AS reason, coalesce(c.term, '') AS term,
    iif(typeof(r.sha256) = 'text', r.sha256, lower(hex(r.sha256))) AS sha256, coalesce(n.answers, '') AS answers,
    coalesce(n.answers_ref, '') AS answers_ref, r.attempts,
    CASE typeof(r.created) WHEN 'integer' THEN r.at - r.created WHEN 'text' THEN CAST(r.created AS INTEGER) ELSE 0 END AS created,
    CASE typeof(r.started) WHEN 'integer' THEN r.at - r.started WHEN 'text' THEN CAST(r.started AS INTEGER) ELSE 0 END AS started,
    r.at, coalesce(r.size, length(CAST(r.payload AS BLOB))) AS size, r.error, r.payload,
    coalesce(c."group", '') AS "group"
FROM records AS r LEFT JOIN contexts AS c ON c.id = r.context LEFT JOIN answers AS n ON n.seq = r.seq;

-- Every event with its state. A final failure is `failed` until somebody answers it; the last answer counts.
CREATE VIEW event_states AS
SELECT e.*,
    CASE WHEN e.kind = 'failed' THEN coalesce(
        (SELECT a.kind FROM answers AS n CROSS JOIN events AS a ON a.seq = n.seq
         WHERE n.answers = e.event AND a.kind IN ('requeued', 'discarded') ORDER BY a.at DESC, a.event DESC LIMIT 1),
        'failed') ELSE '' END AS state
FROM events AS e;

CREATE VIEW failed_jobs AS
SELECT queue, dialect, job AS job_id, type, worker, reason, error, attempts, nullif(created, 0) AS created_at,
    nullif(started, 0) AS started_at, at AS failed_at, state, ref, payload, "group"
FROM event_states WHERE kind = 'failed';

-- Finds events by the first 6 digits of the ref: WHERE seq IN (SELECT seq FROM refs WHERE prefix = '...') AND ref = '...'.
CREATE VIEW refs AS
SELECT prefix, seq FROM ids
UNION ALL SELECT substr(ref, 1, 6), seq FROM events WHERE seq > (SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'indexed');

-- The same by job. For a constant job SQLite computes the key once, and then reads only the rows of `jobs` with this key.
CREATE VIEW job_seqs AS
SELECT r.job, j.seq FROM jobs AS j CROSS JOIN records AS r ON r.seq = j.seq AND j.key = (
    WITH RECURSIVE hash(i, value) AS (
        SELECT 0, 0
        UNION ALL SELECT i + 1, value * 1000003 + unicode(substr(r.job, i + 1, 1)) & 8388607 FROM hash WHERE i < length(r.job))
    SELECT value FROM hash WHERE i = length(r.job))
UNION ALL SELECT job, seq FROM records WHERE seq > (SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'indexed');

-- All answered events, and others with a ref like theirs or not in `ids` yet.
CREATE VIEW answered_seqs AS
SELECT i.seq FROM answers AS a CROSS JOIN ids AS i ON i.prefix = substr(a.answers_ref, 1, 6)
UNION ALL SELECT seq FROM records
WHERE EXISTS (SELECT 1 FROM answers) AND seq > (SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'indexed');

-- All that happened to a job: WHERE job_id = '...' ORDER BY at.
CREATE VIEW job_history AS
SELECT j.job AS job_id, queue, at, kind, reason, attempts, worker, error, state, ref, answers
FROM job_seqs AS j CROSS JOIN event_states AS e ON e.seq = j.seq;

-- The counts group by context first: there are few, and the index has them.
-- `hour` is its beginning in UTC, as text; read it from the newest by ORDER BY hour DESC.
CREATE VIEW failures_by_hour AS
SELECT strftime('%Y-%m-%d %H:00', r.hour * 3600, 'unixepoch') AS hour, c.queue, c.reason, sum(r.failures) AS failures
FROM (SELECT at / 3600000 AS hour, context, count(*) AS failures FROM records GROUP BY 1, 2) AS r
CROSS JOIN contexts AS c ON c.id = r.context
WHERE c.kind = 'failed' GROUP BY r.hour, c.queue, c.reason;

CREATE VIEW failures_by_reason AS
SELECT c.reason, sum(r.failures) AS failures, count(DISTINCT c.queue) AS queues, min(r.first_at) AS first_at, max(r.last_at) AS last_at
FROM (SELECT context, count(*) AS failures, min(at) AS first_at, max(at) AS last_at FROM records GROUP BY context) AS r
CROSS JOIN contexts AS c ON c.id = r.context
WHERE c.kind = 'failed' GROUP BY c.reason;

-- open: those that nobody has answered yet. Only answered ones are looked at one by one. An answer names its failure by ref and id.
CREATE VIEW failures_by_queue AS
WITH answered AS (
    SELECT queue, sum(state = 'requeued') AS requeued, sum(state = 'discarded') AS discarded
    FROM event_states
    WHERE seq IN (SELECT seq FROM answered_seqs) AND kind = 'failed' AND event IN (SELECT answers FROM answers)
    GROUP BY queue
), failures AS (
    SELECT c.queue, sum(r.failures) AS failures, min(r.first_at) AS first_at, max(r.last_at) AS last_at
    FROM (SELECT context, count(*) AS failures, min(at) AS first_at, max(at) AS last_at FROM records GROUP BY context) AS r
    CROSS JOIN contexts AS c ON c.id = r.context
    WHERE c.kind = 'failed' GROUP BY c.queue
)
SELECT queue, failures, failures - coalesce(requeued, 0) - coalesce(discarded, 0) AS open, coalesce(requeued, 0) AS requeued,
    coalesce(discarded, 0) AS discarded, first_at, last_at
FROM failures LEFT JOIN answered USING (queue);
