/**
 * Guarantee: a job of the intake queue ends as its task does, and its reply is read once, whichever of the commands that move the job
 * meets a fault: the connection is lost before Redis has it, or after Redis performed it, or Redis has no memory left for it.
 */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { createIntake } from "../../src/service/intake/intake.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type CommandFault, openFaultLine } from "../helpers/fault-line.ts";
import { until } from "../helpers/until.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const MAX_LIVE = 10;
const FAULTS: readonly CommandFault[] = ["cut before", "cut after", "refused"];
/** How many commands move the job in an undisturbed life, and the options of its task. */
const KINDS = {
  /** Its end. */
  returned: { commands: 1, options: {} },
  /** Its end. */
  sent: { commands: 1, options: { reply: "channel" } },
  /** Its delay, and its end. */
  late: { commands: 2, options: { reply: "channel" } },
} as const;

interface Life {
  id: string;
  kind: keyof typeof KINDS;
  fault: CommandFault;
  at: number;
}

const LIVES: readonly Life[] = Object.keys(KINDS).flatMap((name) => {
  const kind = name as keyof typeof KINDS;
  return FAULTS.flatMap((fault) =>
    Array.from({ length: KINDS[kind].commands }, (_, at) => ({
      ...{ kind, fault, at },
      id: `${kind}-${fault.replace(" ", "-")}-${at}`,
    })),
  );
});

/** Each life meets its fault once: at that one of its commands. */
function faults() {
  const counts = new Map<string, number>();
  const met = new Set<string>();
  const decide = (words: readonly string[]): CommandFault => {
    if (!/^eval/i.test(words[0] ?? "")) return "passes";
    for (const { id, fault, at } of LIVES) {
      // A renewal of locks names jobs in its arguments only, and many at once.
      if (!words.some((word) => word.endsWith(`:${id}`))) continue;
      const count = counts.get(id) ?? 0;
      counts.set(id, count + 1);
      if (count !== at) continue;
      met.add(id);
      return fault;
    }
    return "passes";
  };
  /** Whether a command has moved the job. */
  const hasMoved = (id: string) => counts.has(id);
  return { decide, met, hasMoved };
}

/** Begins to take the stage's jobs over a line with faults. */
async function startIntake(stage: Stage, decide: (words: readonly string[]) => CommandFault): Promise<Queue> {
  const redisUrl = await openFaultLine(Number(new URL(stage.url).port), decide);
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix: stage.prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const redis = openRedis(stage.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const queue = new Queue(stage.keys.intakeQueue, { connection: redis, prefix: stage.keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

async function fill(stage: Stage, parentId: string): Promise<void> {
  for (let i = 0; i < MAX_LIVE; i += 1) await stage.parent(parentId).spawn({ name: "Idle" });
}

async function makeRoom(stage: Stage, parentId: string): Promise<void> {
  const [idle] = await stage.parent(parentId).list();
  await stage.parent(parentId).destroy(idle?.agent_id ?? "");
}

/** As if the lock of a job whose command was refused had expired. */
async function dropLock({ redis, keys }: Stage, met: ReadonlySet<string>, id: string): Promise<void> {
  await until(() => met.has(id));
  await redis.del(`${keys.intakeJob(id)}:lock`);
}

/** The final replies of tasks in the channel of a parent. */
async function repliesOf({ redis, keys }: Stage, parentId: string): Promise<number> {
  const entries = await redis.xrange(keys.parent({ tenant: "default", parentId }).replies, "-", "+");
  return entries.filter(([, flat]) => flat.includes("succeeded")).length;
}

test("each job ends as its task does and each reply is read once, whichever command of the job meets a fault", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const late = LIVES.filter(({ kind }) => kind === "late");
  await Promise.all(late.map(({ id }) => fill(stage, id)));
  const { decide, met, hasMoved } = faults();
  const queue = await startIntake(stage, decide);
  await Promise.all(
    LIVES.map(({ id, kind }) => {
      const data = { parent_id: id, prompt: "say hello", ...KINDS[kind].options };
      return queue.add("task", data, { jobId: id });
    }),
  );
  // Room for a task that was not refused yet would spare its job the delay.
  await until(() => late.every(({ id }) => hasMoved(id)));
  await Promise.all(late.map(({ id }) => makeRoom(stage, id)));
  const refused = LIVES.filter(({ fault }) => fault === "refused");
  await Promise.all(refused.map(({ id }) => dropLock(stage, met, id)));
  for (const { id, kind } of LIVES) {
    const job = await until(
      async () => {
        const found = await queue.getJob(id);
        return found?.finishedOn !== undefined && found;
      },
      { what: `${id} to end` },
    );
    expect({ id, state: await job.getState(), why: job.failedReason }).toEqual({ id, state: "completed" });
    await until(async () => (await repliesOf(stage, id)) === (kind === "returned" ? 0 : 1), {
      what: `${id}: a reply for one reader`,
      timeoutMs: 20_000,
    });
  }
  expect([...met].sort()).toEqual(LIVES.map(({ id }) => id).sort());
  expect(stage.offline.ledger.length).toBe(LIVES.length);
});
