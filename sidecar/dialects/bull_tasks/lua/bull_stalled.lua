#!lua flags=no-writes
-- bull_stalled: finds jobs of a Bull 4 queue that were marked a whole interval ago and have no lock now, with the fields for a record.
-- Reads one part of active or of the marks, so the cost does not depend on the number of active jobs.
--
-- KEYS[1]  stalled   set of ids
-- KEYS[2]  stalled-check  string
-- KEYS[3]  meta      the sidecar's hash; field `marked`: when jobs were last marked, ms
-- KEYS[4]  active    list
-- ARGV[1]  prefix    of the queue's keys
-- ARGV[2]  interval  ms
-- ARGV[3]  cursor    'tail' = a part of active, which begins `skip` entries from its tail; where a part of the marks begins, a cursor
--                    of SSCAN, 0 = the first; 'begin' = '0' if the marks are few, otherwise 'tail'
-- ARGV[4]  count     entries of a part of active; approximate number of marks in a part
-- ARGV[5]  skip      entries of active; or stalled jobs of this part of the marks to skip
-- ARGV[6]  most      jobs to return
-- ARGV[7]  size      bytes after which the script reads no further job
-- ARGV[8]  payload   bytes of a job; of a larger job the reply has only small fields
-- ARGV[9+] names of fields
-- Reply    {'stalled', now in ms, number, next, and for each returned job: id; state and fields as prologue/hash_jobs.lua appends them}.
--          Of a part of active: next is 'tail', or 'end' at the head; number is the entries read that have not stalled. Of the marks:
--          next is the cursor of the next part, '0' = this is the last; number is the stalled jobs in this part.
--          {'early', now in ms} marks too young, or set by a worker
-- Uses     hash_jobs, now
-- Safe     reads only; a key that is not a hash does not affect other jobs. bull_settle checks again, also that the job is still active.
--          Jobs that finish during a walk along active shift the entries behind them, so the walk can miss some; the marks, which are
--          read after it, have these.
local now = tonumber(now_ms())
local marked = tonumber(string.match(redis.call('HGET', KEYS[3], 'marked') or '', '^%d+$'))
if redis.call('GET', KEYS[2]) ~= 'sidecar' or not marked or now - marked < tonumber(ARGV[2]) then
    return {'early', string.format('%.0f', now)}
end
local cursor, count, skip, most = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local fields = {}
for i = 9, #ARGV do fields[i - 8] = ARGV[i] end

local reply, returned, size = {'stalled', string.format('%.0f', now), 0, ''}, 0, 0
local function has_room() return returned < most and size < tonumber(ARGV[7]) end
local function has_stalled(id) return redis.call('EXISTS', ARGV[1] .. id .. ':lock') == 0 end
local function add(id)
    reply[#reply + 1] = id
    size = size + add_job(reply, ARGV[1] .. id, fields, tonumber(ARGV[8]), true)
    returned = returned + 1
end

-- From the tail on, bull_settle removes each job at once. A few jobs may be anywhere in active.
local FEW = 64
local part = cursor ~= 'tail' and redis.call('SSCAN', KEYS[1], cursor == 'begin' and '0' or cursor, 'COUNT', count)
if cursor == 'begin' and (part[1] ~= '0' or #part[2] > FEW) then part = nil end
if not part then
    local CHUNK = 32
    reply[4] = 'tail'
    for first = skip, skip + count - 1, CHUNK do
        local ids = redis.call('LRANGE', KEYS[4], -first - CHUNK, -first - 1)
        for i = #ids, 1, -1 do
            if not has_room() then return reply end
            if redis.call('SISMEMBER', KEYS[1], ids[i]) == 1 and has_stalled(ids[i]) then
                add(ids[i])
            else
                reply[3] = reply[3] + 1
            end
        end
        if #ids < CHUNK then
            reply[4] = 'end'
            break
        end
    end
    return reply
end
reply[4] = part[1]
for _, id in ipairs(part[2]) do
    if has_stalled(id) then
        reply[3] = reply[3] + 1
        if reply[3] > skip and has_room() then add(id) end
    end
end
return reply
