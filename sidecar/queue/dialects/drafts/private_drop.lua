#!lua flags=allow-oom
-- private_drop: removes a job that was found done already from the private list of a worker that is gone.
--
-- KEYS[1]  lock
-- KEYS[2]  private   list
-- KEYS[3]  done      set of ids
-- KEYS[4]  stamps    hash
-- KEYS[5]  heartbeat of the worker; the lock again where there is none to look at
-- ARGV[1]  token
-- ARGV[2]  job       must still be the last entry
-- ARGV[3]  id        must still be in done
-- ARGV[4]  digest    field of its stamp
-- ARGV[5]  old       the stamp that the decision rests on
-- Reply    {'settled', 1}, {'gone'}, {'changed'}, {'alive'}, {'fenced'}, {'type', key, found}
-- Safe     fenced; by compare. Nothing is lost: the job is done.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'fenced'} end
for i, want in ipairs({{'private', 'list'}, {'done', 'set'}, {'stamps', 'hash'}}) do
    local found = redis.call('TYPE', KEYS[i + 1]).ok
    if found ~= 'none' and found ~= want[2] then return {'type', want[1], found} end
end
if redis.call('LINDEX', KEYS[2], -1) ~= ARGV[2] then return {'gone'} end
if (redis.call('HGET', KEYS[4], ARGV[4]) or '') ~= ARGV[5] then return {'changed'} end
if KEYS[5] ~= KEYS[1] and redis.call('EXISTS', KEYS[5]) == 1 then return {'alive'} end
if redis.call('SISMEMBER', KEYS[3], ARGV[3]) == 0 then return {'changed'} end
redis.call('RPOP', KEYS[2])
redis.call('HDEL', KEYS[4], ARGV[4])
return {'settled', 1}
