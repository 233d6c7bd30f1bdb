/**
 * Guarantee: a place in the line that tenants and parents share costs one command a wake, sent by whoever adds it; whoever takes the
 * wake sends none. Counted, not timed.
 */
import { expect, test } from "vitest";
import { wakeJobId } from "../../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, type OwnStage, openStage } from "../../stage/stage.ts";

const scenario = { turns: [{ content: [{ type: "text" as const, text: "done" }] }] };
/** With `delayMs` 0 a wake is taken at once and has no place in the line. */
const UNRANKED_MS = 0;

/** A Redis that tells what clients ask of it; what their scripts do there is left out. */
async function openCounted() {
  const stage = await openStage({ redis: "own", scenario, timing: LONG_TIMING });
  const asked: string[][] = [];
  const monitor = await openMonitor(stage.url, (_seconds, command, source) => {
    if (source !== "lua") asked.push(command);
  });
  closeAtEnd(() => monitor.stop());
  return {
    stage,
    /** The commands so far that name `word`, also those that nobody waited for. */
    async naming(word: string): Promise<string[][]> {
      await stage.redis.ping();
      await monitor.caughtUp();
      return asked.filter((command) => command.some((each) => each.includes(word)));
    },
  };
}

/** The commands that ask for a place in the line. */
const ranks = ({ keys }: OwnStage, commands: readonly string[][]) =>
  commands.filter((command) => command.includes(keys.fairPeriod));

/** An agent with a message, and its wake, which nobody has added yet. */
async function messaged(stage: OwnStage) {
  const agent = await stage.spawn();
  const { uid, tenant, parentId: parent_id, agentId: agent_id } = agent;
  const payload = JSON.stringify({ v: 1, message_id: uid, text: "go" });
  const sent = await stage.store.send(agent, { message_id: uid, payload, digest: "" });
  if (sent.status !== "queued") expect.fail(sent.status);
  return { agent, uid, wake: { tenant, parent_id, uid, agent_id, wake: sent.wake } };
}

test("a wake with a place in the line is one command more than one without", async () => {
  const { stage, naming } = await openCounted();
  const [ranked, unranked] = [await messaged(stage), await messaged(stage)];
  await stage.wakes.add(ranked.wake);
  await stage.wakes.add(unranked.wake, UNRANKED_MS);
  const withPlace = await naming(wakeJobId(ranked.wake));
  expect(withPlace.length - (await naming(wakeJobId(unranked.wake))).length).toBe(1);
  expect(ranks(stage, withPlace)).toHaveLength(1);
});

test("a spawn with its first message sends hint, verb, wake, and one command for the wake's place", async () => {
  const { stage, naming } = await openCounted();
  const parent = stage.parent();
  const task = parent.task({ name: "t", prompt: "go" });
  const { agent_id } = await task.started;
  const uid = await until(() => stage.store.uidOf({ tenant: "default", parentId: "planner-7" }, agent_id));
  await until(async () => ranks(stage, await naming(uid)).length > 0);
  // What the task reads while it waits for a worker is no part of the spawn: every command of that is a script.
  const sent = (await naming(uid)).filter(([command = ""]) => command.toLowerCase().startsWith("eval"));
  expect([sent.length, ranks(stage, sent).length]).toEqual([4, 1]);
  await parent.destroy(agent_id);
  expect((await task).stop_reason).toBe("destroyed");
});

test("a worker sends for a wake with a place in the line what it sends for one without", async () => {
  const { stage, naming } = await openCounted();
  const agents = [await messaged(stage), await messaged(stage)] as const;
  const [ranked, unranked] = agents;
  await stage.wakes.add(ranked.wake);
  await stage.wakes.add(unranked.wake, UNRANKED_MS);
  const added = await Promise.all(agents.map(({ uid }) => naming(uid)));
  const worker = await stage.startWorker({ concurrency: 1 });
  for (const { agent } of agents) await stage.reply(agent);
  // By then the jobs of the wakes are over, too.
  await worker.stop();
  const sent = await Promise.all(agents.map(({ uid }) => naming(uid)));
  const byWorker = sent.map((commands, n) => commands.slice(added[n]?.length));
  expect(byWorker[0]?.length).toBeGreaterThan(0);
  expect(byWorker[0]?.length).toBe(byWorker[1]?.length);
  expect(byWorker.flatMap((commands) => ranks(stage, commands))).toEqual([]);
});
