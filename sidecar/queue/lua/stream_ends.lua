#!lua flags=no-writes
-- stream_ends: reads the first and last ids of many failure streams.
--
-- KEYS[1+] failures, meta   stream and hash of each queue, in turns
-- Reply    {now in ms, for each queue: entries, or '!' and the error; id of the oldest entry; last generated id; highest id that
--          trim has removed; counted bytes of all values}; 0-0 = no such id
-- Uses     now
-- Safe     reads only; an error of one key leaves the others valid.
local reply = {now_ms()}
for i = 1, #KEYS, 2 do
    local type = redis.call('TYPE', KEYS[i]).ok
    local length, first, last = '0', '0-0', '0-0'
    if type == 'stream' then
        local info = redis.pcall('XINFO', 'STREAM', KEYS[i])
        if info.err then
            length = '!' .. info.err
        else
            for at = 1, #info, 2 do
                local value = info[at + 1]
                if info[at] == 'length' then length = string.format('%.0f', value) end
                if info[at] == 'last-generated-id' then last = value end
                if info[at] == 'first-entry' and value then first = value[1] end
            end
        end
    elseif type ~= 'none' then
        length = '!holds a ' .. type .. ' where a stream is wanted'
    end
    local meta = redis.pcall('HMGET', KEYS[i + 1], 'trimmed', 'bytes')
    if meta.err then length = '!' .. meta.err end
    for _, text in ipairs({length, first, last, meta[1] or '0-0', meta[2] or '0'}) do reply[#reply + 1] = text end
end
return reply
