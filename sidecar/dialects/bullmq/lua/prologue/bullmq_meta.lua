-- bullmq_meta: reads `meta` of a BullMQ queue. `version` is one number; the rules of the newest BullMQ 5 hold if it is unknown. `target` is
-- the list that takes jobs without a priority: pause-7.lua of BullMQ 5 renames `paused` over `wait` when the queue is resumed, so there a job
-- in `wait` would be lost. `rests`, given the number of active jobs, tells whether no worker takes a job now. `most` is the number of events.
local function bullmq_meta(meta, wait, paused)
    local found = redis.call('HMGET', meta, 'version', 'paused', 'concurrency', 'opts.maxLenEvents')
    local major, minor, patch = string.match(found[1] or '', '^bullmq[^:]*:(%d+)%.(%d+)%.(%d+)')
    local version = major and tonumber(major) * 1e12 + tonumber(minor) * 1e6 + tonumber(patch) or 5999999999999
    local concurrency = tonumber(found[3] or '')
    local function rests(active) return found[2] or (concurrency and active >= concurrency) end
    return {version = version, target = found[2] and version < 6e12 and paused or wait, rests = rests,
        most = tonumber(found[4] or '') and found[4] or 10000}
end
-- bullmq_unfit: returns a refusal unless jobs of this version may be moved. Until 5.53.2 the fields of a job have other names.
local function bullmq_unfit(queue, meta)
    if queue.version >= 5000053000002 and queue.version < 7e12 then return end
    return {'type', meta, 'version whose jobs are not moved: that needs BullMQ 5.53.2 to 6'}
end
-- bullmq_number: the digits that a counter holds. INCR would fail on other bytes, maybe after a write.
local function bullmq_number(key) return tonumber(string.match(redis.call('GET', key) or '', '^%d+$')) or 0 end
-- bullmq_score: of a job with a priority, the `count`-th one (src/commands/includes/getPriorityScore.lua).
local function bullmq_score(priority, count) return priority * 4294967296 + count % 4294967296 end
