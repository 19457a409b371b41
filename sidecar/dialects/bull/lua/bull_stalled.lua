#!lua flags=no-writes
-- bull_stalled: finds jobs of a Bull 4 queue that were marked a whole interval ago and have no lock now, with the fields for a record.
-- Reads one part of the marks, so the cost does not depend on the number of active jobs.
--
-- KEYS[1]  stalled   set of ids
-- KEYS[2]  stalled-check  string
-- KEYS[3]  meta      the sidecar's hash; field `marked`: when jobs were last marked, ms
-- ARGV[1]  prefix    of the queue's keys
-- ARGV[2]  interval  ms
-- ARGV[3]  cursor    of SSCAN, where the part begins; 0 = the first
-- ARGV[4]  count     approximate number of marks in a part
-- ARGV[5]  skip      stalled jobs of this part to skip
-- ARGV[6]  most      jobs to return
-- ARGV[7]  size      bytes after which the script reads no further job
-- ARGV[8]  payload   bytes of a job; of a larger job the reply has only small fields
-- ARGV[9+] names of fields
-- Reply    {'stalled', now in ms, stalled jobs in this part, cursor of the next part (0 = this is the last), and for each returned job:
--          id; state and fields as prologue/jobs.lua appends them}
--          {'early', now in ms} marks too young, or set by a worker
-- Uses     jobs, now
-- Safe     reads only; a key that is not a hash does not affect other jobs. bull_settle checks again, also that the job is still active.
local now = tonumber(now_ms())
local marked = tonumber(string.match(redis.call('HGET', KEYS[3], 'marked') or '', '^%d+$'))
if redis.call('GET', KEYS[2]) ~= 'sidecar' or not marked or now - marked < tonumber(ARGV[2]) then
    return {'early', string.format('%.0f', now)}
end
local fields = {}
for i = 9, #ARGV do fields[i - 8] = ARGV[i] end

local part = redis.call('SSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
local reply, returned, size = {'stalled', string.format('%.0f', now), 0, part[1]}, 0, 0
for _, id in ipairs(part[2]) do
    local key = ARGV[1] .. id
    if redis.call('EXISTS', key .. ':lock') == 0 then
        reply[3] = reply[3] + 1
        if reply[3] > tonumber(ARGV[5]) and returned < tonumber(ARGV[6]) and size < tonumber(ARGV[7]) then
            reply[#reply + 1] = id
            size = size + add_job(reply, key, fields, tonumber(ARGV[8]), true)
            returned = returned + 1
        end
    end
end
return reply
