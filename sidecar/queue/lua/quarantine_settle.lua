#!lua flags=allow-oom
-- quarantine_settle: ends what a promote has put aside, with a record; or dispatches it; or only forgets that it was put aside.
--
-- KEYS[1]  lock
-- KEYS[2]  aside     zset
-- KEYS[3]  delayed   zset
-- KEYS[4]  events    hash; delayed again where there is none (bull)
-- KEYS[5]  ready     push: list; end: list in which it may wait for a worker still; else delayed again
-- KEYS[6]  job       end: the hash of a job that must still have no `name` (bull); else delayed again
-- KEYS[7]  failures  stream
-- KEYS[8]  meta      hash of ours; fields `bytes` and `entries` as settle.lua counts them
-- ARGV[1]  token
-- ARGV[2]  member
-- ARGV[3]  score     in delayed, as it was read; '' = it was not there
-- ARGV[4]  envelope  end, push: as it was read; '' where there is no hash
-- ARGV[5]  verdict   'end', 'push' or 'forget'
-- ARGV[6]  next      push: the envelope of the next attempt; end: the one that waits, if it does
-- ARGV[7]  delay     push: ms until then
-- ARGV[8]  last      push: '.5' when it is the last one, else ''
-- ARGV[9]  most      bytes that the stream may hold
-- ARGV[10+] names and values of the record; 'at' is added here
-- Reply    {'settled', 1}, {'changed'} its score, its envelope or `job`, {'alive'} it waits, or its list is too long to tell, {'full'} the stream, {'fenced'}, {'type', key, found}
-- Uses     types, fence, records, now
-- Safe     fenced; by compare of score and envelope; all preconditions before the first write; adds before it removes. A push is
--          scheduled first: refused, it is tried again when it is due next. What removes comes last, so it is tried first, on a key of
--          ours that never exists: a right that was taken away meanwhile must not leave the record of a job that is there still.
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
if verdict == 'end' and KEYS[5] ~= KEYS[3] then
    if redis.call('LLEN', KEYS[5]) > 2000 or redis.call('LPOS', KEYS[5], ARGV[6], 'RANK', -1) then return {'alive'} end
end

local now = tonumber(now_ms())
if verdict == 'push' then
    redis.call('ZADD', KEYS[3], string.format('%.0f', now + tonumber(ARGV[7])) .. ARGV[8], member)
    redis.call('LPUSH', KEYS[5], ARGV[4])
    redis.call('HSET', KEYS[4], member, ARGV[6])
    redis.call('ZREM', KEYS[2], member)
    return {'settled', 1}
end
local record = {'at', string.format('%.0f', now), unpack(ARGV, 10)}
local bytes, length = stream_bytes(KEYS[7], KEYS[8], record)
if bytes > tonumber(ARGV[9]) then return {'full'} end
redis.call('ZREM', KEYS[8] .. ':none', '')
if events then redis.call('HDEL', KEYS[8] .. ':none', '') end
redis.call('XADD', KEYS[7], '*', unpack(record))
redis.call('HSET', KEYS[8], 'bytes', string.format('%.0f', bytes), 'entries', length + 1)
redis.call('ZREM', KEYS[3], member)
if events then redis.call('HDEL', KEYS[4], member) end
redis.call('ZREM', KEYS[2], member)
return {'settled', 1}
