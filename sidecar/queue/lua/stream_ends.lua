#!lua flags=no-writes
-- stream_ends: reads the first and last ids of many failure streams.
--
-- KEYS[1+] failures, meta   stream and hash of each queue, in turns
-- ARGV[1+] id        of each queue: an entry whose event id is wanted; '' or absent = none
-- Reply    {now in ms, for each queue: entries, or '!' and the error; id of the oldest entry; last generated id; highest id that
--          trim has removed; counted bytes of all values; event id of the wanted entry, '-' = the entry has none, '' = no such
--          entry}; 0-0 = no such id
-- Uses     now
-- Safe     reads only; an error of one key leaves the others valid.
local reply = {now_ms()}
local function event_of(stream, id)
    local entry, event = redis.call('XRANGE', stream, id, id)[1], ''
    for at = 1, entry and #entry[2] or 0, 2 do
        if entry[2][at] == 'event' then event = entry[2][at + 1] end
    end
    return entry and event == '' and '-' or event
end
for i = 1, #KEYS / 2 do
    local stream, wanted = KEYS[2 * i - 1], ARGV[i] or ''
    local type = redis.call('TYPE', stream).ok
    local length, first, last, event = '0', '0-0', '0-0', ''
    if type == 'stream' then
        local info = redis.pcall('XINFO', 'STREAM', stream)
        if info.err then
            length = '!' .. info.err
        else
            for at = 1, #info, 2 do
                local value = info[at + 1]
                if info[at] == 'length' then length = string.format('%.0f', value) end
                if info[at] == 'last-generated-id' then last = value end
                if info[at] == 'first-entry' and value then first = value[1] end
            end
            if wanted ~= '' then event = event_of(stream, wanted) end
        end
    elseif type ~= 'none' then
        length = '!holds a ' .. type .. ' where a stream is wanted'
    end
    local meta = redis.pcall('HMGET', KEYS[2 * i], 'trimmed', 'bytes')
    if meta.err then length = '!' .. meta.err end
    for _, text in ipairs({length, first, last, meta[1] or '0-0', meta[2] or '0', event}) do reply[#reply + 1] = text end
end
return reply
