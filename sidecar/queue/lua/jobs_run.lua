#!lua
-- jobs_run: makes a delayed job due now. The job stays in the zset, and the leader promotes it like any other.
--
-- KEYS[1]  delayed   zset, score = due time
-- ARGV[1]  unit      'ms' or 's', of the scores
-- ARGV[2]  job
-- ARGV[3]  score     that the decision rests on
-- Reply    {'done'}, {'due'} it was due before, {'gone'} not in the zset: promoted or ended meanwhile, {'changed'} its score,
--          {'type', key, found}
-- Uses     types, rights
-- Safe     not fenced: an operator asks for it, under any leader. One write, of the score of a member that is there: a job that was
--          promoted meanwhile is not added again. Has no allow-oom, so a full Redis 7 refuses the script.
local refusal = wrong_type({{KEYS[1], KEYS[1], 'zset'}}) or missing_right({{'ZSCORE', KEYS[1]}, {'ZADD', KEYS[1]}})
if refusal then return refusal end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score then return {'gone'} end
local time = redis.call('TIME')
local now = ARGV[1] == 's' and time[1] or string.format('%s%03d', time[1], math.floor(tonumber(time[2]) / 1000))
if tonumber(score) <= tonumber(now) then return {'due'} end
if tonumber(score) ~= tonumber(ARGV[3]) then return {'changed'} end
redis.call('ZADD', KEYS[1], 'XX', now, ARGV[2])
return {'done'}
