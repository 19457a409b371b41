-- fence: the reply to give when the lock KEYS[1] does not hold the token ARGV[1]; nil = it does.
local function fenced() return redis.call('GET', KEYS[1]) ~= ARGV[1] and {'fenced'} or nil end
