/** Guarantee: the rule of docs/operations.md is all that a Redis user needs: nothing that this package does is refused. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createClient } from "../../src/producer/client.ts";
import { createParent } from "../../src/producer/parent.ts";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { startPrivateRedis } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

/** The rule as operators read it, word by word behind the name of the user. */
function documentedRule(): string[] {
  const text = readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8");
  const [, rule = ""] = /ACL SETUSER subagents (.+)/.exec(text) ?? [];
  return rule.replaceAll("'", "").split(" ");
}

/** A Redis on which the user `subagents` has the rights of `rule`, and commands that work as that user. */
async function asUser(rule: readonly string[]) {
  const cwd = mkdtempSync(join(tmpdir(), "user-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const server = await startPrivateRedis();
  const admin = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(admin));
  await admin.call("ACL", "SETUSER", "subagents", ...rule);
  const [, password] = rule.join(" ").match(/>(\S+)/) ?? [];
  const redisUrl = server.url.replace("//", `//subagents:${password}@`);
  const env = {
    REDIS_URL: redisUrl,
    SUBAGENT_PREFIX: undefined,
    SUBAGENT_LOG_LEVEL: "silent",
    ANTHROPIC_API_KEY: undefined,
    ANTHROPIC_BASE_URL: undefined,
  };
  return {
    admin,
    redisUrl,
    refused: async () => ((await admin.call("ACL", "LOG")) as string[][]).map((entry) => entry.join(" ")),
    say: (...args: string[]) => runHere(args, { cwd, env }),
    start: (...args: string[]) => startHere(args, { cwd, env }),
  };
}

test("with the documented rights of a Redis user everything works, and Redis refuses nothing", async () => {
  const { admin, redisUrl, refused, say, start } = await asUser(documentedRule());
  const worker = start("worker");
  await worker.waitForLine(/^ready: /);
  const client = createClient({ redisUrl, model: "offline-1" });
  closeAtEnd(() => client.stop());
  const parent = createParent({ client, parentId: "p" });
  const { agent_id } = await parent.spawn({ name: "A", description: "d" });
  await parent.send(agent_id, "hello");
  await until(async () => (await say("replies", "--parent", "p", "--ack", "--json")).stdout.length > 0);
  const api = start("api", "--port", "0");
  const [, base] = /(http:\S+)/.exec(await api.waitForLine(/^ready: /)) ?? [];
  const asked = await fetch(`${base}/v1/parents/q/tasks?wait=30`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ prompt: "hello" }),
  });
  expect(await asked.json()).toMatchObject({ status: "succeeded" });
  const board = start("board", "--port", "0");
  const [, queues] = /(http:\S+)/.exec(await board.waitForLine(/^ready: /)) ?? [];
  for (const path of ["queues", "redis/stats", "queues/wakes/workers", "queues/wakes/metrics"])
    await until(async () => (await fetch(`${queues}/api/${path}`)).status === 200, { what: path });
  await admin.xadd(keysUnder("saq").intake, "*", "parent_id", "p", "prompt", "hello");
  await until(async () => (await say("replies", "--parent", "p", "--ack", "--json")).stdout.length > 0);
  const lines = ["run hello", "schedule morning --every 1h --prompt hello", "ps", "list", "usage", "logs"];
  for (const line of [...lines, "pause", "resume", "keys create mine", "doctor", "doctor --fix"]) {
    const { code, stderr } = await say(...line.split(" "));
    expect(code, `${line}: ${stderr.join("\n")}`).toBe(0);
  }
  expect(await refused()).toEqual([]);
});

test.each([
  {
    missing: "&saq:*",
    args: ["worker"],
    words: /refuses this worker's user the channel saq:hints \(NOPERM /,
  },
  { missing: "&saq:*", args: ["run", "hello"], words: /the channel saq:hints \(NOPERM / },
  { missing: "~{saq}:*", args: ["pause"], words: /refuses its user something \(NOPERM / },
])("without $missing $args is refused with what to do", async ({ missing, args, words }) => {
  const { say } = await asUser(documentedRule().filter((word) => word !== missing));
  const { code, stderr } = await say(...args);
  expect(code).toBe(3);
  expect(stderr.at(-1)).toMatch(words);
  expect(stderr.at(-1)).toMatch(/: give it the rights that docs\/operations\.md names\.$/);
});
