#!lua flags=allow-oom
-- trim: removes entries of a failure stream that enough audit logs have: old ones, and above `room` of any age. Also removes
-- auditors that are silent for long, or whose position is above the last id of the stream: it is of an earlier stream. Of more
-- auditors than AUDITORS it removes those that are silent for longest, but none of the `copies` highest positions.
--
-- KEYS[1]  lock
-- KEYS[2]  failures  stream
-- KEYS[3]  auditors  hash: instance -> '<stream id> <its last call, ms>'
-- KEYS[4]  meta      hash: `trimmed` is the highest removed id, `bytes` the counted bytes of the stream's values, `entries` the
--                    length at that count, `ahead` is '<stream id> <ms>': entries up to this id existed at this time,
--                    although the id is in the future; `trimmed_early` is the time, ms, of the last removal of a young entry;
--                    `last` is the last id of the stream
-- ARGV[1]  token
-- ARGV[2]  retain    ms; younger entries stay, while there is room
-- ARGV[3]  records   entries that stay at any age, while there is room
-- ARGV[4]  copies    auditors that must have acknowledged an entry
-- ARGV[5]  most      most entries to remove
-- ARGV[6]  size      bytes of values; reading ends after about this many
-- ARGV[7]  heard     ms; an auditor that is silent for longer does not count, and is removed
-- ARGV[8]  room      bytes; in a larger stream `retain` and `records` keep nothing, or a full stream would stay full
-- Reply    {'trimmed', entries removed, entries left, wait, young entries removed, bytes left, us that the script took,
--           us of these before it looked at entries, 1 if another call is to remove auditors or else 0}
--                                      wait: ms until the oldest entry is old enough; 0 = it is, or there is no room; -1 = the
--                                      stream is too short to remove an entry
--          {'fenced'}                  the lock is not the caller's
--          {'type', key, found}        `failures`, `auditors` or `meta` has a wrong type
-- Ages     After a clock of Redis that was ahead is corrected, new ids are in the future for as long as it was ahead. The age
--          of such an entry counts from the first trim that sees the entry.
-- Uses     types, fence, ids, auditors, now, rights, clock
-- Safe     fenced; checks all preconditions and rights before the first write. Writes `trimmed` and `bytes` before it removes
--          entries, so that no removal is missing there.
local began = clock_us()
local refusal = fenced() or wrong_type({{'failures', KEYS[2], 'stream'}, {'auditors', KEYS[3], 'hash'}, {'meta', KEYS[4], 'hash'}})
if refusal then return refusal end
local retain, records, copies = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most, size, heard, room = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local present = now_ms()
local now = tonumber(present)

local end_of_stream, learnt = last_id(KEYS[2], KEYS[4])
local positions, gone = {}, {}
local some, auditors = some_auditors(KEYS[3], present)
for i = 1, #some, 2 do
    local ms, seq, at = string.match(some[i + 1], '^(%d+)%-(%d+) (%d+)$')
    local age = ms and now - tonumber(at) or heard + 1
    if ms and end_of_stream and above({ms, seq}, end_of_stream) then age = heard + 1 end -- of an earlier stream
    if age > heard then gone[#gone + 1] = some[i] else positions[#positions + 1] = {ms, seq, age, some[i]} end
end
table.sort(positions, above)
local copied = positions[math.max(1, copies)] -- `copies` auditors have all entries up to this id
local beyond_most = auditors - #gone - AUDITORS
if beyond_most > 0 then
    local others = {}
    for i = math.max(1, copies) + 1, #positions do others[#others + 1] = positions[i] end
    table.sort(others, function(a, b) return a[3] > b[3] end)
    if auditors > #some / 2 then beyond_most = math.min(beyond_most, math.ceil(#others / 2)) end -- the rest may be silent for longer
    for i = 1, math.min(beyond_most, #others) do gone[#gone + 1] = others[i][4] end
end
local crowded = auditors - #gone > AUDITORS

local length = redis.call('XLEN', KEYS[2])
local function number(text) return tonumber(string.match(text or '', '^%d+$')) or 0 end
local meta = redis.call('HMGET', KEYS[4], 'bytes', 'entries')
local held, beyond, enough = number(meta[1]), length - records, false
if number(meta[2]) > length then held = held / number(meta[2]) * length end -- trimmed by hand
local limit = math.min(most, held > room and length or beyond)
local ahead_ms, ahead_seq, ahead_at = string.match(redis.call('HGET', KEYS[4], 'ahead') or '', '^(%d+)%-(%d+) (%d+)$')
if ahead_at and tonumber(ahead_at) > now then ahead_at = nil end -- written by a clock that was ahead
local unknown = false -- true = an entry has a future id that no trim has seen before
-- Returns when an entry came, in ms.
local function since(ms, seq)
    if compare_digits(ms, present) < 1 then return tonumber(ms) end
    if ahead_at and not above({ms, seq}, {ahead_ms, ahead_seq}) then return tonumber(ahead_at) end
    unknown = true
    return now
end
local fixed_us = us_since(began)
local removable, early, bytes, last, wait, from, step = 0, 0, 0, nil, -1, '-', 1
while limit > 0 and removable < limit and not enough do
    local entries = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', math.min(step, limit - removable))
    for _, entry in ipairs(entries) do
        local ms, seq = string.match(entry[1], '^(%d+)%-(%d+)$')
        local full = held - bytes > room
        enough = removable >= beyond and not full
        if enough then break end
        wait = 0
        local at = since(ms, seq)
        local young = at >= now - retain
        if young and not full then
            wait = math.max(1, math.min(at + retain - now + 1, 2 ^ 50))
            break
        end
        if not copied or above({ms, seq}, copied) then break end
        removable, last, wait = removable + 1, entry[1], -1
        if young then early = early + 1 end
        for i = 2, #entry[2], 2 do bytes = bytes + #entry[2][i] end
    end
    if wait >= 0 or enough or #entries == 0 then break end
    wait = 0
    if bytes >= size then break end
    from, step = '(' .. last, math.min(step * 8, math.ceil((size - bytes) * removable / (bytes + 1))) -- `size` at this average
end
if enough then wait = -1 end
held = math.floor(math.max(0, held - bytes))
local ahead = unknown and end_of_stream
refusal = missing_right({{'HSET', (ahead or learnt or removable > 0) and KEYS[4]}, {'XTRIM', removable > 0 and KEYS[2]},
    {'HDEL', #gone > 0 and KEYS[3]}})
if refusal then return refusal end
if removable > 0 then
    length = length - removable
    if length == 0 then held = 0 end
    redis.call('HSET', KEYS[4], 'trimmed', last, 'bytes', string.format('%.0f', held), 'entries', length)
    if early > 0 then redis.call('HSET', KEYS[4], 'trimmed_early', present) end
    redis.call('XTRIM', KEYS[2], 'MAXLEN', length)
    if length <= records and held <= room then wait = -1 end
end
if learnt then redis.call('HSET', KEYS[4], 'last', learnt) end -- the next trim need not ask the stream
if ahead then redis.call('HSET', KEYS[4], 'ahead', table.concat(ahead, '-') .. ' ' .. present) end
for _, instance in ipairs(gone) do redis.call('HDEL', KEYS[3], instance) end
return {'trimmed', removable, length, wait, early, held, us_since(began), fixed_us, crowded and 1 or 0}
