#!lua flags=allow-oom
-- probe: tries commands on a scratch key, and returns those that Redis refuses.
--
-- KEYS[1]  scratch   string, deleted at the end; has a TTL in case Redis refuses DEL
-- ARGV[1]  database  the caller's
-- ARGV[2+] command   in upper case
-- Reply    {command, error, ...} of the refused commands
-- Safe     by type: each command finds the scratch key as an empty string. A command for another type fails, and the others
--          leave an empty string. Redis checks the user's rights before the keys (luaRedisGenericCommand in
--          src/scripting.c of redis 6.2, scriptCall in src/script.c of redis 7.0).
local key = KEYS[1]
local samples = { -- commands, with arguments valid for all of them
    {'DEL EXISTS GET HGETALL HLEN LLEN PTTL SCARD STRLEN TYPE UNLINK XLEN ZCARD', key},
    {'GETRANGE LRANGE LTRIM ZCOUNT ZRANGE ZRANGEBYSCORE ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGEBYSCORE', key, 0, 0},
    {'HDEL HEXISTS HGET HMGET HSTRLEN LPOS LPUSH RPUSH SADD SISMEMBER SREM ZMSCORE ZREM ZSCORE', key, 'member'},
    {'HSCAN LINDEX SSCAN', key, 0},
    {'HSET', key, 'field', ''},
    {'INFO', 'keyspace'},
    {'LINSERT', key, 'BEFORE', 'pivot', 'member'},
    {'LREM LSET ZADD', key, 0, 'member'},
    {'PEXPIRE', key, 60000},
    {'PUBLISH', key, ''},
    {'RENAME RPOPLPUSH', key, key},
    {'SETRANGE', key, 0, ''},
    {'SCAN', 0, 'COUNT', 1},
    {'SELECT', ARGV[1]},
    {'SET', key, '', 'PX', 60000},
    {'PING TIME'},
    {'XACK', key, 'group', 0},
    {'XADD', key, '*', 'field', ''},
    {'XDEL', key, 0},
    {'XINFO', 'STREAM', key},
    {'XINFO|CONSUMERS', key, 'group'},
    {'XINFO|GROUPS', key},
    {'XPENDING', key, 'group'},
    {'XRANGE', key, '-', '+'},
    {'XREAD', 'STREAMS', key, 0},
    {'XTRIM', key, 'MAXLEN', 0},
}
-- Redis 6.2 puts the script's name and line before an error. Cut them off: C decides by the first word what to do.
local function failure(command, ...)
    local container, word = string.match(command, '^(%u+)|(%u+)$')
    local reply = container and redis.pcall(container, word, ...) or redis.pcall(command, ...)
    return type(reply) == 'table' and reply.err and string.gsub(reply.err, '^@user_script: %d+: %-?', '') or nil
end
local wanted, reply = {}, {}
for i = 2, #ARGV do wanted[ARGV[i]] = 'probe.lua has no sample of this command' end
for _, sample in ipairs(samples) do
    for command in string.gmatch(sample[1], '[%u|]+') do
        if wanted[command] then
            local refusal = failure('SET', key, '', 'PX', 60000)
            if refusal then return {err = refusal} end
            local why = failure(command, unpack(sample, 2)) or 'WRONGTYPE'
            wanted[command] = not string.find(why, '^WRONGTYPE') and why or nil
        end
    end
end
redis.pcall('DEL', key)
for command, why in pairs(wanted) do
    reply[#reply + 1] = command
    reply[#reply + 1] = why
end
return reply
