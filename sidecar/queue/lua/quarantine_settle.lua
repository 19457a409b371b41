#!lua flags=allow-oom
-- quarantine_settle: ends a quarantined member with a record, or sends the member, or only removes the member from quarantine.
--
-- KEYS[1]  lock
-- KEYS[2]  aside     zset
-- KEYS[3]  delayed   zset
-- KEYS[4]  events    hash: member -> envelope; KEYS[3] again = the queue has no envelopes (bull)
-- KEYS[5]  ready     push: list; end: list in which the last push of the event may still wait; KEYS[3] again = none
-- KEYS[6]  job       end: the hash of a job that must still have no `name` (bull); KEYS[3] again = none
-- KEYS[7]  failures  stream
-- KEYS[8]  meta      hash; fields `bytes` and `entries` as settle.lua counts them
-- ARGV[1]  token
-- ARGV[2]  member
-- ARGV[3]  score     that was read in delayed; '' = not there
-- ARGV[4]  envelope  end, push: the envelope that was read; '' = no hash
-- ARGV[5]  verdict   'end', 'push' or 'forget'
-- ARGV[6]  next      push: the envelope of the next attempt
-- ARGV[7]  delay     push: ms until the next attempt
-- ARGV[8]  last      push: '.5' for the last push, else '.25'; ends the score
-- ARGV[9]  most      largest stream, bytes
-- ARGV[10] pushed    end, push: the envelope of the last push, for which KEYS[5] is searched; '' = none
-- ARGV[11+] names and values of the record; this script adds 'at'
-- Reply    {'settled', 1}, {'changed'} score, envelope or `job`, {'alive'} ARGV[10] waits, or its list is too long to search,
--          {'full'} the stream, {'fenced'}, {'type', key, found}
-- Uses     types, fence, records, now, rights
-- Safe     fenced; by compare of score and envelope; checks preconditions and rights before the first write; adds
--          before it removes. The record comes first: only XADD notices a stream that is out of ids.
local events, verdict, member = KEYS[4] ~= KEYS[3], ARGV[5], ARGV[2]
local wanted = {{'aside', KEYS[2], 'zset'}, {'delayed', KEYS[3], 'zset'}, {'failures', KEYS[7], 'stream'}, {'meta', KEYS[8], 'hash'}}
if events then wanted[#wanted + 1] = {'events', KEYS[4], 'hash'} end
if KEYS[5] ~= KEYS[3] then wanted[#wanted + 1] = {'ready', KEYS[5], 'list'} end
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
if (redis.call('ZSCORE', KEYS[3], member) or '') ~= ARGV[3] then return {'changed'} end
if verdict == 'forget' then
    redis.call('ZREM', KEYS[2], member)
    return {'settled', 1}
end
if events and (redis.call('HGET', KEYS[4], member) or '') ~= ARGV[4] then return {'changed'} end
if verdict == 'end' and KEYS[6] ~= KEYS[3] and type(redis.pcall('HGET', KEYS[6], 'name')) == 'string' then return {'changed'} end
if ARGV[10] ~= '' and (redis.call('LLEN', KEYS[5]) > 2000 or redis.call('LPOS', KEYS[5], ARGV[10], 'RANK', -1)) then
    return {'alive'}
end

local now = tonumber(now_ms())
if verdict == 'push' then
    refusal = missing_right({{'ZADD', KEYS[3]}, {'LPUSH', KEYS[5]}, {'HSET', KEYS[4]}, {'ZREM', KEYS[2]}})
    if refusal then return refusal end
    redis.call('ZADD', KEYS[3], string.format('%.0f', now + tonumber(ARGV[7])) .. ARGV[8], member)
    redis.call('LPUSH', KEYS[5], ARGV[4])
    redis.call('HSET', KEYS[4], member, ARGV[6])
    redis.call('ZREM', KEYS[2], member)
    return {'settled', 1}
end
local record = {'at', string.format('%.0f', now), unpack(ARGV, 11)}
local bytes, length = stream_bytes(KEYS[7], KEYS[8], record)
if bytes > tonumber(ARGV[9]) then return {'full'} end
refusal = missing_right({{'XADD', KEYS[7]}, {'HSET', KEYS[8]}, {'ZREM', KEYS[3]}, {'HDEL', events and KEYS[4]}, {'ZREM', KEYS[2]}})
if refusal then return refusal end
refusal = append_record(KEYS[7], KEYS[8], record, bytes, length)
if refusal then return refusal end
redis.call('ZREM', KEYS[3], member)
if events then redis.call('HDEL', KEYS[4], member) end
redis.call('ZREM', KEYS[2], member)
return {'settled', 1}
