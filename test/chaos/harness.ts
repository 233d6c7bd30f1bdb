/**
 * Runs a whole chaos run: first the stories without faults, then the same stories under faults, then the judgement.
 * Composes the other modules, which own their state.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { startProxy, type Proxy as TcpProxy } from "../helpers/proxy.ts";
import { FSYNC_NEVER, startPrivateRedis } from "../helpers/redis.ts";
import { setClockForth } from "../helpers/redis-clock.ts";
import type { RedisServer } from "../helpers/redis-server.ts";
import { readJournal } from "../helpers/tool-journal.ts";
import { openStage, type Stage } from "../stage/stage.ts";
import { type Chronicle, openChronicle } from "./chronicle.ts";
import { type Evidence, lookUp, type Outcome, outcomeKey } from "./evidence.ts";
import { createPace, type PlannedStrike, planStrikes } from "./fault-schedule.ts";
import { type Fleet, startFleet } from "./fleet.ts";
import { type LoadRecord, PARENT_IDS, runLoad } from "./load.ts";
import { type ChaosOptions, TIMINGS, timesOf } from "./options.ts";
import { judgeEffects } from "./oracle-effects.ts";
import { judgeFaults } from "./oracle-faults.ts";
import { judgeLeftovers } from "./oracle-leftovers.ts";
import { judgeMoney } from "./oracle-money.ts";
import { judgeRecovery } from "./oracle-recovery.ts";
import { judgeReplies, outcomeOf } from "./oracle-replies.ts";
import { judgeTurns } from "./oracle-turns.ts";
import { judgeWakes } from "./oracle-wakes.ts";
import { countUp, type Verdict } from "./report.ts";
import { type Story, scenarioOf, tellStories, toolsNamedBy } from "./stories.ts";
import { type Fault, type Scene, strikeAll } from "./strikes.ts";

const CONCURRENCY = 20;
const PROGRESS_MS = 10_000;
const SWALLOW_EVERY = 20;
/** A parent considers a reply lost after this time (ms) plus twice the longest time of a run. */
const PATIENCE_MS = 300_000;

/** Runs the chaos run and judges it; the test's end closes all resources. Calls `say` with its progress. */
export async function runChaos(options: ChaosOptions, say: (line: string) => void): Promise<Verdict> {
  const startedMs = performance.now();
  const { tempo } = timesOf(options);
  const stories = tellStories(options.seed, options.runs, tempo);
  const plan = planStrikes(options.seed, options.kills, options.faults);
  const server = await startPrivateRedis({ arguments: FSYNC_NEVER });
  const undisturbed = await runUndisturbed(options, server, stories);
  say(`undisturbed: ${undisturbed.size} runs; now the same under ${plan.length} faults`);
  const disturbed = await runDisturbed(options, server, stories, plan, say);
  const { violations: leftovers, settledMs } = await judgeLeftovers(disturbed.installation, stories.length);
  // Gathered only now, so that late effects, which must not happen, are included.
  const { evidence, swallowed } = await gather({ ...disturbed, undisturbed, stories });
  await disturbed.fleet.stop();
  const lookup = lookUp(evidence);
  const tookMs = performance.now() - startedMs;
  const figures = countUp(evidence, { swallowed, settledMs, tookMs });
  const violations = [
    ...judgeReplies(evidence, lookup),
    ...judgeTurns(evidence, lookup),
    ...judgeEffects(evidence, lookup),
    ...judgeMoney(evidence, lookup),
    // The list of workers still contains killed workers for a while.
    ...judgeWakes(evidence, lookup, options.fleet === "mixed" ? 2 * options.workers : 0),
    ...leftovers,
    ...judgeFaults({ ...options, swallowed, planned: plan.length }, evidence, lookup),
    // In a mixed fleet a run may wait for a worker that has its tools. With short leases most of the time is the pauses after
    // a lost claim, which stay production's. Both forms therefore judge only the results of runs, not their recovery time.
    ...(options.fleet === "alike" && options.timing === "production"
      ? judgeRecovery(figures, { ...options, swallowed: options.faults.has("swallow") })
      : []),
  ];
  return { figures, violations, evidence };
}

/** Runs the stories without faults and without latency, and returns the result of each run. */
async function runUndisturbed(
  options: ChaosOptions,
  server: RedisServer,
  stories: readonly Story[],
): Promise<Map<string, Outcome>> {
  const { timing, window } = TIMINGS[options.timing];
  const calm = await openStage({
    redis: server,
    timing,
    scenario: scenarioOf(stories, { hurried: true }),
  });
  const worker = await calm.spawnWorker({ concurrency: window });
  const pace = createPace(options.runs, options.runs, []);
  const { prefix } = calm;
  const patienceMs = PATIENCE_MS;
  const load = await runLoad({ redisUrl: server.url, prefix, timing, stories, window, pace, patienceMs });
  await worker.kill();
  return new Map(
    load.told.flatMap(({ story, parentId, agentId }) =>
      load.seen.flatMap(({ entry, parentId: by }) =>
        entry.kind === "reply" && by === parentId && entry.agent_id === agentId
          ? [[outcomeKey(story, entry.run), outcomeOf(entry)] as const]
          : [],
      ),
    ),
  );
}

/** The parts on which faults act. */
interface Arena {
  installation: Stage;
  /** See `WorkerProcessOptions`. */
  journal: string;
  chronicle: Chronicle;
  fleet: Fleet;
  parentsProxy: TcpProxy;
  /** The proxies of the parents and of every worker. */
  proxies: readonly TcpProxy[];
}

type Disturbed = Arena & { load: LoadRecord; faults: Fault[] };

async function openArena(
  { timing: name, workers, faults, fleet: kind, isolation, stalledCheck }: ChaosOptions,
  server: RedisServer,
  stories: readonly Story[],
): Promise<Arena> {
  const { timing } = TIMINGS[name];
  const installation = await openStage({ redis: server, timing, scenario: scenarioOf(stories) });
  const journal = join(installation.workspaceRoot, "journal");
  const chronicle = await openChronicle(server.url, installation.prefix);
  const crew = { redisPort: server.port, workers, concurrency: CONCURRENCY, journal, kind, isolation };
  if (!stalledCheck) await withoutStalledCheck(installation);
  const fleet = await startFleet({ installation, ...crew });
  const parentsProxy = await startProxy(server.port);
  const proxies = [parentsProxy, ...fleet.seats.map((seat) => seat.proxy)];
  if (faults.has("swallow")) for (const proxy of proxies) proxy.swallowEveryNthReply(SWALLOW_EVERY);
  return { installation, journal, chronicle, fleet, parentsProxy, proxies };
}

/** Turns off BullMQ's check for stalled jobs, which runs only if this key is absent. BullMQ sets it with a TTL. */
function withoutStalledCheck({ redis, keys }: Stage): Promise<unknown> {
  return redis.set(`${keys.bullPrefix}:${keys.wakeQueue}:stalled-check`, "never");
}

async function runDisturbed(
  options: ChaosOptions,
  server: RedisServer,
  stories: readonly Story[],
  plan: readonly PlannedStrike[],
  say: (line: string) => void,
): Promise<Disturbed> {
  const { timing, window } = TIMINGS[options.timing];
  const arena = await openArena(options, server, stories);
  const { installation, chronicle, fleet, parentsProxy } = arena;
  const pace = createPace(options.runs, window / 2, plan);
  let over = false;
  const scene: Scene = {
    ...{ fleet, parentsProxy, server, chronicle, pace, leaseMs: timing.leaseMs, isOver: () => over },
    setClockForth: (byMs) => setClockForth(installation, byMs),
  };
  const striking = strikeAll(scene, plan);
  const redisUrl = `redis://127.0.0.1:${parentsProxy.port}`;
  const { prefix } = installation;
  const { latencyMs, turns } = timesOf(options).tempo;
  const patienceMs = PATIENCE_MS + 2 * latencyMs[1] * turns[1];
  const toolsOf = options.fleet === "mixed" ? { toolsOf: toolsNamedBy } : {};
  const load = { redisUrl, prefix, timing, stories, window, pace, patienceMs, ...toolsOf };
  const telling = runLoad(load).finally(() => {
    over = true;
    pace.release();
  });
  const progress = setInterval(() => {
    say(`${pace.runsOver} of ${options.runs} runs over, ${pace.strikesDone} of ${plan.length} faults struck`);
  }, PROGRESS_MS);
  const [told, faults] = await Promise.all([telling, striking]).finally(() => clearInterval(progress));
  await fleet.settled();
  for (const proxy of arena.proxies) proxy.swallowEveryNthReply(undefined);
  return { ...arena, load: told, faults };
}

async function gather(
  parts: Disturbed & Pick<Evidence, "stories" | "undisturbed">,
): Promise<{ evidence: Evidence; swallowed: number }> {
  const { installation, chronicle, fleet, load, stories, undisturbed, faults } = parts;
  await chronicle.caughtUp();
  const evidence: Evidence = {
    stories,
    load,
    undisturbed,
    faults,
    happenings: [...chronicle.happenings],
    staleAsks: [...chronicle.staleAsks],
    ledger: [...installation.offline.ledger],
    spent: await Promise.all(PARENT_IDS.map((parentId) => installation.parent(parentId).usage())),
    journal: await readJournal(parts.journal),
    collapses: [...fleet.collapses],
    workspaces: await readWorkspaces(installation.workspaceRoot, load),
  };
  const swallowed = parts.proxies.reduce((sum, { counts }) => sum + counts.swallowed, 0);
  return { evidence, swallowed };
}

/** Reads the files one after the other, because a long run has more than a process may have open. */
async function readWorkspaces(root: string, load: LoadRecord): Promise<Evidence["workspaces"]> {
  const found = new Map<string, { notes: string[]; looks: string[] }>();
  for (const { parentId, agentId = "" } of load.told) {
    const directory = join(root, "default", parentId, "agents", agentId, "workspace");
    const [notes, looks] = [await linesOf(directory, "notes"), await linesOf(directory, "looks")];
    found.set(`${parentId}/${agentId}`, { notes, looks });
  }
  return found;
}

/** Reads the lines of a file; only a missing file counts as empty. */
async function linesOf(directory: string, name: string): Promise<string[]> {
  const text = await readFile(join(directory, `${name}.txt`), "utf8").catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "";
      throw error;
    },
  );
  return text.split("\n").filter((line) => line !== "");
}
