/**
 * One round of the stale worker: a process is stopped past its leases with writes of its on the way to Redis, others take
 * over, its writes arrive, it wakes up. Says what Redis answered and what the woken process began.
 */

import type { Scenario } from "../../src/offline/server.ts";
import type { Timing } from "../../src/shared/protocol/timing.ts";
import { noteAndLook } from "../helpers/fixtures/journaling-tools.ts";
import { type Agent, type Installation, SHORT_TIMING, type WorkerProcess } from "../helpers/installation.ts";
import type { Proxy as TcpProxy } from "../helpers/proxy.ts";
import { readJournal } from "../helpers/tool-journal.ts";
import { until } from "../helpers/until.ts";
import type { Chronicle } from "./chronicle.ts";
import { namedCalls } from "./oracle-turns.ts";

/** Long enough to have writes on the way before the worker itself finds its lease in doubt. */
export const STALE_TIMING: Timing = { ...SHORT_TIMING, leaseMs: 5_000, renewMs: 500, leaseMarginMs: 500 };

/** What a stopped process is in the middle of, one agent each: the short work is done when it is stopped, and not committed. */
const LONG_WORK = ["a long tool", "a call that stalls"];
const SHORT_WORK = ["a short tool", "a short call"];
const SHORT_MS = 1_500;
const LONG_MS = 300_000;
/** A tool or call that the lease has left behind is dead within this time. */
export const KILLED_WITHIN_MS = 2_000;

const tool = (ms: number) => ({
  content: [{ type: "tool_use" as const, name: "note", input: { line: "once", ms } }],
});
const done = { content: [{ type: "text" as const, text: "done" }] };

/** Plays the four kinds of work; a stalled call stalls the first time only. */
export const STALE_SCENARIO: Scenario = [
  { match: { user: "a long tool" }, turns: [tool(LONG_MS), done] },
  { match: { user: "a short tool" }, turns: [tool(SHORT_MS), done] },
  {
    match: { user: "a call that stalls" },
    turns: [{ ...done, failures: [{ stream: { stallAfterChunks: 1 } }] }],
  },
  { match: { user: "a short call" }, turns: [{ ...done, latencyMs: SHORT_MS }] },
];

/** What a round needs. */
export interface StaleScene {
  installation: Installation;
  chronicle: Chronicle;
  victim: WorkerProcess;
  /** Between the victim and Redis. */
  line: TcpProxy;
  journal: string;
}

/** What came of a round; each should be 0 or as large as said. */
export interface StaleRound {
  /** Commits of the victim that reached Redis after the takeover and changed nothing: at least 2. */
  refusedCommits: number;
  /** All its stale writes, renewals included. */
  refused: number;
  /** Stale writes that changed something. */
  accepted: number;
  /** Tools and model calls that the victim began after the takeover. */
  begun: number;
  /** Agents whose record, log or channel was not the same before and after the victim woke up. */
  changed: number;
  /** How long after waking the running tool and the running call were dead, ms. */
  killedMs: number;
}

/** Performs round number `round`; the victim is whole again at its end. */
export async function staleRound(scene: StaleScene, round: number): Promise<StaleRound> {
  const { installation, chronicle, victim, line } = scene;
  const { offline } = installation;
  const give = (works: readonly string[]) =>
    Promise.all(works.map((work) => installation.task(`${work}, round ${round}`, { keep_alive: true })));
  const long = await give(LONG_WORK);
  const isUnderWay = async (agents: readonly Agent[], calls: number) =>
    offline.inFlight === calls && (await journalOf(scene, agents)).length === 1;
  await until(() => isUnderWay(long, 1), { what: "the long work to be under way", timeoutMs: 30_000 });
  const short = await give(SHORT_WORK);
  await until(() => isUnderWay(short, 2), { what: "the short work to be under way", timeoutMs: 30_000 });
  const agents = [...long, ...short];

  line.pause();
  // The result of the short tool and the answer of the short call: commits that only the line knows of.
  const onTheWay = () => line.held.includes("/result") && line.held.includes('"role":"assistant"');
  await until(onTheWay, { what: "two commits on their way to Redis" });
  victim.freeze();
  const taker = await installation.startWorker({ tools: noteAndLook(scene.journal) });
  const before = await Promise.all(
    agents.map(async (agent) => {
      await installation.reply(agent, 1, 60_000);
      return snapshot(installation, agent);
    }),
  );
  await chronicle.caughtUp();
  const takenAt = Date.now();

  line.resume();
  await until(() => line.held === "");
  await chronicle.caughtUp();
  const wokenAt = Date.now();
  victim.thaw();
  const calls = () =>
    namedCalls(offline.ledger).filter(({ uid }) => agents.some((agent) => agent.uid === uid));
  await until(
    async () =>
      (await journalOf(scene, agents)).some(({ pid, what }) => pid === victim.pid && what === "cut off") &&
      calls().some(({ call, epoch }) => epoch === 1 && call.status === "aborted"),
    { what: "the victim to give up what it was doing", timeoutMs: 30_000, everyMs: 5 },
  );
  const killedMs = Date.now() - wokenAt;
  await taker.stop();
  await provesWhole(scene, round);
  await chronicle.caughtUp();
  const after = await Promise.all(agents.map((agent) => snapshot(installation, agent)));
  const asked = chronicle.staleAsks.filter(
    ({ uid, at }) => at >= takenAt - 1 && agents.some((agent) => agent.uid === uid),
  );
  const toolsBegun = (await journalOf(scene, agents)).filter(
    (e) => e.pid === victim.pid && e.what === "began" && e.at >= takenAt,
  );
  const callsBegun = calls().filter(({ call, epoch }) => epoch === 1 && call.began_at >= takenAt);
  return {
    refusedCommits: asked.filter(({ verb, wrote }) => verb === "append" && !wrote).length,
    refused: asked.filter(({ wrote }) => !wrote).length,
    accepted: asked.filter(({ wrote }) => wrote).length,
    begun: toolsBegun.length + callsBegun.length,
    changed: after.filter((now, i) => now !== before[i]).length,
    killedMs,
  };
}

async function journalOf({ journal }: StaleScene, agents: readonly Agent[]) {
  return (await readJournal(journal)).filter(({ uid }) => agents.some((agent) => agent.uid === uid));
}

async function snapshot({ redis, keys, entries }: Installation, agent: Agent): Promise<string> {
  const { record, log } = keys.agent(agent);
  const kept = [await redis.hgetall(record), await redis.hgetall(log), await entries(agent)];
  return JSON.stringify(kept);
}

/** The victim takes and finishes other work. */
async function provesWhole({ installation, victim }: StaleScene, round: number): Promise<void> {
  const agent = await installation.task(`a short call, after round ${round}`, { keep_alive: true });
  await installation.reply(agent, 1, 60_000);
  const { worker } = await installation.record(agent);
  if (worker !== victim.id) throw new Error(`${worker} did what ${victim.id} was there for`);
}
