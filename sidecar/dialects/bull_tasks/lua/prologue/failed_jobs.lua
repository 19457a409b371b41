-- failed_jobs: the failed job that a requeue of Bull or BullMQ puts back, by KEYS[1] to KEYS[12] and ARGV[1] to ARGV[9] of their scripts.
-- failed_job returns the reply of a requeue that must not be; else nil and the job. `wanted` are more {key, type}, `zsets` are where a job
-- is that is not failed, `more` are fields of the hash to read, and `rest` is ARGV[10] and what follows.
local function failed_job(wanted, zsets, more, rest)
    local types = {}
    for _, list in ipairs({{{KEYS[1], 'hash'}, {KEYS[2], 'stream'}, {KEYS[3], 'hash'}, {KEYS[6], 'zset'}, {KEYS[7], 'list'}, {KEYS[8], 'list'},
        {KEYS[10], 'list'}, {KEYS[12], 'string'}}, wanted}) do
        for _, want in ipairs(list) do types[#types + 1] = {want[1], want[1], want[2]} end
    end
    for _, key in ipairs(zsets) do types[#types + 1] = {key, key, 'zset'} end
    local refusal = wrong_type(types) or answered(true, ARGV[3] == '1')
    if refusal then return refusal end
    local id, fields, record = ARGV[4], {}, {}
    for i, word in ipairs(rest) do
        local to = i <= tonumber(ARGV[9]) and fields or record
        to[#to + 1] = word
    end
    local found = redis.call('TYPE', KEYS[4]).ok
    if found ~= 'none' and found ~= 'hash' then return {'waiting', 'its key holds a ' .. found} end
    if redis.call('EXISTS', KEYS[5]) == 1 then return {'waiting', 'a worker has it'} end
    local values = redis.call('HMGET', KEYS[4], 'name', 'timestamp', unpack(more))
    local there = values[1] ~= false -- a worker may write fields of a job that is gone, but never its name
    if there and ARGV[5] ~= '' and (values[2] or '') ~= ARGV[5] then return {'waiting', 'another job has its id now'} end
    if there and not redis.call('ZSCORE', KEYS[6], id) then return {'waiting', 'it is no longer failed: it waits, runs, or has completed'} end
    if redis.call('LPOS', KEYS[10], id) then return {'waiting', 'it is active'} end
    for _, key in ipairs(zsets) do
        if redis.call('ZSCORE', key, id) then return {'waiting', 'it is delayed, or waits'} end
    end
    if not there and #fields == 0 then return {'waiting', 'its hash is gone, and the audit log has no copy'} end
    local last_id = tonumber(string.match(redis.call('GET', KEYS[12]) or '', '^%d+$')) or 0
    -- After FLUSHALL or obliterate() the library numbers new jobs from 1 again, and drops a new job whose number has a hash.
    local raises = not there and #id < 16 and string.match(id, '^[1-9]%d*$') and tonumber(id) > last_id
    return nil, {there = there, values = values, fields = fields, record = record, raises = raises}
end
