-- jobs: appends to `reply` the state of a job's key and the job's fields, '' for a missing one, and returns the bytes of these. States:
-- '' = a job; 'none' = no field exists, or with `named` no field `name`; 'large N' = N bytes, more than `most`: only small fields are
-- appended; or the type of a key that is no hash.
local function add_job(reply, key, fields, most, named)
    local state, job, bytes, size = redis.call('TYPE', key).ok, {}, 0, 0
    for i = 1, state == 'hash' and #fields or 0 do bytes = bytes + redis.call('HSTRLEN', key, fields[i]) end
    if state == 'hash' and (bytes == 0 or named and redis.call('HEXISTS', key, 'name') == 0) then
        state = 'none'
    elseif bytes > most then
        state = string.format('large %.0f', bytes)
        for i, field in ipairs(fields) do job[i] = redis.call('HSTRLEN', key, field) <= 4096 and redis.call('HGET', key, field) end
    elseif state == 'hash' then
        state, job = '', redis.call('HMGET', key, unpack(fields))
    end
    reply[#reply + 1] = state
    for i = 1, #fields do
        size = size + #(job[i] or '')
        reply[#reply + 1] = job[i] or ''
    end
    return size
end
