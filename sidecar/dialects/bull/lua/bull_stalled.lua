#!lua flags=no-writes
-- bull_stalled: which jobs of a Bull 4 queue were marked a whole interval ago and have no lock now, with what a record needs. One
-- part of the marks: what it costs does not depend on how many jobs are active.
--
-- KEYS[1]  stalled   set of ids
-- KEYS[2]  stalled-check  string
-- KEYS[3]  meta      hash of ours; field `marked`
-- ARGV[1]  prefix    of the queue's keys
-- ARGV[2]  interval  ms
-- ARGV[3]  cursor    of SSCAN, where the part begins; 0 = the first
-- ARGV[4]  count     marks of a part, about
-- ARGV[5]  skip      stalled jobs of this part to pass over
-- ARGV[6]  most      jobs to tell of
-- ARGV[7]  size      bytes; no further job is read once so many were
-- ARGV[8]  payload   bytes of a job; of a larger one only small fields are told
-- ARGV[9+] names of fields
-- Reply    {'stalled', now in ms, how many there are in this part, cursor of the next part (0 = there is none), and for each told:
--          id, '', 'none' (no job), 'large N' (bytes) or the type of what is no hash, then its fields, '' for what it lacks}
--          {'early', now in ms} the mark is younger, or not ours
-- Safe     reads only; a key that is no hash spoils no other job. A decision that rests on this is checked again by bull_settle,
--          which also sees whether the job is active still.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local marked = tonumber(string.match(redis.call('HGET', KEYS[3], 'marked') or '', '^%d+$'))
if redis.call('GET', KEYS[2]) ~= 'sidecar' or not marked or now - marked < tonumber(ARGV[2]) then
    return {'early', string.format('%.0f', now)}
end
local fields = {}
for i = 9, #ARGV do fields[i - 8] = ARGV[i] end

local part = redis.call('SSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
local reply, told, size = {'stalled', string.format('%.0f', now), 0, part[1]}, 0, 0
local function tell(id, key)
    local bytes, job, state = 0, {}, redis.call('TYPE', key).ok
    for i = 1, state == 'hash' and #fields or 0 do bytes = bytes + redis.call('HSTRLEN', key, fields[i]) end
    if state == 'hash' then state = redis.call('HEXISTS', key, 'name') == 1 and '' or 'none' end
    if bytes > tonumber(ARGV[8]) and state == '' then
        state = string.format('large %.0f', bytes)
        for i, field in ipairs(fields) do job[i] = redis.call('HSTRLEN', key, field) <= 4096 and redis.call('HGET', key, field) end
    elseif state == '' then
        job = redis.call('HMGET', key, unpack(fields))
    end
    reply[#reply + 1], reply[#reply + 2] = id, state
    for i = 1, #fields do
        size = size + #(job[i] or '')
        reply[#reply + 1] = job[i] or ''
    end
    told = told + 1
end

for _, id in ipairs(part[2]) do
    local key = ARGV[1] .. id
    if redis.call('EXISTS', key .. ':lock') == 0 then
        reply[3] = reply[3] + 1
        if reply[3] > tonumber(ARGV[5]) and told < tonumber(ARGV[6]) and size < tonumber(ARGV[7]) then tell(id, key) end
    end
end
return reply
