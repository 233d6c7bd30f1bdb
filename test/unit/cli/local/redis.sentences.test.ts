/** What is said of a Redis that cannot be used: the reason, and what to do about it. */
import { expect, test } from "vitest";
import { redisError } from "../../../../src/cli/local/redis.ts";
import { PART_AWAY } from "../../../../src/shared/redis/connection/cluster.ts";

const URL_WITH_PASSWORD = "redis://:hunter2@db:6379";
const coded = (code: string) => Object.assign(new Error(`connect ${code}`), { code });

test.each([
  [coded("ENOTFOUND"), /^No Redis at \S+db:6379 \(unknown host\): start it, or correct REDIS_URL\.$/],
  [coded("EAI_AGAIN"), /\(unknown host\)/],
  [coded("ECONNREFUSED"), /\(connection refused\): start it/],
  [coded("ETIMEDOUT"), /\(no answer\)/],
  [coded("EACCES"), /\(permission denied\)/],
  [new Error("NOPERM this user has no permissions"), /^Redis at \S+ refuses its user something \(NOPERM /],
  [
    new Error("ERR The user executing the script can't run this command or subcommand script: 1e9b"),
    /^Redis at \S+ refuses its user something \(ERR The user .*\): give it the rights/,
  ],
  [new Error("ERR ACL failure in script: User x"), /^Redis at \S+ refuses its user something \(ERR ACL /],
  [
    coded("ECONNRESET"),
    /^Redis at \S+ closed the connection: it was stopped, its maxclients is reached, or REDIS_URL names/,
  ],
  [coded("EPIPE"), /^Redis at \S+ closed the connection: it was stopped, its maxclients is reached/],
  [new Error("OOM command not allowed when used memory > 'maxmemory'."), /^Redis at \S+ has no memory left /],
  [new Error("MISCONF Redis is configured to save RDB snapshots"), /^Redis at \S+ refuses writes \(MISCONF/],
  [
    new Error("CLUSTERDOWN The cluster is down"),
    /^Redis at \S+ takes no commands \(CLUSTERDOWN .*\): start the nodes/,
  ],
  [
    new Error(PART_AWAY),
    /^Redis at \S+ takes no commands \(a node of the cluster is away, .*\): start the nodes/,
  ],
  [new Error("self-signed certificate"), /^Redis at \S+ cannot be trusted \(.*\?ca=\/path\/ca\.pem\.$/],
  [
    new Error("WRONGPASS invalid username"),
    /^Redis at \S+ cannot be used \(WRONGPASS .*\): correct REDIS_URL/,
  ],
])("%s", (reason, sentence) => {
  const error = redisError(URL_WITH_PASSWORD, reason);
  expect(error).toMatchObject({ code: "redis_unavailable", message: expect.stringMatching(sentence) });
  expect(error.message).not.toContain("hunter2");
});

test("of data that cannot be read only the beginning of the reason is shown", () => {
  const error = redisError(URL_WITH_PASSWORD, new SyntaxError(`bad ${"x".repeat(5_000)}`));
  expect(error).toMatchObject({ code: "protocol_violation", message: expect.stringMatching(/\(bad x+/) });
  expect(error.message.length).toBeLessThan(500);
});
