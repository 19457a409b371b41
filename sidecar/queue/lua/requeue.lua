#!lua
-- requeue: puts the job of a recorded failure back among the ready ones, or notes that nobody wants it any more: at most once.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its mark, '<requeued or discarded> <when, ms> <by whom>'
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  ready     list that takes the job; a discarded one goes nowhere
-- KEYS[5]  stamps    hash of that list's queue
-- KEYS[6]  births    meta of that list's queue; field `life`: the last life given
-- ARGV[1]  event     the field in requeued
-- ARGV[2]  what      'requeued' or 'discarded'
-- ARGV[3]  by        who wants it
-- ARGV[4]  again     '1': although there is a mark
-- ARGV[5]  job
-- ARGV[6]  digest    its field in stamps; '' = it needs no stamp
-- ARGV[7]  size      bytes of all values of the record
-- ARGV[8+] names and values of the record; 'at' is added here
-- Reply    {'done'}, {'unrecorded', why}     it is in the list, but the stream did not take the record
--          {'known', mark}, {'failed', why}  nothing was done
--          {'type', key, found}
-- Safe     not fenced, by compare: the mark lets one caller through, whoever leads. Everything is looked at before the first write;
--          the mark comes before the push, and goes again when the push is refused, so a job is never there twice and never without
--          a mark. Without allow-oom: a full Redis refuses all of it. A stamp begins the job's new life: see stamp.lua for its bytes.
local again, requeues, stamps = ARGV[4] == '1', ARGV[2] == 'requeued', ARGV[6] ~= ''
local mark = redis.pcall('HGET', KEYS[1], ARGV[1])
local meta = redis.pcall('HMGET', KEYS[3], 'bytes', 'life')
local births = KEYS[6] == KEYS[3] and meta or redis.pcall('HMGET', KEYS[6], 'bytes', 'life')
local function refusal(reply) return type(reply) == 'table' and reply.err or nil end

-- A hash that can be read is one; the others are asked.
local refused = refusal(mark) and mark or meta.err and meta or births.err and births
local wanted = {{'failures', KEYS[2], 'stream'}, {'ready', KEYS[4], 'list'}}
if stamps or refused then wanted[3] = {'stamps', KEYS[5], 'hash'} end
if refused then
    wanted[4], wanted[5], wanted[6] = {'requeued', KEYS[1], 'hash'}, {'meta', KEYS[3], 'hash'}, {'births', KEYS[6], 'hash'}
end
for _, want in ipairs(wanted) do
    local found = redis.call('TYPE', want[2]).ok
    if found ~= 'none' and found ~= want[3] then return {'type', want[1], found} end
end
if refused then return refused end
if mark and not again then return {'known', mark} end
local function number(text) return tonumber(string.match(text or '', '^%d+$')) or 0 end
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = math.floor(now_us / 1000)
local at = string.format('%.0f', now_ms)
local function take_back(why)
    local kept
    if mark then
        kept = refusal(redis.pcall('HSET', KEYS[1], ARGV[1], mark))
    else
        kept = refusal(redis.pcall('HDEL', KEYS[1], ARGV[1]))
    end
    return {'failed', kept and why .. '; its mark could not be taken back (' .. kept .. '): use --again' or why}
end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. at .. ' ' .. ARGV[3])
if requeues then
    local why = refusal(redis.pcall('LPUSH', KEYS[4], ARGV[5]))
    if why then return take_back(why) end
    if stamps then
        local born = math.max(now_us, number(births[2]) + 1)
        redis.pcall('HSET', KEYS[5], ARGV[6], struct.pack('>I8I6I6I2I6', born, 0, 0, 32768, now_ms))
        redis.pcall('HSET', KEYS[6], 'life', string.format('%.0f', born))
    end
end
local why = refusal(redis.pcall('XADD', KEYS[2], '*', 'at', at, unpack(ARGV, 8)))
if why then return requeues and {'unrecorded', why} or take_back(why) end
redis.pcall('HSET', KEYS[3], 'bytes', string.format('%.0f', number(meta[1]) + #at + ARGV[7]))
return {'done'}
