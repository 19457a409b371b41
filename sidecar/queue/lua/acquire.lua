#!lua flags=allow-oom
-- acquire: acquires the lock, or returns its holder and those of the caller's queues that the holder does not serve.
--
-- KEYS[1]  lock      string, the holder's token, with a TTL
-- KEYS[2]  served    hash: queue -> token of its last leader, '' = another group owns the queue; the field '' is
--                    '<token> <begin of the term, ms> <instance>', for people
-- KEYS[3]  standbys  hash: instance -> '<time of its last call, ms> <its ttl, ms>'
-- KEYS[4+] meta      hash of each queue; its field `group` is the owner
-- ARGV[1]  token     of the new term
-- ARGV[2]  ttl       ms
-- ARGV[3]  group     the caller's (with a lock for each queue: the name of the queue)
-- ARGV[4]  instance  the caller's name
-- ARGV[5+] name      of each queue, in the order of KEYS[4+]
-- Reply    held by another: {0, token, its PTTL in ms, name of a queue not served, ...}
--          acquired:        {1, token, ttl, index of a queue that another group owns (from 0), that group or '', ...}
--                           ('' means: the meta key is no hash)
-- Optional HLEN
-- Uses     rights
-- Safe     by compare: never changes the lock of another token. The same token acquires again, so a caller that lost the reply
--          repeats the call. Does not take queues of another group (see claim). KEYS[3] is for people only: an
--          error of KEYS[3] does not fail the call, and the key expires.
local standbys, time = KEYS[3], redis.call('TIME')
local now = string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    local reply = {0, held, redis.call('PTTL', KEYS[1])}
    local names = {unpack(ARGV, 5)}
    local served = redis.call('HMGET', KEYS[2], unpack(names))
    for i, name in ipairs(names) do
        if served[i] ~= held then reply[#reply + 1] = name end
    end
    local added = redis.pcall('HSET', standbys, ARGV[4], now .. ' ' .. ARGV[2])
    local count = added == 1 and redis.pcall('HLEN', standbys)
    if type(count) == 'number' and count > 100 then redis.pcall('DEL', standbys) end -- live standbys write again
    redis.pcall('PEXPIRE', standbys, string.format('%.0f', math.max(60000, 2 * tonumber(ARGV[2]))))
    return reply
end
local was = redis.pcall('HGET', KEYS[2], '')
local term, since = string.match(type(was) == 'string' and was or '', '^(%S+) (%d+) ')
if term ~= ARGV[1] then since = now end
local reply = {1, ARGV[1], tonumber(ARGV[2])}
local fields = {'', ARGV[1] .. ' ' .. since .. ' ' .. ARGV[4]}
local own, calls = {}, {{'SET', KEYS[1]}, {'DEL', KEYS[2]}, {'DEL', not held and standbys}, {'HSET', KEYS[2]}}
for i = 4, #KEYS do
    local type = redis.call('TYPE', KEYS[i]).ok
    local owner = ''
    if type == 'none' or type == 'hash' then owner = redis.call('HGET', KEYS[i], 'group') or ARGV[3] end
    fields[#fields + 1] = ARGV[i + 1]
    fields[#fields + 1] = owner == ARGV[3] and ARGV[1] or ''
    if owner == ARGV[3] then
        own[#own + 1] = KEYS[i]
        calls[#calls + 1] = {'HSET', KEYS[i]}
    else
        reply[#reply + 1] = i - 4
        reply[#reply + 1] = owner
    end
end
local refusal = missing_right(calls)
if refusal then return refusal end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[2]) end -- the sidecar's own key
redis.call('HSET', KEYS[2], unpack(fields))
if redis.pcall('HLEN', KEYS[2]) ~= #fields / 2 then -- it may have queues that left the configuration
    redis.call('DEL', KEYS[2]) -- while its slot is being moved, Redis refuses to make a missing key again
    redis.call('HSET', KEYS[2], unpack(fields))
end
if not held then redis.call('DEL', standbys) end -- live standbys write again within a TTL
for _, key in ipairs(own) do redis.call('HSET', key, 'group', ARGV[3]) end
return reply
