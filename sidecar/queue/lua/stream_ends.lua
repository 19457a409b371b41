#!lua flags=no-writes
-- stream_ends: reads the first and last ids of failure streams. Redis gives an entry only as a whole, so the script ends behind a
-- queue that made it read many bytes, and leaves the next ones to another call.
--
-- KEYS[1+] failures, meta   stream and hash of each queue, in turns
-- ARGV[1+] id, after  of each queue, in turns: an entry whose event id is wanted; '' = none. The id of the oldest entry is wanted if
--                     the stream has given an id above `after`; '' = in any case. Not wanted if an erasure has removed an id at or
--                     above `after`: then a missing entry proves nothing
-- Reply    {now in ms, for each queue that was read: entries, or '!' and the error; id of the oldest entry; last generated id; highest
--          id that trim has removed; counted bytes of all values; event id of the wanted entry, '-' = the entry has none, '' = no
--          such entry}; 0-0 = no such id, or not wanted
-- Uses     now, ids
-- Safe     reads only; an error of one key leaves the others valid.
local MOST = 131072 -- bytes; the entry that exceeds them is the last one
local reply, bytes = {now_ms()}, 0
local function read_entry(stream, from, to)
    local some = redis.pcall('XRANGE', stream, from, to, 'COUNT', 1)
    for i = 2, some[1] and #some[1][2] or 0, 2 do bytes = bytes + #some[1][2][i] end
    return some[1], some.err
end
-- Returns the event, and the error of the read: it does not mean that there is no such entry.
local function event_of(stream, id)
    local entry, failure = read_entry(stream, id, id)
    local event = ''
    for at = 1, entry and #entry[2] or 0, 2 do
        if entry[2][at] == 'event' then event = entry[2][at + 1] end
    end
    return entry and event == '' and '-' or event, failure
end
-- Returns the first and the last id, or nil and the error.
local function ends_of(stream, meta, length, after, erased)
    local last, asked, refusal = last_id(stream, meta)
    if not last then return nil, refusal end
    if asked and length > 0 then bytes = MOST + 1 end -- XINFO has read two entries
    local ms, seq = string.match(after, '^(%d+)%-(%d+)$')
    local erased_ms, erased_seq = string.match(erased or '', '^(%d+)%-(%d+)$')
    local hidden = ms and (not above(last, {ms, seq}) or (erased_ms and not above({ms, seq}, {erased_ms, erased_seq})))
    if length == 0 or hidden then return '0-0', table.concat(last, '-') end
    local entry, failure = read_entry(stream, '-', '+')
    if not entry then return nil, failure or 'no entry' end
    return entry[1], table.concat(last, '-')
end
for i = 1, #KEYS / 2 do
    local at = 2 * i
    local stream, meta_key, wanted, after = KEYS[at - 1], KEYS[at], ARGV[at - 1], ARGV[at]
    local type = redis.call('TYPE', stream).ok
    local length, first, last, event = '0', '0-0', '0-0', ''
    local meta = redis.pcall('HMGET', meta_key, 'trimmed', 'bytes', 'erased')
    if type == 'stream' then
        local entries = redis.call('XLEN', stream)
        length = string.format('%.0f', entries)
        first, last = ends_of(stream, meta_key, entries, after, meta[3])
        if not first then length, first, last = '!' .. last, '0-0', '0-0' end
        local failure
        if wanted ~= '' then event, failure = event_of(stream, wanted) end
        if failure then length = '!' .. failure end
    elseif type ~= 'none' then
        length = '!holds a ' .. type .. ' where a stream is wanted'
    end
    if meta.err then length = '!' .. meta.err end
    for _, text in ipairs({length, first, last, meta[1] or '0-0', meta[2] or '0', event}) do reply[#reply + 1] = text end
    if bytes > MOST then break end
end
return reply
