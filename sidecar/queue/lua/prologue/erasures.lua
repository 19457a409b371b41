-- erasures: a requeue or a discard of the failure ARGV[1], or its erasure. The hash of markers is KEYS[1]. An erasure has a field of
-- its own there, so that the payload that an older copy of a log still has is never requeued. answered returns the reply
-- for a failure that must not be answered now; nil = go on.
local function answered(requeues, again)
    local erased = requeues and redis.call('HGET', KEYS[1], ARGV[1] .. ':erased')
    if erased then return {'erased', erased} end
    local mark = redis.call('HGET', KEYS[1], ARGV[1])
    if mark and not again then return {'known', mark} end
end
