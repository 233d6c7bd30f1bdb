-- pause: writes down that an operator paused the installation, unless that stands already.
-- Closes: an operator who cannot stop the spending while Redis has no memory left; a second pause that takes the reason
-- of the first one.
write_even_when_full(paused)
redis.call('SET', paused, note, 'NX')
return answer('noted')
