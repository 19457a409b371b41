#!lua flags=allow-oom
-- aside_settle: ends what a promote has set aside, with a record; or dispatches it; or only forgets that it was set aside.
--
-- KEYS[1]  lock
-- KEYS[2]  aside     zset
-- KEYS[3]  delayed   zset
-- KEYS[4]  events    hash; delayed again where there is none (bull)
-- KEYS[5]  target    push: list; else delayed again
-- KEYS[6]  job       bull: the hash that must still hold no job; else delayed again
-- KEYS[7]  failures  stream
-- KEYS[8]  meta      hash of ours; field `bytes`
-- ARGV[1]  token
-- ARGV[2]  member
-- ARGV[3]  score     in delayed, as it was read; '' = it was not there
-- ARGV[4]  envelope  as it was read
-- ARGV[5]  verdict   end, push or forget
-- ARGV[6]  next      push: the envelope of the next attempt
-- ARGV[7]  delay     push: ms until then
-- ARGV[8]  last      push: '.5' when it is the last one, else ''
-- ARGV[9]  most      bytes that the stream may hold
-- ARGV[10+] names and values of the record
-- Reply    as settle
-- Safe     fenced; by compare of score and envelope; adds before it removes.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
local events, verdict = KEYS[4] ~= KEYS[3], ARGV[5]
local wanted = {{'aside', 2, 'zset'}, {'delayed', 3, 'zset'}, {'failures', 7, 'stream'}, {'meta', 8, 'hash'}}
if events then wanted[#wanted + 1] = {'events', 4, 'hash'} end
if verdict == 'push' then wanted[#wanted + 1] = {'ready', 5, 'list'} end
for _, want in ipairs(wanted) do
    local found = redis.call('TYPE', KEYS[want[2]]).ok
    if found ~= 'none' and found ~= want[3] then return {'type', want[1], found} end
end
local member = ARGV[2]
if (redis.call('ZSCORE', KEYS[3], member) or '') ~= ARGV[3] then return {'changed'} end
if events and (redis.call('HGET', KEYS[4], member) or '') ~= ARGV[4] then return {'changed'} end
if KEYS[6] ~= KEYS[3] and verdict == 'end' then
    local job = redis.pcall('HEXISTS', KEYS[6], 'name')
    if job == 1 then return {'changed'} end
end
if verdict == 'forget' then
    redis.call('ZREM', KEYS[2], member)
    return {'settled', 1}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if verdict == 'push' then
    redis.call('LPUSH', KEYS[5], ARGV[4])
    redis.call('HSET', KEYS[4], member, ARGV[6])
    redis.call('ZADD', KEYS[3], string.format('%.0f', now + tonumber(ARGV[7])) .. ARGV[8], member)
    redis.call('ZREM', KEYS[2], member)
    return {'settled', 1}
end
local at = string.format('%.0f', now)
local bytes = #at + (tonumber(string.match(redis.call('HGET', KEYS[8], 'bytes') or '', '^%d+$')) or 0)
for i = 11, #ARGV, 2 do bytes = bytes + #ARGV[i] end
if bytes > tonumber(ARGV[9]) then return {'full'} end
redis.call('XADD', KEYS[7], '*', 'at', at, unpack(ARGV, 10))
redis.call('HSET', KEYS[8], 'bytes', string.format('%.0f', bytes))
redis.call('ZREM', KEYS[3], member)
if events then redis.call('HDEL', KEYS[4], member) end
redis.call('ZREM', KEYS[2], member)
return {'settled', 1}
