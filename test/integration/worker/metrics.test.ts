/** Guarantee: what a worker tells a Prometheus server is what its parents read in their replies. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import type { Reply } from "../../../src/shared/protocol/reply.ts";
import { startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const look = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] };
const unknown = { content: [{ type: "tool_use" as const, name: "no_such_tool", input: {} }] };
const overloaded = { status: 529, type: "overloaded_error" };
const done = { content: [{ type: "text" as const, text: "done" }], failures: [overloaded] };

/** Every sample, by its name with labels. */
async function samplesOf(health: string): Promise<Map<string, number>> {
  const response = await fetch(`${health}/metrics`);
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const lines = (await response.text()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.replace(/ \S+$/, ""), Number(/\S+$/.exec(line)?.[0])]));
}

/** The sum over all samples of one name. */
function sum(samples: ReadonlyMap<string, number>, name: string): number {
  return [...samples].reduce((all, [key, value]) => (key.split("{")[0] === name ? all + value : all), 0);
}

const of = <Field extends "turns" | "tokens" | "cost_usd">(replies: readonly Reply[], field: Field) =>
  replies.reduce((all, reply) => all + reply[field], 0);

test("runs, turns, tools, tokens, cost and refusals of a worker of the command line are those of the replies", async () => {
  const stage = await openStage({ scenario: { turns: [look, unknown, done] } });
  const prices = { "offline-1": { input: 1, output: 5, cache_read: 0.1, cache_write: 1.25 } };
  const worker = await stage.commandLineWorker({ env: { SUBAGENT_PRICES: JSON.stringify(prices) } });
  const startedMs = performance.now();
  const agents = await Promise.all([1, 2, 3].map((n) => stage.task(`work ${n}`)));
  const replies = await Promise.all(agents.map((agent) => stage.reply(agent)));
  // The reply is there a moment before its worker counts it.
  const samples = await until(async () => {
    const now = await samplesOf(worker.health);
    return now.get('subagent_wakes_taken_total{outcome="settled"}') === 3 && now;
  });
  expect(samples.get('subagent_runs_total{status="succeeded",stop_reason="end_turn"}')).toBe(3);
  expect(sum(samples, "subagent_turn_duration_seconds_count")).toBe(of(replies, "turns"));
  expect(sum(samples, "subagent_tokens_total")).toBe(of(replies, "tokens"));
  expect(of(replies, "cost_usd")).toBeGreaterThan(0);
  expect(sum(samples, "subagent_cost_usd_total")).toBeCloseTo(of(replies, "cost_usd"), 9);
  expect(samples.get('subagent_tool_duration_seconds_count{tool="glob",outcome="ok"}')).toBe(3);
  expect(samples.get('subagent_tool_duration_seconds_count{tool="unknown",outcome="error"}')).toBe(3);
  expect(samples.get('subagent_model_refusals_total{kind="overloaded"}')).toBeGreaterThanOrEqual(1);
  expect(samples.get("subagent_runs_active")).toBe(0);
  const ran = replies.reduce((all, { duration_ms }) => all + duration_ms, 0) / 1_000;
  const counted = sum(samples, "subagent_run_duration_seconds_sum");
  expect(counted).toBeGreaterThanOrEqual(ran - 0.01);
  expect(counted).toBeLessThan((agents.length * (performance.now() - startedMs)) / 1_000);
  for (const name of ["mean", "p99", "max"])
    expect(samples.get(`nodejs_eventloop_lag_${name}_seconds`)).toBeGreaterThanOrEqual(0);
  expect(samples.get("process_resident_memory_bytes")).toBeGreaterThan(10_000_000);
});

test("waiting wakes, the oldest unacked reply and a late sweeper are told of the whole installation", async () => {
  const stage = await openStage({ scenario: { turns: [done] } });
  const worker = await stage.startWorker({ metrics: true });
  await stage.reply(await stage.task("work"));
  const scraped = async () => (await worker.metrics())?.text ?? "";
  const first = await until(async () => {
    const text = await scraped();
    return text.includes("subagent_oldest_unacked_reply_seconds ") && text;
  });
  expect(first).toMatch(/^subagent_oldest_unacked_reply_seconds 0?\.?\d+/m);
  expect(first).toMatch(/^subagent_wakes\{state="waiting"\} 0$/m);
  expect(first).toMatch(/^subagent_wakes\{state="active"\} [01]$/m);
  expect(first).toMatch(/^subagent_sweeper_lag_seconds \d/m);
});

test("a reply that has waited for an hour has waited for 3,600 seconds, also if its parent was quiet for days", async () => {
  const stage = await openStage();
  const worker = await stage.startWorker({ metrics: true });
  const { redis, keys } = stage;
  const parent = { tenant: "default", parentId: "patient" };
  await redis.xadd(keys.parent(parent).replies, `${Date.now() - 3_600_000}-0`, "kind", "reply");
  const quietForDays = Date.now() - 5 * 24 * 3_600_000;
  await redis.zadd(keys.parents, quietForDays, parentMember(parent));
  const { text = "" } = (await worker.metrics()) ?? {};
  const seconds = Number(/^subagent_oldest_unacked_reply_seconds (.+)$/m.exec(text)?.[1]);
  expect(seconds).toBeGreaterThanOrEqual(3_600);
  expect(seconds).toBeLessThan(2 * 3_600);
});

test("a channel of another type keeps no other parent's oldest reply from being told", async () => {
  const stage = await openStage({ scenario: { turns: [done] } });
  const worker = await stage.startWorker({ metrics: true });
  await stage.reply(await stage.task("work"));
  await stage.parent("broken").spawn({ name: "idler" });
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "broken" });
  await stage.redis.set(replies, "of the wrong kind");
  const { text } = (await worker.metrics()) ?? {};
  expect(text).toMatch(/^subagent_oldest_unacked_reply_seconds \d/m);
});

test("docs/operations.md names every figure, and no other", async () => {
  const stage = await openStage({ scenario: { turns: [done] } });
  const worker = await stage.startWorker({ metrics: true });
  const api = await startApi({ client: stage.client() });
  const { text = "" } = (await worker.metrics()) ?? {};
  const { body } = await api.ask("GET", "/metrics");
  const served = new Set([...`${text}${body}`.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  const document = readFileSync(join(import.meta.dirname, "../../../docs/operations.md"), "utf8");
  const rows = document.split("\n").filter((line) => /^\| `(subagent|nodejs|process)_/.test(line));
  const named = rows.flatMap((row) =>
    [...(row.split("|")[1] ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name),
  );
  expect(named.sort()).toEqual([...served].sort());
});

test("a scrape is answered while Redis is away, without the figures that only Redis knows", async () => {
  const server = await startPrivateRedis();
  const stage = await openStage({ redis: server, scenario: { turns: [done] } });
  const worker = await stage.startWorker({ metrics: true, logger: createLogger({ level: "silent" }) });
  await stage.reply(await stage.task("work"));
  server.freeze();
  closeAtEnd(() => server.thaw());
  const text = (await worker.metrics())?.text ?? "";
  expect(text).toMatch(/^subagent_runs_total\{.*\} 1$/m);
  expect(text).not.toMatch(/^subagent_oldest_unacked_reply_seconds \d/m);
});

test("a worker that keeps no figures has none to tell", async () => {
  const stage = await openStage({ scenario: { turns: [done] } });
  const worker = await stage.startWorker();
  expect(await worker.metrics()).toBeUndefined();
});
