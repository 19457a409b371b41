#!lua flags=allow-oom
-- acknowledge: stores how far an auditor has copied failure streams, and that the auditor is alive.
--
-- KEYS[1+] auditors  hash of each queue: instance -> '<stream id> <time of the call, ms>'
-- ARGV[1]  instance
-- ARGV[2+] position  of each queue in the order of KEYS: everything up to this id is on the caller's disk
-- Reply    {now in ms, for each queue: 1 stored, 0 a higher id is stored (only the time changes), or '!' and the error}
-- Uses     ids, now
-- Safe     by compare: writes only the caller's field; the id in this field only grows.
local now = now_ms()
local reply = {now}
for i, key in ipairs(KEYS) do
    local type = redis.call('TYPE', key).ok
    local position = ARGV[i + 1]
    local ms, seq = string.match(position, '^(%d+)%-(%d+)$')
    if type ~= 'none' and type ~= 'hash' then
        reply[i + 1] = '!holds a ' .. type .. ' where a hash is wanted'
    elseif not ms then
        reply[i + 1] = '!no stream id: ' .. position
    else
        local old = redis.call('HGET', key, ARGV[1]) or ''
        local old_ms, old_seq = string.match(old, '^(%d+)%-(%d+) ')
        local order = old_ms and compare_digits(old_ms, ms) or -1
        if order == 0 then order = compare_digits(old_seq, seq) end
        if order == 1 then position = old_ms .. '-' .. old_seq end
        redis.call('HSET', key, ARGV[1], position .. ' ' .. now)
        reply[i + 1] = order == 1 and 0 or 1
    end
end
return reply
