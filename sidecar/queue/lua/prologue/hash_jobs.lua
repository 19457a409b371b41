-- hash_jobs: appends to `reply` the state of a job's key and the job's fields, '' for a missing one, and returns the bytes of these.
-- States: '' = a job; 'none' = no field exists, or with `named` no field `name`; 'large N' = N bytes, more than `most`: only small
-- fields are appended; or the type of a key that is no hash.
-- These fields are short: names, and numbers that the library writes itself. The script asks for the length of the others before it
-- reads them.
local short = {name = true, timestamp = true, delay = true, priority = true, attemptsMade = true, stalledCounter = true, deid = true,
    processedOn = true, atm = true, ats = true, stc = true}
local function add_job(reply, key, fields, most, named)
    local state, job, bytes, size = redis.call('TYPE', key).ok, {}, 0, 0
    if state == 'hash' then
        for _, field in ipairs(fields) do bytes = bytes + (short[field] and 0 or redis.call('HSTRLEN', key, field)) end
        if bytes <= most then
            state, job, bytes = 'none', redis.call('HMGET', key, unpack(fields)), 0
            for i, field in ipairs(fields) do
                bytes = bytes + #(job[i] or '')
                if job[i] and (not named or field == 'name') then state = '' end
            end
        elseif named and redis.call('HEXISTS', key, 'name') == 0 then
            state = 'none'
        end
        if state == 'none' then
            job = {}
        elseif bytes > most then
            bytes = 0
            for i, field in ipairs(fields) do
                local length = redis.call('HSTRLEN', key, field)
                bytes = bytes + length
                job[i] = length <= 4096 and redis.call('HGET', key, field)
            end
            state = string.format('large %.0f', bytes)
        end
    end
    reply[#reply + 1] = state
    for i = 1, #fields do
        size = size + #(job[i] or '')
        reply[#reply + 1] = job[i] or ''
    end
    return size
end
