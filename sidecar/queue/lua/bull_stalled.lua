#!lua flags=no-writes
-- bull_stalled: which jobs of a Bull 4 queue were marked a whole interval ago and have no lock now, with what a record needs.
--
-- KEYS[1]  stalled   set of ids
-- KEYS[2]  active    list of ids
-- KEYS[3]  stalled-check  string
-- KEYS[4]  meta      hash of ours; field `marked`
-- ARGV[1]  prefix    of the queue's keys
-- ARGV[2]  interval  ms
-- ARGV[3]  skip      stalled jobs to pass over
-- ARGV[4]  most      jobs to tell of
-- ARGV[5]  size      bytes; no further job is read once so many were
-- ARGV[6]  payload   bytes of a job; of a larger one only small fields are told
-- ARGV[7+] names of fields
-- Reply    {'stalled', now in ms, how many there are, and for each told: id, '', 'none' (no job), 'large N' (bytes) or the type
--          of what is no hash, then its fields, '' for what it lacks}
--          {'early', now in ms} the mark is younger, or not ours
-- Safe     reads only; a key that is no hash spoils no other job. A decision that rests on this is checked again by bull_settle.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local marked = tonumber(string.match(redis.call('HGET', KEYS[4], 'marked') or '', '^%d+$'))
if redis.call('GET', KEYS[3]) ~= 'sidecar' or not marked or now - marked < tonumber(ARGV[2]) then
    return {'early', string.format('%.0f', now)}
end
local fields = {}
for i = 7, #ARGV do fields[i - 6] = ARGV[i] end

local reply, told, size = {'stalled', string.format('%.0f', now), 0}, 0, 0
local function tell(id, key)
    local bytes, job, state = 0, {}, redis.call('TYPE', key).ok
    for i = 1, state == 'hash' and #fields or 0 do bytes = bytes + redis.call('HSTRLEN', key, fields[i]) end
    if state == 'hash' then state = redis.call('HEXISTS', key, 'name') == 1 and '' or 'none' end
    if bytes > tonumber(ARGV[6]) and state == '' then
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

local ids, active = redis.call('SMEMBERS', KEYS[1]), {}
for _, id in ipairs(#ids > 0 and redis.call('LRANGE', KEYS[2], 0, -1) or {}) do active[id] = true end
for _, id in ipairs(ids) do
    local key = ARGV[1] .. id
    if active[id] and redis.call('EXISTS', key .. ':lock') == 0 then
        reply[3] = reply[3] + 1
        if reply[3] > tonumber(ARGV[3]) and told < tonumber(ARGV[4]) and size < tonumber(ARGV[5]) then tell(id, key) end
    end
end
return reply
