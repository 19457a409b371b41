#!lua flags=no-writes
-- sidekiq_work: reads a page of the jobs that a process of Sidekiq had in progress at its last beat.
--
-- KEYS[1]  process   hash: `beat` when the last beat was, by its clock; `info` JSON
-- KEYS[2]  work      hash: thread -> JSON with queue, payload and run_at
-- KEYS[3]  workers   the same before Sidekiq 6.5
-- ARGV[1]  left      ms: a process whose keys last longer is alive, and has no page; '' = living processes have one, too
-- ARGV[2]  most      bytes of an entry; larger ones are counted
-- ARGV[3]  size      bytes of all entries: the page ends behind the step of HSCAN that exceeds them
-- ARGV[4]  count     of entries, likewise
-- ARGV[5]  cursor    of HSCAN; '0' begins
-- Reply    {'alive'}, or {'work', now in ms, key of the jobs, beat, info, number of large entries, ms by which the jobs were written after
--          `beat`, cursor of the next page or '0', and for each entry: its field; its value}, {'type', key, found}
-- Uses     types, now
-- Safe     reads only. With each beat a process writes its jobs, and then its hash (lib/sidekiq/launcher.rb): a process that comes back is
--          alive by the first of both, and one that was killed between them has jobs that are newer than `beat`.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'hash'}, {KEYS[2], KEYS[2], 'hash'}, {KEYS[3], KEYS[3], 'hash'}})
if refusal then return refusal end
local jobs = redis.call('EXISTS', KEYS[2]) == 1 and KEYS[2] or KEYS[3]
local left, dead = {}, tonumber(ARGV[1])
for i, key in ipairs({KEYS[1], jobs}) do
    left[i] = redis.call('PTTL', key)
    if dead and (left[i] == -1 or left[i] > dead) then return {'alive'} end
end
local process = redis.call('HMGET', KEYS[1], 'beat', 'info')
local reply = {'work', now_ms(), jobs, process[1] or '', process[2] or '', 0, math.max(0, left[2] - left[1]), ARGV[5]}
local most, room, count, size, found, step = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), 0, 0, 1
repeat
    local page = redis.call('HSCAN', jobs, reply[8], 'COUNT', step)
    reply[8] = page[1]
    for i = 1, #page[2], 2 do
        local value = page[2][i + 1]
        size, found = size + #value, found + 1
        if #value > most then
            reply[6] = reply[6] + 1
        else
            reply[#reply + 1], reply[#reply + 2] = page[2][i], value
        end
    end
    step = math.min(step * 2, 32) -- the size of an entry is unknown until it is read
until reply[8] == '0' or size >= room or found >= count
return reply
