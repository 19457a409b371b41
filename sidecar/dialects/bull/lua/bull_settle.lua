#!lua flags=allow-oom
-- bull_settle: retries or ends one stalled job of a Bull 4 queue, with a record in the failure stream.
--
-- KEYS[1]  lock
-- KEYS[2]  stalled   set; the id must still be marked; the mark of an id that is not active is removed
-- KEYS[3]  active    list
-- KEYS[4]  wait      list
-- KEYS[5]  paused    list
-- KEYS[6]  meta-paused
-- KEYS[7]  failed    zset
-- KEYS[8]  recorded  the sidecar's zset: `<id>:<score>` of recorded failures; see bull_seen
-- KEYS[9]  failures  stream
-- KEYS[10] meta      fields `bytes`: of all values in the stream, and `entries`: their number when `bytes` was written
-- KEYS[11] job       hash; the key is the queue's prefix and the id
-- KEYS[12] job lock
-- KEYS[13] job logs
-- KEYS[14] debounce  `de:` and the job's deid; the lock again if it has none
-- ARGV[1]  token
-- ARGV[2]  id
-- ARGV[3]  counter   stalledCounter when the decision was made; '' = none
-- ARGV[4]  verdict   retry, end, or broken: end an id that names no job
-- ARGV[5]  error     of an end: for the record, and for failedReason
-- ARGV[6]  message   of an end, for the channel `failed`: JSON
-- ARGV[7]  remove    '1': the job's removeOnFail is true or 0, so an end deletes the job
-- ARGV[8]  most      bytes that the stream may hold
-- ARGV[9+] names and values of the record; this script adds 'at' and 'error'
-- Reply    as settle: settled, gone (its worker renewed the lock, or the job is finished), changed, alive (the lock exists), full,
--          fenced, type
-- Optional PUBLISH
-- Uses     types, fence, records, now, rights
-- Safe     fenced; compares the job with the decision; checks preconditions and rights before the first write; adds before it
--          removes, the record first; PUBLISH last and by pcall.
local broken = ARGV[4] == 'broken'
local wanted = {{'stalled', KEYS[2], 'set'}, {'active', KEYS[3], 'list'}, {'wait', KEYS[4], 'list'}, {'paused', KEYS[5], 'list'},
    {'meta-paused', KEYS[6], 'string'}, {'failed', KEYS[7], 'zset'}, {'recorded', KEYS[8], 'zset'},
    {'failures', KEYS[9], 'stream'}, {'meta', KEYS[10], 'hash'}}
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local id, ends = ARGV[2], ARGV[4] ~= 'retry'
if redis.call('SISMEMBER', KEYS[2], id) == 0 then return {'gone'} end
if not redis.call('LPOS', KEYS[3], id) then
    redis.call('SREM', KEYS[2], id) -- before 4.12.3 Bull keeps the mark of a finished job
    return {'gone'}
end
if redis.call('EXISTS', KEYS[12]) == 1 then return {'alive'} end
local is_job = redis.call('TYPE', KEYS[11]).ok == 'hash' and redis.call('HEXISTS', KEYS[11], 'name') == 1
if is_job == broken then return {'changed'} end
local counter = not broken and redis.call('HGET', KEYS[11], 'stalledCounter') or ''
if not broken and counter ~= ARGV[3] then return {'changed'} end

local now = now_ms()
local record = {'at', now, unpack(ARGV, 9)}
if ends then
    record[#record + 1] = 'error'
    record[#record + 1] = ARGV[5]
end
local bytes, length = stream_bytes(KEYS[9], KEYS[10], record)
local room = bytes <= tonumber(ARGV[8])
if ends and not room then return {'full'} end
local target = redis.call('EXISTS', KEYS[6]) == 1 and KEYS[5] or KEYS[4]
local fails, deletes = ends and not broken and ARGV[7] ~= '1', ends and not broken and ARGV[7] == '1'
local debounced = ends and not broken and KEYS[14] ~= KEYS[1] and redis.call('PTTL', KEYS[14])
debounced = debounced == 0 or debounced == -1 -- as Bull from 4.16 on: with this key Bull drops new jobs of that deid
refusal = missing_right({{'XADD', room and KEYS[9]}, {'HSET', room and KEYS[10]}, {'HSET', (fails or not ends) and KEYS[11]},
    {'RPUSH', not ends and target}, {'ZADD', fails and KEYS[8]}, {'ZADD', fails and KEYS[7]}, {'LREM', KEYS[3]}, {'SREM', KEYS[2]},
    {'DEL', deletes and KEYS[11]}, {'DEL', deletes and KEYS[13]}, {'DEL', debounced and KEYS[14]}})
if refusal then return refusal end

refusal = room and append_record(KEYS[9], KEYS[10], record, bytes, length)
if refusal and (ends or refusal.err) then return refusal end
room = room and not refusal
local count = string.format('%.0f', number(counter) + 1)
if not ends then
    redis.call('HSET', KEYS[11], 'stalledCounter', count)
    redis.call('RPUSH', target, id)
elseif fails then
    redis.call('HSET', KEYS[11], 'stalledCounter', count, 'failedReason', ARGV[5], 'finishedOn', now)
    redis.call('ZADD', KEYS[8], now, id .. ':' .. now)
    redis.call('ZADD', KEYS[7], now, id)
end
redis.call('LREM', KEYS[3], 1, id)
redis.call('SREM', KEYS[2], id)
if not ends then
    redis.pcall('PUBLISH', KEYS[2] .. '@', id)
elseif not broken then
    if deletes then redis.call('DEL', KEYS[11], KEYS[13]) end
    if debounced then redis.call('DEL', KEYS[14]) end
    redis.pcall('PUBLISH', KEYS[7], ARGV[6])
end
return {'settled', room and 1 or 0}
