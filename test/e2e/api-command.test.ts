/**
 * `api`, `keys`, `profile` and `webhook` of the command line: a key is made, shown once, needed, rotated and revoked. The server and
 * one call are real processes, the other calls the same program in this one.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { ask } from "../helpers/api.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnNode } from "../helpers/processes.ts";
import { runHere } from "../helpers/program.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";

const STARTS_WITHIN_MS = 60_000;
const AGENTS = "/v1/parents/planner-7/agents";
const prefix = uniquePrefix();

function environment() {
  return { REDIS_URL: redisUrl(), SUBAGENT_PREFIX: prefix, SUBAGENT_LOG_LEVEL: "error" };
}

function start(...args: string[]) {
  return spawnNode("src/cli/main.ts", { args, env: environment() });
}

async function run(...args: string[]): Promise<{ code: number | null; out: string; said: string }> {
  const { code, stdout, stderr } = await runHere(args, { cwd: process.cwd(), env: environment() });
  return { code, out: stdout.join("\n"), said: stderr.join("\n") };
}

let url: string;

beforeAll(async () => {
  const api = await start("api", "--port", "0");
  const line = await api.waitForLine(/^ready: api /, { timeoutMs: STARTS_WITHIN_MS });
  expect(line).toMatch(
    /^ready: api http:\/\/127\.0\.0\.1:\d+ on redis:\S+ without keys, for this machine only$/,
  );
  url = line.split(" ")[2] ?? "";
}, STARTS_WITHIN_MS);

test("a key that the command line makes is needed from then on, is shown once, rotated and revoked", async () => {
  expect((await ask(url + AGENTS, "GET")).status).toBe(200);
  const made = await start("keys", "create", "billing service", "--scope", "spawn", "--json");
  expect((await made.closed).code).toBe(0);
  const { token, key_id, tenant } = JSON.parse(made.stdout.join("\n"));
  expect(tenant).toBe("default");
  const status = async (with_?: string) =>
    (await ask(url + AGENTS, "GET", with_ ? { token: with_ } : {})).status;
  await expect.poll(() => status()).toBe(401);
  expect(await status(token)).toBe(200);

  const rotated = await run("keys", "rotate", key_id);
  expect(rotated.out).toMatch(/^saq_[0-9a-f]{16}_[0-9a-f]{64}$/);
  expect(await status(rotated.out)).toBe(200);
  expect((await run("keys", "revoke", key_id)).out).toBe(`revoked ${key_id}`);
  expect([await status(token), await status(rotated.out)]).toEqual([401, 200]);
  const { out } = await run("keys", "list", "--json");
  expect(JSON.parse(out).keys).toMatchObject([
    { key_id, name: "billing service" },
    { name: "billing service" },
  ]);
  expect(out).not.toContain(token.split("_")[2]);
});

test("a key is made for the tenant and with the scope that are named", async () => {
  const { out } = await run("keys", "create", "dashboard", "--scope", "read", "--tenant", "acme", "--json");
  expect(JSON.parse(out)).toMatchObject({ name: "dashboard", tenant: "acme", scope: "read" });
});

test("what cannot be done is refused in one sentence", async () => {
  const [name, scope, unknown, open] = await Promise.all([
    run("keys", "create", "a/b"),
    run("keys", "create", "x", "--scope", "root"),
    run("keys", "revoke", "never-made"),
    run("webhook", "set", "ftp://example.com"),
  ]);
  expect(name).toMatchObject({
    code: 2,
    said: expect.stringMatching(/the name cannot be used: write .* and spaces, /),
  });
  expect(scope).toMatchObject({
    code: 2,
    said: expect.stringMatching(
      /'--scope <scope>' argument 'root' is invalid\. Allowed choices are read, spawn, admin\./,
    ),
  });
  expect(unknown).toMatchObject({
    code: 2,
    said: expect.stringMatching(/There is no API key "never-made": .*keys list shows all\.$/),
  });
  expect(open).toMatchObject({
    code: 2,
    said: expect.stringMatching(/webhook refused, nothing was done: url: /),
  });
});

test("a profile is registered out of a file, and shown with its version", async () => {
  const directory = mkdtempSync(join(tmpdir(), "profile-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  const file = join(directory, "profile.json");
  writeFileSync(file, JSON.stringify({ tools: ["Read"], limits: { max_turns: 5 } }));
  expect((await run("profile", "show")).out).toBe("nothing is registered");
  expect((await run("profile", "set", file)).out).toBe("version 1");
  expect((await run("profile", "set", file)).out).toBe("version 1, as before");
  const shown = JSON.parse((await run("profile", "show", "--json")).out);
  expect(shown).toMatchObject({ version: 1, profile: { tools: ["read_file"], limits: { max_turns: 5 } } });
  writeFileSync(file, "[]");
  expect(await run("profile", "set", file)).toMatchObject({
    code: 2,
    said: expect.stringMatching(/no JSON object/),
  });
});

test("a webhook is set, shown and removed", async () => {
  const set = await run("webhook", "set", "https://example.com/hook");
  expect(set).toMatchObject({ code: 0, out: expect.stringMatching(/^whsec_/) });
  expect(set.said).not.toContain("--webhooks-anywhere");
  expect((await run("webhook", "show")).out).toBe("active https://example.com/hook");
  const near = await run("webhook", "set", "https://10.0.0.1/hook");
  expect(near).toMatchObject({
    code: 0,
    said: expect.stringMatching(/10\.0\.0\.1 is none\..*--webhooks-anywhere/),
  });
  const { url: address, secret } = JSON.parse(
    (await run("webhook", "set", "https://example.com/", "--json")).out,
  );
  expect([address, secret]).toEqual(["https://example.com/", expect.stringMatching(/^whsec_/)]);
  expect((await run("webhook", "remove")).out).toBe("removed");
  expect((await run("webhook", "show")).code).toBe(2);
});
