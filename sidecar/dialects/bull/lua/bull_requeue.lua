#!lua
-- bull_requeue: requeues a failed job of a Bull 4 queue, as Bull's own Job.retry() does, at most once for each event.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its requeue marker, 'requeued <when, ms> <by whom>'
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  job       its hash
-- KEYS[5]  job lock
-- KEYS[6]  failed    zset
-- KEYS[7]  wait      list
-- KEYS[8]  paused    list, in place of wait while meta-paused exists
-- KEYS[9]  meta-paused
-- KEYS[10] active    list
-- KEYS[11] delayed   zset
-- KEYS[12] id        string: the last number that Bull gave to a job
-- ARGV[1]  event     the field in requeued
-- ARGV[2]  by        operator
-- ARGV[3]  again     '1': ignore a marker
-- ARGV[4]  job       id of the job
-- ARGV[5]  made      `timestamp` of the job that failed, to detect another job with its id; '' = do not compare
-- ARGV[6]  lifo      '1': workers take the job next
-- ARGV[7]  stalls    maxStalledCount: reset the counter of a job that stalled more often, or its next stall would end it
-- ARGV[8]  size      bytes of all values of the record
-- ARGV[9]  fields    number of names and values that follow, for a hash that is gone
-- ARGV[10+] these, then names and values of the record; this script adds 'at'
-- Reply    as requeue, and {'waiting', why}: nothing was done, because the job is not among the failed ones
-- Optional PUBLISH
-- Uses     types, now, requeues, erasures, rights, failed_jobs
-- Safe     as requeue: the marker admits one caller, and all checks, also of rights, come before the first write. The job is in wait
--          before it leaves failed. No allow-oom: a full Redis refuses the script.
local refusal, job = failed_job({{KEYS[9], 'string'}}, {KEYS[11]}, {}, {unpack(ARGV, 10)})
if refusal then return refusal end
local at, id, stalls = now_ms(), ARGV[4], tonumber(ARGV[7])
local push = ARGV[6] == '1' and 'RPUSH' or 'LPUSH'
local target = redis.call('EXISTS', KEYS[9]) == 1 and KEYS[8] or KEYS[7]
refusal = missing_right({{'XADD', KEYS[2]}, {'HSET', KEYS[3]}, {'HSET', KEYS[1]}, {'HSET', KEYS[4]}, {'HGET', KEYS[4]},
    {'SET', job.raises and KEYS[12]}, {push, target}, {'HDEL', KEYS[4]}, {'ZREM', KEYS[6]}})
if refusal then return refusal end

add_record(at, 'requeued ' .. at .. ' ' .. ARGV[2], job.record, ARGV[8])
if not job.there then redis.call('HSET', KEYS[4], unpack(job.fields)) end
if job.raises then redis.call('SET', KEYS[12], id) end
if push == 'RPUSH' then redis.call('RPUSH', target, id) else redis.call('LPUSH', target, id) end
local counter = redis.call('HGET', KEYS[4], 'stalledCounter')
if (tonumber(counter or '') or 0) > stalls then redis.call('HSET', KEYS[4], 'stalledCounter', '0') end
redis.call('HSET', KEYS[4], 'retriedOn', at)
redis.call('HDEL', KEYS[4], 'finishedOn', 'processedOn', 'failedReason')
redis.call('ZREM', KEYS[6], id)
redis.pcall('PUBLISH', KEYS[7] .. 'ing@sidecar', id)
return {'done'}
