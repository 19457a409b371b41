#!lua
-- erase: records that the texts of a failure are erased, and replaces the entries of a failure stream that have them by copies
-- without payload, error and traceparent.
--
-- KEYS[1]  requeued  hash of requeue markers of the failure's queue; prologue/erasures.lua reads the field
-- KEYS[2]  failures  stream
-- KEYS[3]  meta      hash of the stream's queue; fields `bytes`, `entries` and `last`, see settle; `erased` is the highest id that
--                    this script has removed
-- ARGV[1]  event     first 16 bytes of the failed event's id
-- ARGV[2]  by        the operator
-- ARGV[3]  again     '1': even if the failure was erased before
-- ARGV[4]  count     of entries to replace
-- ARGV[5+] id and event of each of them, in turns; then names and values of the record; this script adds 'at'
-- Reply    {'done'}, {'known', marker} it was erased before, {'type', key, found}
-- Uses     types, now, ids, records, rights
-- Safe     not fenced; by compare: replaces an entry only if it has this event. Checks everything before the first write, and removes
--          entries last. So whatever fails, no record is lost; a log that has two copies of a record keeps one. Without allow-oom:
--          a full Redis refuses the script.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'hash'}, {KEYS[2], KEYS[2], 'stream'}, {KEYS[3], KEYS[3], 'hash'}})
if refusal then return refusal end
local field = ARGV[1] .. ':erased'
local mark = redis.call('HGET', KEYS[1], field)
if mark and ARGV[3] ~= '1' then return {'known', mark} end
refusal = missing_right({{'XADD', KEYS[2]}, {'HSET', KEYS[3]}, {'HSET', KEYS[1]}, {'XDEL', KEYS[2]}})
if refusal then return refusal end
local at, last = now_ms(), 4 + 2 * tonumber(ARGV[4])
local record = {'at', at, unpack(ARGV, last + 1)}
local bytes, length = stream_bytes(KEYS[2], KEYS[3], record)
-- Returns the entry without its texts, or nil if it is gone or has another event.
local function without_texts(id, event)
    local entry, kept, same = redis.call('XRANGE', KEYS[2], id, id)[1], {}, false
    for i = 1, entry and #entry[2] or 0, 2 do
        local name, value = entry[2][i], entry[2][i + 1]
        same = same or (name == 'event' and value == event)
        if name ~= 'payload' and name ~= 'error' and name ~= 'traceparent' then kept[#kept + 1], kept[#kept + 2] = name, value end
    end
    return same and kept or nil, entry and record_bytes(entry[2]) or 0
end
local gone, highest = {}, {string.match(redis.call('HGET', KEYS[3], 'erased') or '0-0', '^(%d+)%-(%d+)$')}
for i = 5, last, 2 do
    local kept, size = without_texts(ARGV[i], ARGV[i + 1])
    local id = {string.match(ARGV[i], '^(%d+)%-(%d+)$')}
    if kept then
        redis.call('XADD', KEYS[2], '*', unpack(kept))
        gone[#gone + 1] = ARGV[i]
        bytes = bytes - size + record_bytes(kept)
        if not highest[1] or above(id, highest) then highest = id end
    end
end
local added = redis.call('XADD', KEYS[2], '*', unpack(record))
redis.call('HSET', KEYS[1], field, 'erased ' .. at .. ' ' .. ARGV[2])
if #gone > 0 then redis.call('HSET', KEYS[3], 'erased', table.concat(highest, '-')) end
store_counts(KEYS[3], math.max(0, bytes), length + 1, added)
for _, id in ipairs(gone) do redis.call('XDEL', KEYS[2], id) end
return {'done'}
