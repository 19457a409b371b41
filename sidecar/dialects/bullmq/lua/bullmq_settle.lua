#!lua flags=allow-oom
-- bullmq_settle: gives stalled jobs of a BullMQ queue back, as BullMQ's own check does (src/commands/moveStalledJobsToWait-9.lua), each with
-- a record in the failure stream. A job that stalled too often gets a field `defa`: the worker that takes it fails it at once. Answers
-- for each job by itself.
--
-- KEYS[1]  lock
-- KEYS[2]  stalled   set; an id must still be marked; the mark of an id that is not active is removed
-- KEYS[3]  active    list
-- KEYS[4]  wait      list
-- KEYS[5]  paused    list; in BullMQ 5 in place of wait while the queue is paused
-- KEYS[6]  of bullmq hash `meta`; see prologue/bullmq_meta.lua
-- KEYS[7]  marker    zset on which workers wait
-- KEYS[8]  events    stream of BullMQ
-- KEYS[9]  repeat    zset of job schedulers: a job of one of them gets no `defa`
-- KEYS[10] failures  the sidecar's stream
-- KEYS[11] meta      the sidecar's hash; fields `bytes` and `entries`, see prologue/records.lua
-- KEYS[12+] for each job: its hash, its lock, with flag s `repeat:` and its rjk
-- ARGV[1]  token
-- ARGV[2]  most      bytes that the stream may hold
-- ARGV[3]  notify    list that gets a notification of each end; '' = none
-- ARGV[4]  from      the jobs are probably among these entries of active, from entry number `from`
-- ARGV[5]  to        to the one before `to`, counted from the tail and from 0; 0 = anywhere
-- ARGV[6]  shared    number of names and values that all records have
-- ARGV[7+] these names and values; the number of other names in the records; these names; and then for each job:
--   id
--   counter  stc when the decision was made; '' = none
--   flags    r retry, b broken: end an id that names no job; also f the job has stalled too often, s the job has an rjk
--   error    of an end, for the record; of a retry with flag f: the value of `defa`
--   rjk      name of its job scheduler when the decision was made; '' = none
--   the values of the other names in the records; '' = the record does not have the name. This script adds 'at' and 'error'
-- Reply    {'settled', us that the script took, 0, and one answer for each job}, {'fenced'}, {'type', key, found}. An answer is as in
--          bull_settle
-- Optional LPUSH, LSET, LTRIM
-- Uses     types, fence, records, now, rights, clock, notifications, stalled_jobs, bullmq_meta
-- Safe     fenced; compares each job with its decision; checks preconditions and rights of all jobs before the first write; adds
--          before it removes, the records first. Only listeners miss an event, so a stream without further ids keeps no job from its move.
-- Cost     as bull_settle
local wanted = {{'stalled', KEYS[2], 'set'}, {'active', KEYS[3], 'list'}, {'wait', KEYS[4], 'list'}, {'paused', KEYS[5], 'list'},
    {KEYS[6], KEYS[6], 'hash'}, {'marker', KEYS[7], 'zset'}, {'events', KEYS[8], 'stream'}, {'repeat', KEYS[9], 'zset'},
    {'failures', KEYS[10], 'stream'}, {'meta', KEYS[11], 'hash'}}
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local queue = bullmq_meta(KEYS[6], KEYS[4], KEYS[5])
refusal = bullmq_unfit(queue, KEYS[6])
if refusal then return refusal end
local began = clock_us()
local COUNTER, FLAGS, ERROR, RJK, RECORD = 1, 2, 3, 4, 5
local form, first_job = record_form(6)

local jobs, key = {}, 12
local function next_key()
    key = key + 1
    return KEYS[key - 1]
end
for at = first_job, #ARGV, RECORD + #form.names do
    local function has(flag) return string.find(ARGV[at + FLAGS], flag, 1, true) ~= nil end
    jobs[#jobs + 1] = {at = at, id = ARGV[at], hash = next_key(), lock = next_key(), ends = has('b'), fails = has('f'),
        scheduler = has('s') and next_key()}
end
local stalled = stalled_jobs(jobs, KEYS[2], KEYS[3], tonumber(ARGV[4]), tonumber(ARGV[5]))
local now, most = now_ms(), tonumber(ARGV[2])
local bytes, length = stream_bytes(KEYS[10], KEYS[11], {})

-- Returns why the job stays where it is; nil = its writes may begin.
local function refused(job)
    local why = stalled.refused(job)
    if why then return why end
    local fields = redis.pcall('HMGET', job.hash, 'name', 'stc', 'rjk') -- an error: the key is no hash
    local is_job = not fields.err and fields[1]
    if not is_job == not job.ends then return 'changed' end
    job.counter = is_job and fields[2] or ''
    if is_job and (job.counter ~= ARGV[job.at + COUNTER] or (fields[3] or '') ~= ARGV[job.at + RJK]) then return 'changed' end
    job.repeats = job.scheduler and
        (redis.call('EXISTS', job.scheduler) == 1 or redis.call('ZSCORE', KEYS[9], ARGV[job.at + RJK])) -- the zset: schedulers of BullMQ 4
    job.record = new_record(now, form, job.at + RECORD)
    if job.ends then
        job.record[#job.record + 1] = 'error'
        job.record[#job.record + 1] = ARGV[job.at + ERROR]
    end
    local total = bytes + record_bytes(job.record)
    local room = total <= most
    if job.ends and not room then return 'full' end
    local missing = missing_right({{'XADD', room and KEYS[10]}, {'HSET', room and KEYS[11]}, {'HSET', not job.ends and job.hash},
        {'RPUSH', not job.ends and queue.target}, {'ZADD', not job.ends and KEYS[7]}, {'XADD', not job.ends and KEYS[8]},
        {'LREM', KEYS[3]}, {'SREM', KEYS[2]}})
    if missing then return missing end
    if room then bytes = total else job.record = nil end
end

local settled, at_once = stalled.settled(refused)
local active = redis.call('LLEN', KEYS[3])
local kept = record_jobs(KEYS[10], KEYS[11], settled, bytes, length)
local back = {}
for _, job in ipairs(kept) do
    if not job.ends then
        redis.call('HSET', job.hash, 'stc', string.format('%.0f', number(job.counter) + 1))
        if job.fails and not job.repeats then redis.call('HSET', job.hash, 'defa', ARGV[job.at + ERROR]) end
        back[#back + 1] = job.id
    end
end
if #back > 0 then
    redis.call('RPUSH', queue.target, unpack(back))
    if not queue.rests(active - #kept) then redis.call('ZADD', KEYS[7], 0, '0') end
end
for _, id in ipairs(back) do
    redis.pcall('XADD', KEYS[8], '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
    redis.pcall('XADD', KEYS[8], '*', 'event', 'stalled', 'jobId', id)
end
stalled.remove(kept, at_once, ARGV[1])
notify(ARGV[3], KEYS[11], now, kept)
return {'settled', us_since(began), 0, answers_of(jobs)}
