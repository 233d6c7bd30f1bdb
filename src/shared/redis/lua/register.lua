-- register: stores the profile that a parent's agents inherit; its version goes up by one if the content differs.
-- Closes: two registrations that take the same version; a re-sent call that makes a version of its own.
local stands = read(profile, 'profile_version', 'content', 'registered_at')
if stands.content == content then
  return answer('same', { profile_version = stands.profile_version, registered_at = stands.registered_at })
end
local now, next_version = now_ms(), num(stands.profile_version) + 1
write(profile, { v = version, profile_version = next_version, content = content, registered_at = now })
return answer('registered', { profile_version = next_version, registered_at = now })
