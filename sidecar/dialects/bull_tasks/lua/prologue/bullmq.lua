-- bullmq: returns a refusal if one of `keys` shows that the queue belongs to BullMQ. A key that is a hash is a job of Bull 4.
local function bullmq(keys)
    for _, key in ipairs(keys) do
        local found = redis.call('TYPE', key).ok
        if found ~= 'none' and found ~= 'hash' then
            return {'type', key, found .. ': the queue belongs to BullMQ, and dialect bull serves Bull 4 (see dialect bullmq)'}
        end
    end
end
