# One XADD from any language: here a bare socket. The reply comes into the parent's stream, at once.
import os, socket
def words(*each): return b"*%d\r\n" % len(each) + b"".join(b"$%d\r\n%s\r\n" % (len(w.encode()), w.encode()) for w in each)
host, port = os.environ.get("REDIS", "127.0.0.1:6379").split(":")
redis = socket.create_connection((host, int(port)))
redis.sendall(words("XADD", "{saq}:intake-stream", "*", "parent_id", "python", "prompt", "Which testing framework is used here?"))
redis.sendall(words("XREAD", "BLOCK", "60000", "STREAMS", "saq:{default/python}:replies", "0"))
lines = redis.makefile("rb")
while lines.readline() != b"summary\r\n": pass
print(lines.readline() and lines.readline().decode())
