-- pause: notes that an operator paused the installation, unless a pause is in force.
-- Closes: an operator who cannot stop the spending while Redis has no memory left; a second pause that replaces the reason
-- of the first one.
write_even_when_full(paused)
redis.call('SET', paused, note, 'NX')
return answer('noted')
