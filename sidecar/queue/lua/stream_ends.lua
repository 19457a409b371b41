#!lua flags=no-writes
-- stream_ends: where the failure streams of many queues begin and end.
--
-- KEYS[1+] failures, meta   stream and hash of each queue, in turns
-- Reply    {now in ms, for each queue: entries or '!' and the error, id of its oldest entry, last id it ever gave, highest id that
--          trim has removed, bytes that are counted of its values}; where there is no such id it is 0-0
-- Uses     now
-- Safe     reads only; one key of the wrong type spoils no other.
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
