-- fence: returns nil if the lock KEYS[1] holds the token ARGV[1], otherwise {'fenced'}.
local function fenced() return redis.call('GET', KEYS[1]) ~= ARGV[1] and {'fenced'} or nil end
