#!lua
-- bullmq_requeue: requeues a failed job of a BullMQ queue, as BullMQ's own Job.retry() does, at most once for each event.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its requeue marker, 'requeued <when, ms> <by whom>'
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  job       its hash
-- KEYS[5]  job lock
-- KEYS[6]  failed    zset
-- KEYS[7]  wait      list
-- KEYS[8]  paused    list; in BullMQ 5 in place of wait while the queue is paused
-- KEYS[9]  of bullmq hash `meta`: version, paused, concurrency, opts.maxLenEvents
-- KEYS[10] active    list
-- KEYS[11] delayed   zset
-- KEYS[12] id        string: the last number that BullMQ gave to a job
-- KEYS[13] prioritized  zset
-- KEYS[14] pc        string: counter of jobs with a priority
-- KEYS[15] marker    zset on which workers wait
-- KEYS[16] events    stream of BullMQ
-- KEYS[17] waiting   zset `waiting-children`
-- KEYS[18] parent    hash; KEYS[18] to KEYS[21] are of the parent of the job. If it has none, these are a key that does not exist
-- KEYS[19] unsuccessful  zset
-- KEYS[20] fails     hash `failed`
-- KEYS[21] dependencies  set
-- ARGV[1]  event     the field in requeued
-- ARGV[2]  by        operator
-- ARGV[3]  again     '1': ignore a marker
-- ARGV[4]  job       id of the job
-- ARGV[5]  made      `timestamp` of the job that failed, to detect another job with its id; '' = do not compare
-- ARGV[6]  lifo      '1': workers take the job next
-- ARGV[7]  parent    KEYS[18]; '' = none, or a key outside of the queues that the sidecar serves
-- ARGV[8]  size      bytes of all values of the record
-- ARGV[9]  fields    number of names and values that follow, for a hash that is gone
-- ARGV[10+] these, then names and values of the record; this script adds 'at'
-- Reply    as requeue, {'waiting', why}: nothing was done, because the job is not among the failed ones; {'unfit', why}: nothing was
--          done, because of its parent
-- Uses     types, now, requeues, erasures, bullmq_meta, rights, failed_jobs
-- Safe     as requeue: the marker admits one caller, and all checks, also of rights, come before the first write. The job is in wait
--          before it leaves failed. No allow-oom: a full Redis refuses the script.
local refusal, job = failed_job({{KEYS[9], 'hash'}, {KEYS[14], 'string'}, {KEYS[15], 'zset'}, {KEYS[16], 'stream'}, {KEYS[18], 'hash'},
    {KEYS[19], 'zset'}, {KEYS[20], 'hash'}, {KEYS[21], 'set'}}, {KEYS[11], KEYS[13], KEYS[17]}, {'priority', 'parentKey'},
    {unpack(ARGV, 10)})
if refusal then return refusal end
local id, there, parent = ARGV[4], job.there, job.there and job.values[4] or ''
if parent ~= '' and parent ~= ARGV[7] then
    return {'unfit', 'its parent ' .. string.sub(parent, 1, 128) .. ' is in no bullmq queue of this config'}
end

local queue = bullmq_meta(KEYS[9], KEYS[7], KEYS[8])
local rests = queue.rests(redis.call('LLEN', KEYS[10]))
local priority = there and job.values[3] or '0'
for i = 1, there and 0 or #job.fields, 2 do
    if job.fields[i] == 'priority' then priority = job.fields[i + 1] end
end
priority = queue.version >= 6000003000015 and tonumber(priority) or 0 -- before 6.3.15 BullMQ's own script ignores it
local ordered = priority ~= 0 and priority == priority
local count = bullmq_number(KEYS[14]) + 1
local target = queue.target
local at = now_ms()
local push = ARGV[6] == '1' and 'RPUSH' or 'LPUSH'
local waits = parent ~= '' and redis.call('EXISTS', KEYS[18]) == 1
local unsuccessful = waits and redis.call('ZSCORE', KEYS[19], KEYS[4])
local fails = waits and not unsuccessful and redis.call('HEXISTS', KEYS[20], KEYS[4]) == 1
refusal = missing_right({{'XADD', KEYS[2]}, {'HSET', KEYS[3]}, {'HSET', KEYS[1]}, {'HSET', not there and KEYS[4]},
    {'SET', job.raises and KEYS[12]}, {'SET', ordered and KEYS[14]}, {'ZADD', ordered and KEYS[13]}, {push, not ordered and target},
    {'ZADD', not rests and KEYS[15]}, {'SADD', (unsuccessful or fails) and KEYS[21]}, {'XADD', KEYS[16]}, {'HDEL', KEYS[4]},
    {'ZREM', KEYS[6]}, {'ZREM', unsuccessful and KEYS[19]}, {'HDEL', fails and KEYS[20]}})
if refusal then return refusal end

add_record(at, 'requeued ' .. at .. ' ' .. ARGV[2], job.record, ARGV[8])
if not there then redis.call('HSET', KEYS[4], unpack(job.fields)) end
if job.raises then redis.call('SET', KEYS[12], id) end
if ordered then
    redis.call('SET', KEYS[14], string.format('%.0f', count))
    redis.call('ZADD', KEYS[13], bullmq_score(priority, count), id)
elseif push == 'RPUSH' then
    redis.call('RPUSH', target, id)
else
    redis.call('LPUSH', target, id)
end
if not rests then redis.call('ZADD', KEYS[15], 0, '0') end
if unsuccessful or fails then redis.call('SADD', KEYS[21], KEYS[4]) end
redis.call('HDEL', KEYS[4], 'finishedOn', 'processedOn', 'failedReason', 'defa')
redis.call('ZREM', KEYS[6], id)
if unsuccessful then redis.call('ZREM', KEYS[19], KEYS[4]) end
if fails then redis.call('HDEL', KEYS[20], KEYS[4]) end
-- Only listeners miss an event. A stream without further ids must not keep the job from its removal.
redis.pcall('XADD', KEYS[16], 'MAXLEN', '~', queue.most, '*', 'event', 'waiting', 'jobId', id, 'prev',
    'failed')
return {'done'}
