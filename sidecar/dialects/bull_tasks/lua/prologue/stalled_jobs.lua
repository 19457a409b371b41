-- stalled_jobs: the `jobs` that a settle of stalled jobs is asked about. `marks` is the set of marked ids, and the jobs are probably among
-- the entries `from` to `to` - 1 of the list `active`, counted from its tail and from 0; `to` 0 = anywhere.
local function stalled_jobs(jobs, marks, active, from, to)
    local locks = {}
    for i, job in ipairs(jobs) do locks[i] = job.lock end
    local locked = redis.call('EXISTS', unpack(locks)) > 0
    local side = to > 0 and redis.call('LLEN', active) - to > from and -1 or 1 -- of active: the end that is nearer
    local places, near = {}, to > 0 and redis.call('LRANGE', active, -to, -from - 1) or {}
    for i, id in ipairs(near) do places[id] = i - #near - from - 1 end
    local asked, unmarked = {}, {} -- ids that this call settles; ids whose marks go
    local self = {}
    -- Returns why a job has not stalled; nil = it has.
    function self.refused(job)
        local id = job.id
        if asked[id] or redis.call('SISMEMBER', marks, id) == 0 then return 'gone' end
        job.place = places[id] or redis.call('LPOS', active, id)
        if not job.place then
            unmarked[#unmarked + 1] = id -- before 4.12.3 Bull keeps the mark of a finished job
            return 'gone'
        end
        if locked and redis.call('EXISTS', job.lock) == 1 then return 'alive' end
    end
    -- Sets the answer of each job for which refused(job) has one. Returns the other jobs, and whether `remove` may take them at once.
    function self.settled(refused)
        local settled = {}
        for _, job in ipairs(jobs) do
            job.answer = refused(job)
            if not job.answer then
                asked[job.id] = true
                settled[#settled + 1] = job
            end
        end
        return settled, #settled > 1 and not missing_right({{'LSET', active}})
    end
    -- LREM of each job would pass the same entries again and again. So LSET puts the token, which names no job, in the place of each job,
    -- and one LREM removes all of them. `at_once`: there are several, and the user has the right to LSET.
    function self.remove(kept, at_once, token)
        if at_once then
            for _, job in ipairs(kept) do redis.call('LSET', active, job.place, token) end
            redis.call('LREM', active, side * #kept, token)
        else
            for _, job in ipairs(kept) do redis.call('LREM', active, side, job.id) end
        end
        for _, job in ipairs(kept) do unmarked[#unmarked + 1] = job.id end
        if #unmarked > 0 then redis.call('SREM', marks, unpack(unmarked)) end
    end
    return self
end
