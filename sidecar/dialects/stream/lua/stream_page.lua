#!lua flags=no-writes
-- stream_page: walks a part of the pending entries of a consumer group, and returns those that may need an action.
--
-- KEYS[1]  stream
-- KEYS[2]  errors    hash: id of an entry -> its report
-- ARGV[1]  group
-- ARGV[2]  from      start of the walk: '-', or '(' and the last id of the page before
-- ARGV[3]  to        end of the walk: '+', or an id
-- ARGV[4]  idle      ms; younger entries are skipped, unless they have a report
-- ARGV[5]  count     most entries of the reply
-- ARGV[6]  slice     us that the walk may take
-- ARGV[7]  most      bytes; the reply has only the size and the SHA-1 of a larger entry
-- ARGV[8]  bytes     of all entries; the one that exceeds them is the last
-- ARGV[9]  timeout   ms: skips entries of a consumer that has read within this time; '' = none
-- Reply    {'page', the last id of the walk or '', 1 at the end of the pending entries or else 0, and for each entry: its id, consumer, idle
--          time in ms, deliveries, bytes of its names and values, SHA-1 if it is larger than `most` or else '', and an array
--          of its names and values, empty if it is larger or deleted}
-- Uses     clock, consumers, deliveries, entries
-- Safe     reads only. Counts limit each XPENDING: with IDLE, Redis would read all entries in one step to find none.
local FEW, MANY = 16, 64 -- entries of an XPENDING, while it finds some or not: Lua takes some 2 us for each
local LOOK = 8 -- entries that are added, each 6 us and more, between two looks at the clock
local began = clock_us()
local stream, group, from, last = KEYS[1], ARGV[1], ARGV[2], ''
local idle, count, slice, most, room = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local reply, found, bytes, ended, length = {'page', '', 0}, 0, 0, false, FEW
local reports = redis.pcall('HLEN', KEYS[2])
if type(reports) == 'table' then return reports end
local function add(pending, to)
    local fields, size = fields_of(stream, pending[1], to) or {}, 0
    for _, text in ipairs(fields) do size = size + #text end
    local large = size > most
    local at = 3 + 7 * found
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = pending[1], pending[2], pending[3], deliveries_of(pending)
    reply[at + 5], reply[at + 6] = size, large and redis.sha1hex(table.concat(fields, '\0')) or ''
    reply[at + 7] = large and {} or fields
    found, bytes = found + 1, bytes + size
end
local function wanted(pending)
    if reports > 0 and redis.call('HEXISTS', KEYS[2], pending[1]) == 1 then return true end
    return pending[3] >= idle and not consumer_is_alive(stream, group, pending[2], ARGV[9])
end
local function late() return clock_us() - began >= slice end
repeat
    local step, at, full, before = redis.pcall('XPENDING', stream, group, from, ARGV[3], length), 0, false, found
    if step.err then return step end
    while at < #step and not full do
        at = at + 1
        last = step[at][1]
        if wanted(step[at]) then
            add(step[at], step[#step][1])
            full = found >= count or bytes >= room or found % LOOK == 0 and late()
        end
    end
    ended, from, length = #step < length and at == #step, '(' .. last, found > before and FEW or MANY
until ended or full or late()
reply[2], reply[3] = last, ended and 1 or 0
return reply
