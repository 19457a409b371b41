-- Schema 2: what retention needs. Released migrations never change: a test holds the digest of this file.
--
-- Runs in one transaction on a file of schema 1.

PRAGMA user_version = 2;

-- The oldest failures are found by failures_at, the oldest of all else by this: each row stands in one of the two, so that adding one
-- costs no more than before.
CREATE INDEX others_at ON events (at, kind) WHERE kind <> 'failed';

-- `rows`: how many there are, counted with each transaction, because count(*) reads a whole index. `dropped`, when there is one: the
-- highest `at` that retention has removed; what is not newer does not come back from a stream.
INSERT INTO facts SELECT 'rows', CAST(count(*) AS TEXT) FROM events;
