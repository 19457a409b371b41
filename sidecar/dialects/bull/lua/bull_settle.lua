#!lua flags=allow-oom
-- bull_settle: retries or ends stalled jobs of a Bull 4 queue, each with a record in the failure stream. Answers for each job by
-- itself.
--
-- KEYS[1]  lock
-- KEYS[2]  stalled   set; an id must still be marked; the mark of an id that is not active is removed
-- KEYS[3]  active    list
-- KEYS[4]  wait      list
-- KEYS[5]  paused    list
-- KEYS[6]  meta-paused
-- KEYS[7]  failed    zset
-- KEYS[8]  recorded  the sidecar's zset: `<id>:<score>` of recorded failures; see failed_seen
-- KEYS[9]  failures  stream
-- KEYS[10] meta      fields `bytes`: of all values in the stream, and `entries`: their number when `bytes` was written
-- KEYS[11+] for each job: its hash, its lock, with flag x its logs, and with flag d `de:` and its deid
-- ARGV[1]  token
-- ARGV[2]  most      bytes that the stream may hold
-- ARGV[3]  notify    list that gets a notification of each end; '' = none
-- ARGV[4]  from      the jobs are probably among these entries of active, from entry number `from`
-- ARGV[5]  to        to the one before `to`, counted from the tail and from 0; 0 = anywhere
-- ARGV[6]  shared    number of names and values that all records have
-- ARGV[7+] these names and values; the number of other names in the records; these names; and then for each job:
--   id
--   counter  stalledCounter when the decision was made; '' = none
--   flags    r retry, e end, b broken: end an id that names no job; also x the job's removeOnFail is true or 0, so the end deletes
--            the job, d the job has a debounce key
--   error    of an end: for the record, and for failedReason
--   message  of an end, for the channel `failed`: JSON
--   the values of the other names in the records; '' = the record does not have the name. This script adds 'at' and 'error'
-- Reply    {'settled', us that the script took, 0, and one answer for each job}, {'fenced'}, {'type', key, found}. An answer is
--          'settled'; 'unrecorded' a retry of which the stream took no record; 'gone' its worker renewed the lock, or the job is
--          finished; 'changed'; 'alive' the lock exists; 'full' the stream takes no record; or an error
-- Optional LPUSH, LSET, LTRIM, PUBLISH
-- Uses     types, fence, records, now, rights, clock, notifications, stalled_jobs
-- Safe     fenced; compares each job with its decision; checks preconditions and rights of all jobs before the first write; adds
--          before it removes, the records first; PUBLISH last and by pcall.
-- Cost     one LREM of all jobs looks through the entries between them and the nearer end of active; without LSET one for each job. A
--          check that walks active from its tail leaves only jobs of living workers there. For a job anywhere LPOS looks through half
--          of active.
local wanted = {{'stalled', KEYS[2], 'set'}, {'active', KEYS[3], 'list'}, {'wait', KEYS[4], 'list'}, {'paused', KEYS[5], 'list'},
    {'meta-paused', KEYS[6], 'string'}, {'failed', KEYS[7], 'zset'}, {'recorded', KEYS[8], 'zset'},
    {'failures', KEYS[9], 'stream'}, {'meta', KEYS[10], 'hash'}}
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local began = clock_us()
local COUNTER, FLAGS, ERROR, MESSAGE, RECORD = 1, 2, 3, 4, 5
local form, first_job = record_form(6)

local jobs, key = {}, 11
local function next_key()
    key = key + 1
    return KEYS[key - 1]
end
for at = first_job, #ARGV, RECORD + #form.names do
    local function has(flag) return string.find(ARGV[at + FLAGS], flag, 1, true) ~= nil end
    local job = {at = at, id = ARGV[at], hash = next_key(), lock = next_key(), ends = not has('r'), broken = has('b')}
    job.logs = has('x') and next_key()
    job.debounce = has('d') and next_key()
    job.fails = job.ends and not job.broken and not job.logs
    jobs[#jobs + 1] = job
end
local stalled = stalled_jobs(jobs, KEYS[2], KEYS[3], tonumber(ARGV[4]), tonumber(ARGV[5]))
local now, most = now_ms(), tonumber(ARGV[2])
local function record_of(job)
    local record = new_record(now, form, job.at + RECORD)
    if job.ends then
        record[#record + 1] = 'error'
        record[#record + 1] = ARGV[job.at + ERROR]
    end
    return record
end
local target = redis.call('EXISTS', KEYS[6]) == 1 and KEYS[5] or KEYS[4]
-- Most jobs of a call are of one kind, so rights are checked once for each kind. The call itself needs the right to write to all its keys.
local kinds = {}
local function job_refusal(job, room)
    local retries, deletes, debounce = not job.ends, job.logs, job.debounced and job.debounce
    local kind = ARGV[job.at + FLAGS] .. (room and '+' or '-') .. (debounce and '+' or '-')
    if kinds[kind] == nil then
        kinds[kind] = missing_right({{'XADD', room and KEYS[9]}, {'HSET', room and KEYS[10]},
            {'HSET', (job.fails or retries) and job.hash}, {'RPUSH', retries and target}, {'ZADD', job.fails and KEYS[8]},
            {'ZADD', job.fails and KEYS[7]}, {'LREM', KEYS[3]}, {'SREM', KEYS[2]}, {'DEL', deletes and job.hash},
            {'DEL', deletes and job.logs}, {'DEL', debounce}}) or false
    end
    return kinds[kind] or nil
end

local bytes, length = stream_bytes(KEYS[9], KEYS[10], {})
-- Returns why the job stays where it is; nil = its writes may begin.
local function refused(job)
    local why = stalled.refused(job)
    if why then return why end
    local fields = redis.pcall('HMGET', job.hash, 'name', 'stalledCounter') -- an error: the key is no hash
    local is_job = not fields.err and fields[1]
    if not is_job == not job.broken then return 'changed' end
    job.counter = is_job and fields[2] or ''
    if is_job and job.counter ~= ARGV[job.at + COUNTER] then return 'changed' end
    job.record = record_of(job)
    local total = bytes + record_bytes(job.record)
    local room = total <= most
    if job.ends and not room then return 'full' end
    -- Bull from 4.16 on deletes this key, too: while the key exists, Bull drops new jobs of that deid.
    local ttl = job.debounce and redis.call('PTTL', job.debounce)
    job.debounced = ttl == 0 or ttl == -1
    local missing = job_refusal(job, room)
    if missing then return missing end
    if room then bytes = total else job.record = nil end
end

local settled, at_once = stalled.settled(refused)
local kept = record_jobs(KEYS[9], KEYS[10], settled, bytes, length)

-- One call for each command and key, with the values of all jobs.
local retries, marks, scores = {}, {}, {}
for _, job in ipairs(kept) do
    local count = string.format('%.0f', number(job.counter) + 1)
    if not job.ends then
        redis.call('HSET', job.hash, 'stalledCounter', count)
        retries[#retries + 1] = job.id
    elseif job.fails then
        redis.call('HSET', job.hash, 'stalledCounter', count, 'failedReason', ARGV[job.at + ERROR], 'finishedOn', now)
        marks[#marks + 1], marks[#marks + 2] = now, job.id .. ':' .. now
        scores[#scores + 1], scores[#scores + 2] = now, job.id
    end
end
if #retries > 0 then redis.call('RPUSH', target, unpack(retries)) end
if #marks > 0 then redis.call('ZADD', KEYS[8], unpack(marks)) end
if #scores > 0 then redis.call('ZADD', KEYS[7], unpack(scores)) end
stalled.remove(kept, at_once, ARGV[1])
for _, job in ipairs(kept) do
    if job.logs then redis.call('DEL', job.hash, job.logs) end
    if job.debounced then redis.call('DEL', job.debounce) end
end
for _, job in ipairs(kept) do
    if not job.ends then redis.pcall('PUBLISH', KEYS[2] .. '@', job.id) end
    if job.ends and not job.broken then redis.pcall('PUBLISH', KEYS[7], ARGV[job.at + MESSAGE]) end
end
notify(ARGV[3], KEYS[10], now, kept)
return {'settled', us_since(began), 0, answers_of(jobs)}
