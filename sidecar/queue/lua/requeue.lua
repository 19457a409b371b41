#!lua
-- requeue: pushes the job of a recorded failure to its ready list, or marks the failure as discarded, at most once.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its marker '<requeued or discarded> <when, ms> <by whom>'
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  ready     list that takes the job, unless discarded
-- KEYS[5]  stamps    hash of that list's queue
-- KEYS[6]  births    meta of that list's queue; field `life`: the last life given
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
-- ARGV[9+] names and values of the record; this script adds 'at'
-- Reply    {'done'}, {'unrecorded', why}     the job is in the list, but the stream refused the record
--          {'known', marker}, {'failed', why}, {'waiting', ''} KEYS[7] has mark_id: nothing was done
--          {'type', key, found}
-- Optional SADD, SISMEMBER, SREM
-- Uses     requeues
-- Safe     not fenced: the marker admits one caller, under any leader. Checks everything before the first write. Writes the
--          marker before the push, and removes the marker if Redis refuses the push. So no job comes twice or without a
--          marker. Removes the dead letter last, by pcall, so a refusal only keeps the letter. Has no allow-oom, so a full
--          Redis refuses the script. The stamp begins a new life (stamp.lua).
local again, requeues, stamps = ARGV[4] == '1', ARGV[2] == 'requeued', ARGV[6] ~= ''
local mark = redis.pcall('HGET', KEYS[1], ARGV[1])
local meta = redis.pcall('HMGET', KEYS[3], 'bytes', 'life')
local births = KEYS[6] == KEYS[3] and meta or redis.pcall('HMGET', KEYS[6], 'bytes', 'life')
local stream, list = redis.call('TYPE', KEYS[2]).ok, redis.call('TYPE', KEYS[4]).ok
local hash = stamps and redis.call('TYPE', KEYS[5]).ok or 'none'
local marked, letters = KEYS[7] ~= KEYS[1], KEYS[8] ~= KEYS[1]
local dead = letters and redis.call('TYPE', KEYS[8]).ok or 'none'
local waits = marked and redis.pcall('SISMEMBER', KEYS[7], ARGV[8])
local refused = type(waits) == 'table' and waits or type(mark) == 'table' and mark or meta.err and meta or births.err and births
if refused or (stream ~= 'stream' and stream ~= 'none') or (list ~= 'list' and list ~= 'none') or (hash ~= 'hash' and hash ~= 'none')
    or (dead ~= 'list' and dead ~= 'none') then
    for _, want in ipairs({{KEYS[1], 'hash'}, {KEYS[2], 'stream'}, {KEYS[3], 'hash'}, {KEYS[4], 'list'}, {KEYS[5], 'hash'},
        {KEYS[6], 'hash'}, {KEYS[7], marked and 'set' or 'hash'}, {KEYS[8], letters and 'list' or 'hash'}}) do
        local found = redis.call('TYPE', want[1]).ok
        if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
    end
    return refused
end
if mark and not again then return {'known', mark} end
if waits == 1 and not again then return {'waiting', ''} end
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = math.floor(now_us / 1000)
local at = string.format('%.0f', now_ms)

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. at .. ' ' .. ARGV[3])
if requeues then
    local added = marked and redis.pcall('SADD', KEYS[7], ARGV[8])
    if type(added) == 'table' then return take_back(mark, added.err) end
    local pushed = redis.pcall('LPUSH', KEYS[4], ARGV[5])
    if type(pushed) == 'table' then
        if added == 1 then redis.pcall('SREM', KEYS[7], ARGV[8]) end
        return take_back(mark, pushed.err)
    end
    if stamps then
        local born = math.max(now_us, (tonumber(string.match(births[2] or '', '^%d+$')) or 0) + 1)
        redis.pcall('HSET', KEYS[5], ARGV[6], struct.pack('>I8I6I6I2I6', born, 0, 0, 32768, now_ms))
        redis.pcall('HSET', KEYS[6], 'life', string.format('%.0f', born))
    end
    if dead == 'list' then redis.pcall('LREM', KEYS[8], 1, ARGV[5]) end
    if letters and not redis.pcall('LPOS', KEYS[8], ARGV[5]) then redis.pcall('ZREM', KEYS[9], redis.sha1hex(ARGV[5])) end
end
local reply = add_record(at, {unpack(ARGV, 9)}, ARGV[7])
return not requeues and reply[1] == 'unrecorded' and take_back(mark, reply[2]) or reply
