#!lua
-- history: stores a slot in the history of each queue, or removes the histories. A full Redis refuses the script: the history is the
-- first thing to go without.
--
-- KEYS[1]  lock
-- KEYS[2+] history   string: a ring of 22 bytes for each `step` of a day. Slot n % <slots> has the step n since 1970: the minute in
--                    which it began, little-endian, and what the caller counted
-- ARGV[1]  token
-- ARGV[2]  step      minutes: 1 or 5; 0 = remove the histories
-- ARGV[3]  number    of the step
-- ARGV[4+] counted   18 bytes for each history
-- Reply    {'stored', for each history '' or '!' and the error}
--          {'late'}            the next step has ended, too: nothing is stored, because the numbers are too old
--          {'fenced'}          the lock is not the caller's
-- Uses     fence
-- Safe     fenced; writes by SETRANGE, and only to a string of the length of a history. The TTL removes a history of which no slot is
--          of the last day.
local refusal = fenced()
if refusal then return refusal end
local DAY, SLOT = 1440, 22
local lengths = {[DAY * SLOT] = true, [DAY / 5 * SLOT] = true}
local step, number = tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
if step > 0 and math.floor(tonumber(time[1]) / 60 / step) ~= number + 1 then return {'late'} end

local slots = step > 0 and DAY / step or 0
local at, begin = step > 0 and number % slots * SLOT, struct.pack('<I4', number * step)
local function store(key, counted)
    local length = redis.pcall('STRLEN', key)
    if type(length) == 'table' then return length end
    if length > 0 and not lengths[length] then return {err = string.format('holds %.0f bytes that are no history', length)} end
    if length > 0 and length ~= slots * SLOT then
        local removed = redis.pcall('DEL', key)
        if type(removed) == 'table' then return removed end
    end
    if step == 0 then return '' end
    -- The last byte first, or the string would grow in steps and Redis keep room for more.
    if length ~= slots * SLOT then
        local grown = redis.pcall('SETRANGE', key, slots * SLOT - 1, '\0')
        if type(grown) == 'table' then return grown end
    end
    local stored = redis.pcall('SETRANGE', key, at, begin .. counted)
    if type(stored) == 'table' then return stored end
    return redis.pcall('PEXPIRE', key, DAY * 60000)
end
local reply = {'stored'}
for i = 2, #KEYS do
    local stored = store(KEYS[i], ARGV[i + 2])
    reply[i] = type(stored) == 'table' and '!' .. stored.err or ''
end
return reply
