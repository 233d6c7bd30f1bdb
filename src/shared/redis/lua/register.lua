-- register: stores the profile that a parent's agents inherit; its version goes up by one if the content differs.
-- Closes: two registrations that take the same version; a re-sent call that makes a version of its own.
local stored = read(profile, 'profile_version', 'content', 'registered_at')
if stored.content == content then
  return answer('same', { profile_version = stored.profile_version, registered_at = stored.registered_at })
end
local now, next_version = now_ms(), num(stored.profile_version) + 1
write(profile, { v = version, profile_version = next_version, content = content, registered_at = now })
return answer('registered', { profile_version = next_version, registered_at = now })
