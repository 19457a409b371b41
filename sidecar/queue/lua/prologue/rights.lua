-- rights: returns an error reply for the first of `calls` ({{command, key}, ...}) that Redis refuses to the user; nil = it refuses none.
-- Skips calls whose key is false. Redis never undoes part of a script, so before its first write a script checks the rights to
-- all later calls. Redis 6.2 has no acl_check_cmd: there the script tries each command on a scratch key.
local arguments = {DEL = {}, HSET = {'', ''}, LINDEX = {0}, LINSERT = {'BEFORE', '', ''}, LRANGE = {0, 0}, LREM = {0, ''},
    XADD = {'*', '', ''}, XTRIM = {'MAXLEN', 0}, ZADD = {0, ''}, ZCOUNT = {0, 0}, ZRANGE = {0, 0}, ZRANGEBYSCORE = {0, 0},
    ZREMRANGEBYRANK = {0, 0}, ZREMRANGEBYSCORE = {0, 0}} -- after the key; '' for other commands
local function try_on_scratch(command, key, ...)
    local scratch = KEYS[1] .. ':rights'
    redis.call('TYPE', key) -- a key right of Redis 6.2 holds for all commands
    redis.call('DEL', scratch)
    local reply = redis.pcall(command, scratch, ...)
    redis.call('DEL', scratch)
    local refusal = type(reply) == 'table' and reply.err
    if refusal and refusal ~= 'ERR no such key' then return (string.gsub(refusal, '^@user_script: %d+: %-?', '')) end
end
local function missing_right(calls)
    for _, call in ipairs(calls) do
        local command, key, refusal = call[1], call[2], nil
        local rest = call[3] and {call[3]} or arguments[command] or {''}
        if key and not redis.acl_check_cmd then
            refusal = try_on_scratch(command, key, unpack(rest))
        elseif key and not redis.acl_check_cmd(command, key, unpack(rest)) then
            refusal = 'NOPERM the user has no right to this call'
        end
        if refusal then return {err = refusal .. ' (' .. command .. ' on the key ' .. key .. ')'} end
    end
end
