-- rights: returns an error reply for the first of `calls` ({{command, key}, ...}) that Redis refuses to the user; nil = it refuses none.
-- Skips calls whose key is false. Redis never undoes part of a script, so before its first write a script checks the rights to
-- all later calls. Redis 6.2 has no acl_check_cmd: there the script tries each command on a scratch key.
local function try_on_scratch(command, key, ...)
    local scratch = KEYS[1] .. ':rights'
    redis.call('TYPE', key) -- a key right of Redis 6.2 holds for all commands
    redis.call('DEL', scratch)
    local reply = redis.pcall(command, scratch, ...)
    redis.call('DEL', scratch)
    local refusal = type(reply) == 'table' and reply.err
    if not refusal or refusal == 'ERR no such key' then return end
    refusal = string.gsub(refusal, '^@user_script: %d+: %-?', '')
    return (string.gsub(refusal, '^The user executing', 'NOPERM the user executing')) -- there the refusal has no code
end
-- Arguments of each command after the key: `counts` of them, or 1. The first is call[3], or a word, or '0'; the others are '0', because
-- Redis takes longer to write a number as text than to check the right.
local words, counts -- made at the first use: most scripts need none
local granted = {} -- by command, first argument and key: the jobs of a page share most keys
local function missing_right(calls)
    words = words or {LINSERT = 'BEFORE', XADD = '*', XTRIM = 'MAXLEN'}
    counts = counts or {DEL = 0, HSET = 2, LINSERT = 3, LLEN = 0, LRANGE = 2, LREM = 2, LSET = 2, UNLINK = 0, XACK = 2, XADD = 3, XTRIM = 2, ZADD = 2,
        ZCOUNT = 2, ZRANGE = 2, ZRANGEBYSCORE = 2, ZREMRANGEBYRANK = 2, ZREMRANGEBYSCORE = 2}
    for _, call in ipairs(calls) do
        local command, key, refusal = call[1], call[2], nil
        local right = key and command .. (call[3] or '') .. ' ' .. key
        if key and not granted[right] then
            local rest = {call[3] or words[command] or '0', '0', '0'}
            if not redis.acl_check_cmd then
                refusal = try_on_scratch(command, key, unpack(rest, 1, counts[command] or 1))
            elseif not redis.acl_check_cmd(command, key, unpack(rest, 1, counts[command] or 1)) then
                refusal = 'NOPERM the user has no right to this call'
            end
            granted[right] = not refusal
        end
        if refusal then return {err = refusal .. ' (' .. command .. ' on the key ' .. key .. ')'} end
    end
end
