#!lua
-- stream_requeue: adds an entry for a recorded failure to its stream, at most once for each failure.
--
-- KEYS[1]  requeued  hash: first 16 bytes of a failed event's id -> its requeue marker, as requeue.lua writes it
-- KEYS[2]  failures  stream that takes the record
-- KEYS[3]  meta      hash of that stream's queue; field `bytes`: of all values in the stream
-- KEYS[4]  stream    that takes the entry
-- KEYS[5]  stamps    hash of that stream's queue
-- KEYS[6]  births    meta of that queue; field `life`: the last birth given
-- ARGV[1]  event     the field in requeued
-- ARGV[2]  by        operator
-- ARGV[3]  again     '1': ignore a requeue marker
-- ARGV[4]  digest    its field in stamps; '' = without a stamp
-- ARGV[5]  group     which must be the stream's only one
-- ARGV[6]  size      bytes of all values of the record
-- ARGV[7]  fields    number of names and values of the entry
-- ARGV[8+] these, then names and values of the record; this script adds 'at'
-- Reply    as requeue; {'unfit', why} if the stream has no such group, or has others, too
-- Uses     types, requeues, erasures, rights, groups
-- Safe     as requeue: the marker admits one caller, and all checks, also of rights, come before the first write. Only XADD notices a stream
--          that is out of ids: then the entry that came first goes again, before a worker sees it. No allow-oom: a full Redis refuses the
--          script.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'hash'}, {KEYS[2], KEYS[2], 'stream'}, {KEYS[3], KEYS[3], 'hash'},
    {KEYS[4], KEYS[4], 'stream'}, {KEYS[5], KEYS[5], 'hash'}, {KEYS[6], KEYS[6], 'hash'}})
if refusal then return refusal end
refusal = answered(true, ARGV[3] == '1')
if refusal then return refusal end
local group, why = only_group(KEYS[4], ARGV[5])
if not group then return why.unfit and {'unfit', why.err} or why end
local fields, record, stamps = {}, {}, ARGV[4] ~= ''
for i = 8, #ARGV do
    local to = #fields < tonumber(ARGV[7]) and fields or record
    to[#to + 1] = ARGV[i]
end
refusal = missing_right({{'XADD', KEYS[2]}, {'HSET', KEYS[3]}, {'HSET', KEYS[1]}, {'XADD', KEYS[4]}, {'XDEL', KEYS[4]}, {'HSET', stamps and KEYS[5]},
    {'HSET', stamps and KEYS[6]}})
if refusal then return refusal end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local at = string.format('%.0f', now_ms)
local number = tonumber(string.match(redis.call('HGET', KEYS[6], 'life') or '', '%d%d?%d?$')) or 0
local id = redis.call('XADD', KEYS[4], '*', unpack(fields))
local recorded, failure = pcall(function() add_record(at, 'requeued ' .. at .. ' ' .. ARGV[2], record, ARGV[6]) end)
if not recorded then
    redis.call('XDEL', KEYS[4], id)
    return type(failure) == 'table' and failure or {err = failure}
end
if stamps then
    local birth = now_ms * 1000 + (number + 1) % 1000
    redis.call('HSET', KEYS[5], ARGV[4], struct.pack('>I8I6I6I2I6', birth, 0, 0, 32768, now_ms))
    redis.call('HSET', KEYS[6], 'life', string.format('%.0f', birth))
end
return {'done'}
