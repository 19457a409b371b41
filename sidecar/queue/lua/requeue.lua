#!lua
-- requeue: pushes the job of a recorded failure to its ready list, or marks the failure as discarded, at most once.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its marker '<requeued or discarded> <when, ms> <by whom>'
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  ready     list that takes the job behind all that wait, unless discarded
-- KEYS[5]  stamps    hash of that list's queue
-- KEYS[6]  births    meta of that list's queue; field `life`: the last birth given
-- KEYS[7]  mark      set that gets mark_id with the job; KEYS[1] again = none
-- KEYS[8]  letters   list of dead letters that loses a requeued job; KEYS[1] again = none
-- KEYS[9]  recorded  zset; loses the job's SHA-1 when KEYS[8] has lost the job's last entry; KEYS[1] again = none
-- ARGV[1]  event     the field in requeued
-- ARGV[2]  what      'requeued' or 'discarded'
-- ARGV[3]  by        the operator
-- ARGV[4]  again     '1': even if the failure has a marker
-- ARGV[5]  job
-- ARGV[6]  digest    its field in stamps; '' = without a stamp
-- ARGV[7]  size      bytes of all values of the record
-- ARGV[8]  mark_id
-- ARGV[9]  take      'right' or 'left', the end of KEYS[4] from which workers take
-- ARGV[10+] names and values of the record; this script adds 'at'
-- Reply    {'done'}, {'known', marker}, {'erased', marker} of a requeue, {'waiting', why} KEYS[7] has mark_id: nothing was done
--          {'type', key, found}
-- Optional RPUSH, SADD, SISMEMBER
-- Uses     types, requeues, erasures, rights
-- Safe     not fenced: the marker admits one caller, under any leader. Checks everything, also the rights, before the first write.
--          So push, record and marker are written together or not at all: no job comes twice or without a marker. Removes the
--          dead letter last. Has no allow-oom, so a full Redis 7 refuses the script. The stamp begins a new life (stamp.lua).
local again, requeues, stamps = ARGV[4] == '1', ARGV[2] == 'requeued', ARGV[6] ~= ''
local left = ARGV[9] == 'left'
local marked, letters = KEYS[7] ~= KEYS[1], KEYS[8] ~= KEYS[1]
local wanted = {{KEYS[1], KEYS[1], 'hash'}, {KEYS[2], KEYS[2], 'stream'}, {KEYS[3], KEYS[3], 'hash'}, {KEYS[4], KEYS[4], 'list'},
    {KEYS[5], KEYS[5], 'hash'}, {KEYS[6], KEYS[6], 'hash'}, marked and {KEYS[7], KEYS[7], 'set'} or nil}
if letters then wanted[#wanted + 1], wanted[#wanted + 2] = {KEYS[8], KEYS[8], 'list'}, {KEYS[9], KEYS[9], 'zset'} end
local refusal = wrong_type(wanted)
if refusal then return refusal end
refusal = answered(requeues, again)
if refusal then return refusal end
if marked and not again and redis.call('SISMEMBER', KEYS[7], ARGV[8]) == 1 then
    return {'waiting', 'its id is taken, so its job may wait or run; use --again to push it all the same; the id is in ' .. KEYS[7]}
end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local at = string.format('%.0f', now_ms)
local number = tonumber(string.match(redis.call('HGET', KEYS[6], 'life') or '', '%d%d?%d?$')) or 0
letters, marked, stamps = requeues and letters, requeues and marked, requeues and stamps
local found = letters and #redis.call('LPOS', KEYS[8], ARGV[5], 'COUNT', 2) or 0
local last = letters and found < 2
refusal = missing_right({{'XADD', KEYS[2]}, {'HSET', KEYS[3]}, {'HSET', KEYS[1]}, {'SADD', marked and KEYS[7]},
    {'LPUSH', requeues and not left and KEYS[4]}, {'RPUSH', requeues and left and KEYS[4]}, {'HSET', stamps and KEYS[5]},
    {'HSET', stamps and KEYS[6]}, {'LREM', found > 0 and KEYS[8]}, {'ZREM', last and KEYS[9]}})
if refusal then return refusal end

add_record(at, ARGV[2] .. ' ' .. at .. ' ' .. ARGV[3], {unpack(ARGV, 10)}, ARGV[7])
if marked then redis.call('SADD', KEYS[7], ARGV[8]) end
if requeues and left then
    redis.call('RPUSH', KEYS[4], ARGV[5])
elseif requeues then
    redis.call('LPUSH', KEYS[4], ARGV[5])
end
if stamps then
    local birth = now_ms * 1000 + (number + 1) % 1000
    redis.call('HSET', KEYS[5], ARGV[6], struct.pack('>I8I6I6I2I6', birth, 0, 0, 32768, now_ms))
    redis.call('HSET', KEYS[6], 'life', string.format('%.0f', birth))
end
if found > 0 then redis.call('LREM', KEYS[8], 1, ARGV[5]) end
if last then redis.call('ZREM', KEYS[9], redis.sha1hex(ARGV[5])) end
return {'done'}
