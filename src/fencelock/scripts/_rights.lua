-- Fragment: what permissions can refuse comes before the first write. Included by each script whose order of
-- commands alone does not see to that, before it writes.
--
-- A user may lose a right at any time. A script that is refused half way would leave a grant that only its
-- waiter knows of, or a key without an expiry. To ask for a right is no command, and takes a third of the time.

-- Has the server's log of refusals (ACL LOG) name a command that is refused, with however many words it takes.
local function note_refusal(command)
  for words = 0, 4 do redis.pcall(command, unpack({KEYS[1], '', '', ''}, 1, words)) end
end

-- Returns an error if the user may not run one of these commands. A server before Redis 7.0 cannot tell.
local function lacks(...)
  if not redis.acl_check_cmd then return nil end
  for i = 1, select('#', ...) do
    local command = select(i, ...)
    if not redis.acl_check_cmd(command, KEYS[1]) then
      note_refusal(command)
      return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(command)
        .. "' command")
    end
  end
end
