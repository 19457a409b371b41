#!lua flags=no-writes
-- sidekiq_work: reads the jobs that a process of Sidekiq had in progress at its last beat, if its beat has ended.
--
-- KEYS[1]  process   hash: `beat` when the last beat was, by its clock; `info` JSON
-- KEYS[2]  work      hash: thread -> JSON with queue, payload and run_at
-- KEYS[3]  workers   the same before Sidekiq 6.5
-- ARGV[1]  left      ms: a process whose keys last longer is alive
-- ARGV[2]  most      bytes of an entry; larger ones are counted
-- ARGV[3]  size      bytes of all entries; the one that exceeds them is the last
-- Reply    {'alive'}, or {'work', now in ms, key of the jobs, beat, info, number of large entries, ms by which the jobs were written after
--          `beat`, and for each entry: its field; its value}, {'type', key, found}
-- Uses     types, now
-- Safe     reads only. With each beat a process writes its jobs, and then its hash (lib/sidekiq/launcher.rb): a process that comes back is
--          alive by the first of both, and one that was killed between them has jobs that are newer than `beat`.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'hash'}, {KEYS[2], KEYS[2], 'hash'}, {KEYS[3], KEYS[3], 'hash'}})
if refusal then return refusal end
local jobs = redis.call('EXISTS', KEYS[2]) == 1 and KEYS[2] or KEYS[3]
local left = {}
for i, key in ipairs({KEYS[1], jobs}) do
    left[i] = redis.call('PTTL', key)
    if left[i] == -1 or left[i] > tonumber(ARGV[1]) then return {'alive'} end
end
local process = redis.call('HMGET', KEYS[1], 'beat', 'info')
local reply = {'work', now_ms(), jobs, process[1] or '', process[2] or '', 0, math.max(0, left[2] - left[1])}
local all, size = redis.call('HGETALL', jobs), 0
for i = 1, #all, 2 do
    if #all[i + 1] > tonumber(ARGV[2]) then
        reply[6] = reply[6] + 1
    elseif size < tonumber(ARGV[3]) then
        size = size + #all[i + 1]
        reply[#reply + 1], reply[#reply + 2] = all[i], all[i + 1]
    end
end
return reply
