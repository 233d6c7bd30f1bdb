/**
 * Performs one round of the stale worker: a process is stopped until its leases have expired, while its writes are on the way
 * to Redis. Another worker takes over, the writes arrive, and the process continues. Reports how Redis treated the writes, and
 * the work that the process then began.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Scenario } from "../../src/offline/server.ts";
import type { Timing } from "../../src/shared/protocol/limits.ts";
import { noteAndLook } from "../helpers/fixtures/journaling-tools.ts";
import type { Proxy as TcpProxy } from "../helpers/proxy.ts";
import { readJournal } from "../helpers/tool-journal.ts";
import { until } from "../helpers/until.ts";
import { type Agent, SHORT_TIMING, type Stage, type WorkerProcess } from "../stage/stage.ts";
import type { Chronicle } from "./chronicle.ts";
import { namedCalls } from "./oracle-turns.ts";

/** Timing with a lease long enough to have writes on the way before the worker itself doubts its lease. */
export const STALE_TIMING: Timing = { ...SHORT_TIMING, leaseMs: 5_000, renewMs: 500, leaseMarginMs: 500 };

/**
 * Work of the process when it is stopped, one agent each. The short work is done by then, but not committed. The test ends the
 * short tool by its gate file, and the short call by the proxy to the model.
 */
const LONG_WORK = ["a long tool", "a call that stalls"];
const SHORT_TOOL = "a short tool";
const SHORT_CALL = "a short call";
const LONG_MS = 300_000;
/** Time (ms) within which a worker must abort a tool or call whose lease is lost. */
export const KILLED_WITHIN_MS = 2_000;

const GATE = "gate";
const tool = (wait: { ms: number } | { gate: string }) => ({
  content: [{ type: "tool_use" as const, name: "note", input: { line: "once", ...wait } }],
});
const done = { content: [{ type: "text" as const, text: "done" }] };

/** The model's script for the four kinds of work; a stalled call stalls only the first time. */
export const STALE_SCENARIO: Scenario = [
  { match: { user: "a long tool" }, turns: [tool({ ms: LONG_MS }), done] },
  { match: { user: SHORT_TOOL }, turns: [tool({ gate: GATE }), done] },
  {
    match: { user: "a call that stalls" },
    turns: [{ ...done, failures: [{ stream: { stallAfterChunks: 1 } }] }],
  },
  { match: { user: SHORT_CALL }, turns: [done] },
];

/** The parts of a round. */
export interface StaleScene {
  installation: Stage;
  chronicle: Chronicle;
  victim: WorkerProcess;
  /** Proxy between the victim and Redis. */
  line: TcpProxy;
  /** Proxy between the victim and the model. */
  modelLine: TcpProxy;
  journal: string;
}

/** Verbs that commit; `settle` contains the last answer of a run. */
const COMMITS: ReadonlySet<string> = new Set(["append", "settle"]);

/** Counts of a round. Each must be 0 unless its comment says otherwise. */
export interface StaleRound {
  /** Commits of the victim that reached Redis after the takeover and changed nothing: at least 2. */
  refusedCommits: number;
  /** All refused stale verbs, renewals included; includes `refusedCommits`. */
  refused: number;
  /** Stale verbs that changed data. */
  accepted: number;
  /** Tools and model calls that the victim began after the takeover. */
  begun: number;
  /** Agents whose record, log or channel changed after the victim's writes arrived and it continued. */
  changed: number;
  /** Time (ms) from the victim's continuation until its running tool and call were aborted; below `KILLED_WITHIN_MS`. */
  killedMs: number;
}

/** Performs round number `round`; at its end the victim works normally again. */
export async function staleRound(scene: StaleScene, round: number): Promise<StaleRound> {
  const { installation, chronicle, victim, line, modelLine } = scene;
  const { offline } = installation;
  const give = (work: string) => installation.task(`${work}, round ${round}`, { keep_alive: true });
  const hasBegun = async (agents: readonly Agent[]) => (await journalOf(scene, agents)).length === 1;
  const underWay = (what: string, condition: () => Promise<boolean> | boolean) =>
    until(condition, { what: `${what} to be under way` });
  const long = await Promise.all(LONG_WORK.map(give));
  await underWay("the long work", async () => offline.inFlight === 1 && (await hasBegun(long)));
  const short = await give(SHORT_TOOL);
  await underWay(SHORT_TOOL, () => hasBegun([short]));
  modelLine.pause();
  const agents = [...long, short, await give(SHORT_CALL)];
  await underWay(SHORT_CALL, () => modelLine.held.includes(`${SHORT_CALL}, round ${round}`));

  line.pause();
  modelLine.resume();
  await openGate(scene, short);
  // The result of the short tool and the answer of the short call: two commits held back in the proxy.
  const onTheWay = () => line.held.includes("/result") && line.held.includes('{"v":1,"model":');
  await until(onTheWay, { what: "two commits on their way to Redis" });
  victim.freeze();
  const claimOf = async (agent: Agent) => `${agent.uid} ${(await installation.record(agent)).epoch}`;
  const held = new Set(await Promise.all(agents.map(claimOf)));
  const taker = await installation.startWorker({ tools: noteAndLook(scene.journal) });
  const before = await Promise.all(
    agents.map(async (agent) => {
      await installation.reply(agent);
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
  const callsOfVictim = () =>
    namedCalls(offline.ledger).filter(({ uid, epoch }) => held.has(`${uid} ${epoch}`));
  const killedAt = await until(
    async () => {
      const journal = await journalOf(scene, agents);
      const tool = journal.find(({ pid, what }) => pid === victim.pid && what === "cut off")?.at;
      const call = callsOfVictim().find(({ call }) => call.status === "aborted")?.call.at;
      return tool && call && Math.max(tool, call);
    },
    { what: "the victim to give up what it was doing" },
  );
  const killedMs = killedAt - wokenAt;
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
  const callsBegun = callsOfVictim().filter(({ call }) => call.began_at >= takenAt);
  return {
    refusedCommits: asked.filter(({ verb, wrote }) => COMMITS.has(verb) && !wrote).length,
    refused: asked.filter(({ wrote }) => !wrote).length,
    accepted: asked.filter(({ wrote }) => wrote).length,
    begun: toolsBegun.length + callsBegun.length,
    changed: after.filter((now, i) => now !== before[i]).length,
    killedMs,
  };
}

/** Ends the short tool of the agent. */
async function openGate({ installation }: StaleScene, { tenant, parentId, agentId }: Agent): Promise<void> {
  const directory = join(installation.workspaceRoot, tenant, parentId, "agents", agentId, "workspace");
  await writeFile(join(directory, GATE), "");
}

async function journalOf({ journal }: StaleScene, agents: readonly Agent[]) {
  return (await readJournal(journal)).filter(({ uid }) => agents.some((agent) => agent.uid === uid));
}

async function snapshot({ redis, keys, entries }: Stage, agent: Agent): Promise<string> {
  const { record, log } = keys.agent(agent);
  // Redis may list the same fields in another order after it has re-encoded a hash.
  const fields = async (key: string) => Object.entries(await redis.hgetall(key)).sort();
  return JSON.stringify([await fields(record), await fields(log), await entries(agent)]);
}

/** Checks that the victim takes and finishes other work. */
async function provesWhole({ installation, victim }: StaleScene, round: number): Promise<void> {
  const agent = await installation.task(`${SHORT_CALL}, after round ${round}`, { keep_alive: true });
  await installation.reply(agent);
  const { worker } = await installation.record(agent);
  if (worker !== victim.id) throw new Error(`${worker} did what ${victim.id} was there for`);
}
