#!lua flags=allow-oom
-- settle: retries or ends one job in progress, with a record in the failure stream.
--
-- KEYS[1]  lock
-- KEYS[2]  backup    list that holds the job
-- KEYS[3]  target    retry: ready (list), or delayed (zset) with a `delay`; end: ready, unused
-- KEYS[4]  ready     list; takes a retry that has no `delay` or is in delayed already
-- KEYS[5]  stamps
-- KEYS[6]  errors    hash: job -> its report
-- KEYS[7]  failures  stream
-- KEYS[8]  meta      fields `bytes` of all values in the stream, and `entries`, its length at that time
-- KEYS[9]  heartbeat key of the job; the lock again = none
-- KEYS[10] dlq       list that takes the bytes of ended jobs; the lock again = none, or a retry
-- KEYS[11] mark      set that loses mark_id at the end; the lock again = none, or a retry
-- KEYS[12] done      set; if it has done_id, the job is dropped without retry or end; the lock again = none
-- KEYS[13] recorded  zset: SHA-1 of a job in dlq -> when it came there; the lock again = none
-- ARGV[1]  token
-- ARGV[2]  job
-- ARGV[3]  digest    its field in stamps
-- ARGV[4]  old       the stamp that the decision rests on
-- ARGV[5]  new       the stamp of a retry; '-' = none; '' = end
-- ARGV[6]  from      1: the job was seen near the head of backup, -1: near the tail
-- ARGV[7]  depth     entries to search from there
-- ARGV[8]  alone     '1': do not end a job that backup holds twice
-- ARGV[9]  report    id of the reported text that the decision rests on; '' = there must be no report
-- ARGV[10] delay     of a retry in ms; '' = at once
-- ARGV[11] unit      of scores in delayed, 'ms' or 's'
-- ARGV[12] most      largest stream, bytes
-- ARGV[13] again     bytes that a retry pushes; '' = the job
-- ARGV[14] mark_id
-- ARGV[15] done_id
-- ARGV[16] blank     '1': a heartbeat of white space is none
-- ARGV[17+] names and values of the record; a last name without a value gets the job; this script adds 'at' and 'error'
-- Reply    {'settled', recorded: 1 or 0}, {'dropped'} KEYS[12] has done_id, {'gone'} not in backup, {'changed'} stamp or report,
--          {'alive'} has a heartbeat, {'copies'} is in backup twice, {'full'} the stream takes no record,
--          {'fenced'}, {'type', key, found}
-- Optional GETRANGE, SISMEMBER, SREM
-- Uses     types, fence, records, report_ids, rights
-- Safe     fenced; by compare; checks preconditions and rights before the first write; adds before it removes. Only XADD notices a
--          stream that is out of ids, so XADD comes first: its error changes nothing. No later write may fail, so the script
--          ignores a bad value in `bytes`.
local delayed = ARGV[10] ~= ''
local wanted = {{'backup', KEYS[2], 'list'}, {'target', KEYS[3], delayed and 'zset' or 'list'}, {'ready', KEYS[4], 'list'},
    {'stamps', KEYS[5], 'hash'}, {'errors', KEYS[6], 'hash'}, {'failures', KEYS[7], 'stream'}, {'meta', KEYS[8], 'hash'}}
for i, want in ipairs({{'dlq', 'list'}, {'mark', 'set'}, {'done', 'set'}, {'recorded', 'zset'}}) do
    if KEYS[9 + i] ~= KEYS[1] then wanted[#wanted + 1] = {want[1], KEYS[9 + i], want[2]} end
end
local refusal = fenced() or wrong_type(wanted)
if refusal then return refusal end
local job, ends = ARGV[2], ARGV[5] == ''
if (redis.call('HGET', KEYS[5], ARGV[3]) or '') ~= ARGV[4] then return {'changed'} end
local large = string.find(ARGV[9], ':', 1, true) -- Redis copies a large text only for a call that will not be refused
local text
local function report_changed()
    text = redis.call('HGET', KEYS[6], job)
    return (text and report_id(text) or '') ~= ARGV[9]
end
if not large and report_changed() then return {'changed'} end
if KEYS[9] ~= KEYS[1] then
    local beat = ARGV[16] == '1' and redis.pcall('GETRANGE', KEYS[9], 0, 255)
    local blank = type(beat) == 'string' and not string.find(beat, '[^%z\1-\32]')
    if not blank and redis.call('EXISTS', KEYS[9]) == 1 then return {'alive'} end
end
local found = redis.call('LPOS', KEYS[2], job, 'RANK', ARGV[6], 'COUNT', 2, 'MAXLEN', ARGV[7])
if #found == 0 then return {'gone'} end
if ends and ARGV[8] == '1' and #found > 1 then return {'copies'} end

if KEYS[12] ~= KEYS[1] and redis.call('SISMEMBER', KEYS[12], ARGV[15]) == 1 then
    refusal = missing_right({{'LREM', KEYS[2]}, {'HDEL', KEYS[5]}})
    if refusal then return refusal end
    redis.call('LREM', KEYS[2], ARGV[6] == '-1' and -1 or 1, job)
    redis.call('HDEL', KEYS[5], ARGV[3])
    return {'dropped'}
end

local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local record = {'at', string.format('%.0f', now_ms)}
for i = 17, #ARGV do record[#record + 1] = ARGV[i] end
if #record % 2 == 1 then record[#record + 1] = job end
if ARGV[9] ~= '' then
    record[#record + 1] = 'error'
    record[#record + 1] = large and '' or text
end
local bytes, length = stream_bytes(KEYS[7], KEYS[8], record)
if large then bytes = bytes + REPORT_HEAD end
local room = bytes <= tonumber(ARGV[12])
if ends and not room then return {'full'} end
local dlq, marked, noted, stamped = KEYS[10] ~= KEYS[1], KEYS[11] ~= KEYS[1], KEYS[13] ~= KEYS[1], ARGV[5] ~= '-'
refusal = missing_right({{'XADD', room and KEYS[7]}, {'HSET', room and KEYS[8]}, {'LPUSH', dlq and KEYS[10]},
    {'ZADD', noted and KEYS[13]}, {'ZADD', not ends and delayed and KEYS[3]}, {'RPUSH', not ends and KEYS[4]},
    {'HSET', not ends and stamped and KEYS[5]}, {'LREM', KEYS[2]}, {'HDEL', (ends or not stamped) and KEYS[5]},
    {'HDEL', ARGV[9] ~= '' and KEYS[6]}, {'SREM', marked and KEYS[11]}})
if refusal then return refusal end
if large then
    if report_changed() then return {'changed'} end
    record[#record] = string.sub(text, 1, REPORT_HEAD)
end

refusal = room and append_record(KEYS[7], KEYS[8], record, bytes, length)
if refusal and (ends or refusal.err) then return refusal end
room = room and not refusal
if dlq then redis.call('LPUSH', KEYS[10], job) end
if noted then redis.call('ZADD', KEYS[13], string.format('%.0f', now_ms), redis.sha1hex(job)) end
if not ends then
    if ARGV[13] ~= '' then job = ARGV[13] end
    local added = 0
    if delayed then
        local due = now_ms + tonumber(ARGV[10])
        if ARGV[11] == 's' then due = due / 1000 end
        added = redis.call('ZADD', KEYS[3], 'NX', string.format('%.3f', due), job)
    end
    if added == 0 then redis.call('RPUSH', KEYS[4], job) end
    if stamped then redis.call('HSET', KEYS[5], ARGV[3], ARGV[5]) end
end
redis.call('LREM', KEYS[2], ARGV[6] == '-1' and -1 or 1, ARGV[2])
if ends or not stamped then redis.call('HDEL', KEYS[5], ARGV[3]) end
if ARGV[9] ~= '' then redis.call('HDEL', KEYS[6], ARGV[2]) end
if marked then redis.call('SREM', KEYS[11], ARGV[14]) end
return {'settled', room and 1 or 0}
