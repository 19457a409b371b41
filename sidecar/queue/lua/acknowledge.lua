#!lua flags=allow-oom
-- acknowledge: stores how far an auditor has copied failure streams, and that the auditor is alive.
--
-- KEYS[1+] auditors, failures, meta  of each queue, in turns; auditors: instance -> '<stream id> <time of the call, ms>'
-- ARGV[1]  instance
-- ARGV[2+] position  of each queue in the order of KEYS: everything up to this id is on the caller's disk
-- Reply    {now in ms, for each queue: 1 stored, 0 a higher id is stored (only the time changes), or '!' and the error}
-- Uses     ids, auditors, now, rights
-- Safe     by compare: the id of the caller's field only grows, while the stream is the same. An id above the last id of the stream
--          is of an earlier stream, so no log has the records up to this id: the script removes such fields. Of many fields it
--          looks at some, and trim.lua removes the others.
local now = now_ms()
local reply = {now}
local function stored_id(auditors)
    local ms, seq = string.match(redis.call('HGET', auditors, ARGV[1]) or '', '^(%d+)%-(%d+) ')
    return ms and {ms, seq}
end
local function remove_earlier(auditors, last)
    local some = some_auditors(auditors, now)
    for i = 1, #some, 2 do
        local ms, seq = string.match(some[i + 1], '^(%d+)%-(%d+) ')
        if ms and above({ms, seq}, last) then redis.call('HDEL', auditors, some[i]) end
    end
end
local calls = {}
for i = 1, #KEYS, 3 do
    calls[#calls + 1], calls[#calls + 2] = {'HSET', KEYS[i]}, {'HDEL', KEYS[i]}
end
local refusal = missing_right(calls)
if refusal then return refusal end
for i = 1, #KEYS / 3 do
    local auditors, stream, meta, position = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[i + 1]
    local type = redis.call('TYPE', auditors).ok
    local ms, seq = string.match(position, '^(%d+)%-(%d+)$')
    if type ~= 'none' and type ~= 'hash' then
        reply[i + 1] = '!holds a ' .. type .. ' where a hash is wanted'
    elseif not ms then
        reply[i + 1] = '!no stream id: ' .. position
    else
        local old = stored_id(auditors)
        if old and above(old, {ms, seq}) then
            local last = last_id(stream, meta)
            if last then remove_earlier(auditors, last) end
            if last and above(old, last) then old = nil end
        end
        local higher = old and above(old, {ms, seq})
        redis.call('HSET', auditors, ARGV[1], (higher and table.concat(old, '-') or position) .. ' ' .. now)
        reply[i + 1] = higher and 0 or 1
    end
end
return reply
