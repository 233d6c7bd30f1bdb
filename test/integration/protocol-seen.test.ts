/** Guarantee: what Redis really does under an installation's prefix is what the keys' table of `docs/protocol.md` says. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { z } from "zod";
import { createIntake } from "../../src/service/intake/intake.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { createPause } from "../../src/shared/redis/pause.ts";
import { luaSource, Script, type VerbName } from "../../src/shared/redis/scripts.ts";
import { VERBS } from "../../src/shared/redis/verbs.ts";
import { defineTool } from "../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type Latch, latch } from "../helpers/latch.ts";
import { openMonitor } from "../helpers/monitor.ts";
import { until } from "../helpers/until.ts";
import { type OwnStage, openStage } from "../stage/stage.ts";

const DOC = readFileSync(new URL("../../docs/protocol.md", import.meta.url), "utf8");

/** A row of the keys' table. */
interface Row {
  name: string;
  spelling: RegExp;
  type: string;
  stays: string;
  /** Both cells: some scripts read what they write. */
  users: string;
}

function rowsOf(prefix: string): Row[] {
  const section = DOC.split(/^## /m).find((part) => part.startsWith("Keys\n")) ?? "";
  const lines = section.split("\n").filter((line) => line.startsWith("| `"));
  return lines.map((line) => {
    const [name = "", key = "", type = "", stays = "", ...users] = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim().replaceAll("`", ""));
    const words = key.replace("saq", prefix).replace("<limiter>", "<>").split(/<\w+>/);
    const exact = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace("<>", ".+");
    const spelling = new RegExp(`^${words.map(exact).join("[^:{}]+")}$`);
    return { name, spelling, type, stays, users: users.join("; ") };
  });
}

/** Commands that write, and the type of the key that they make; null: of whatever type. */
const WRITES: Readonly<Record<string, string | null>> = {
  set: "string",
  hset: "hash",
  hdel: "hash",
  hincrby: "hash",
  rpush: "list",
  lpop: "list",
  ltrim: "list",
  xadd: "stream",
  xdel: "stream",
  zadd: "sorted set",
  zrem: "sorted set",
  sadd: "set",
  srem: "set",
  publish: "channel",
  del: null,
  pexpire: null,
  persist: null,
};

/** What was seen at one key: the types, and which scripts wrote there. */
interface Seen {
  types: Set<string>;
  verbs: Set<string>;
}

/** Watches a stage's Redis; what it answers grows as long as the test goes on. */
async function watch({ url, prefix }: OwnStage) {
  const names = Object.keys(VERBS) as VerbName[];
  const verbs = new Map(names.map((name) => [new Script(luaSource(name)).digest, name]));
  const seen = new Map<string, Seen>();
  let verb: string | undefined;
  const monitor = await openMonitor(url, (_seconds, [command = "", ...words], source) => {
    const name = command.toLowerCase();
    const [first = ""] = words;
    if (name === "evalsha") verb = verbs.get(first);
    if (name === "eval") verb = verbs.get(createHash("sha1").update(first, "latin1").digest("hex"));
    const type = WRITES[name];
    if (type === undefined) return;
    for (const key of name === "del" ? words : [first]) {
      if (!key.replace("{", "").startsWith(prefix)) continue;
      const of = seen.get(key) ?? { types: new Set(), verbs: new Set() };
      seen.set(key, of);
      if (type !== null) of.types.add(type);
      if (source === "lua" && verb !== undefined) of.verbs.add(verb);
    }
  });
  closeAtEnd(() => monitor.stop());
  return { seen, monitor };
}

const say = (words: string) => ({ content: [{ type: "text" as const, text: words }] });
const use = (name: string, input: Record<string, unknown>) => ({
  content: [{ type: "tool_use" as const, name, input }],
});

const scenario = [
  { match: { user: "ask" }, turns: [use("ask_parent", { question: "Which?" }), say("thanks")] },
  // A script is chosen by the first message of a conversation; the second one comes to `linger`.
  { match: { user: "stay" }, turns: [say("here"), use("linger", {}), say("over")] },
  { match: { user: "long" }, turns: [say("x".repeat(20_000))] },
  { match: { user: "refused" }, turns: [{ ...say("at last"), failures: [{ status: 529 }] }] },
  { match: { user: "" }, turns: [use("glob", { pattern: "*" }), say("done")], repeat: true },
];

const lingering = (called: Latch<void>) =>
  defineTool({
    name: "linger",
    description: "Waits until it is told to stop.",
    input: z.object({}),
    run: (_input, { signal }) => {
      called.open();
      return new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("stopped")));
    },
  });

/** A little of everything that parents, workers, operators and other programs do. */
async function livesThrough(stage: OwnStage): Promise<void> {
  const parent = stage.parent("planner", { lease: { onParentGone: "destroy", ms: 5_000 } });
  await parent.register({ transcript_ms: 60_000 });
  await parent.webhook.set({ url: "https://example.com/" });
  await parent.schedule({ schedule_id: "daily", cron: "0 4 * * *", prompt: "work" });
  // Wakes that wait have places in the line.
  const early = [1, 2, 3].map(() => parent.task("plain"));
  await Promise.all(early.map(({ started }) => started));
  const lingers = latch();
  await stage.startWorker({ tools: [lingering(lingers)] });
  await Promise.all(early);
  const events = parent.events();
  const watching = events.next();
  await parent.task({ prompt: "plain", files: [{ path: "a.txt", content: "a" }] });
  await parent.task({ prompt: "ask", tools: ["ask_parent"] }, { onQuestion: () => "this" });
  await parent.task("long");
  await parent.task({ prompt: "refused", request_key: "named" });
  await watching;
  await events.return?.();
  await parent.spawn({ name: "keeper", keep_alive: true });
  await parent.send("keeper", "stay", { message_id: "first" });
  await parent.waitAny(["keeper"]);
  await parent.send("keeper", "linger");
  await lingers.opened;
  await parent.finish("keeper");
  await parent.destroy("keeper");
  await (await parent.newReplies()).ack();
  const pause = createPause(stage.redis, stage.keys);
  await pause.pause("a look");
  await pause.resume();
  const { url: redisUrl, prefix } = stage;
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const wish = ["parent_id", "planner", "prompt", "work", "name", "of the intake"];
  await stage.redis.xadd(stage.keys.intake, "*", "v", "1", ...wish);
  await stage.redis.xadd(stage.keys.intake, "*", "v", "1", "prompt", "of nobody");
  await until(async () => (await stage.redis.xlen(stage.keys.intake)) === 0);
  await parent.waitAny(["of_the_intake"]);
}

const WITHOUT_TTL = /without limit|until|while|BullMQ|–|TTL_MS/;
const WITH_TTL = /Ms|MS|\d+ [shd]\b|a minute|a day|like the record|idle time/;

/** Rows that this life must come by: all but those of the API, of a budget, and of BullMQ. */
const NOT_MET =
  /^(parent\.callback|budget|apiKeys|callbacks|callbackLock|requestRate|rankedWakes|delayedWakes|wakeJob|wakeQueue|intakeQueue|intakeJob|bullPrefix)$/;

test("each key that is written is of a row, by its type, its writers and its stay; each row is met", async () => {
  const stage = await openStage({ redis: "own", scenario });
  const { seen, monitor } = await watch(stage);
  await livesThrough(stage);
  await monitor.caughtUp();
  const rows = rowsOf(stage.prefix);
  const own = new RegExp(`^\\{${stage.prefix}\\}:(wakes|intake):`);
  const met = new Set<string>();
  const wrong = new Set<string>();
  for (const [key, { types, verbs }] of seen) {
    // BullMQ's keys are its own affair, unless a verb of ours writes there.
    if (own.test(key) && verbs.size === 0) continue;
    const row = rows.find(({ spelling }) => spelling.test(key));
    if (!row) {
      wrong.add(`${key} stands in no row`);
      continue;
    }
    const { name, users, stays } = row;
    met.add(name);
    for (const type of types) if (!row.type.startsWith(type)) wrong.add(`${name} is a ${type}`);
    for (const verb of verbs) if (!users.split(/[^\w-]+/).includes(verb)) wrong.add(`${verb} writes ${name}`);
    // It takes its jobs out by their age.
    const ttlMs = own.test(key) ? 0 : await stage.redis.pttl(key);
    if (ttlMs === -1 && !WITHOUT_TTL.test(stays)) wrong.add(`${name} has no TTL`);
    if (ttlMs > 0 && !WITH_TTL.test(stays)) wrong.add(`${name} has a TTL`);
  }
  expect([...wrong]).toEqual([]);
  expect(rows.map(({ name }) => name).filter((name) => !met.has(name) && !NOT_MET.test(name))).toEqual([]);
});
