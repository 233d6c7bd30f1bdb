import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { cells } from "../../../../src/cli/terminal/text.ts";
import { newUid } from "../../../../src/shared/protocol/ids.ts";
import {
  agentOf,
  keysUnder,
  type ParentAddress,
  parentMember,
} from "../../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { writeLines } from "../../../helpers/event-lines.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { openMonitor } from "../../../helpers/monitor.ts";
import { runHere, startHere } from "../../../helpers/program.ts";
import { startProxy } from "../../../helpers/proxy.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

/** Time between two checks of `logs --follow`. */
const CHECK_EVERY_MS = 1_000;

const parentNamed = (parentId: string): ParentAddress => ({ tenant: "default", parentId });

function scene() {
  const prefix = uniquePrefix();
  const keys = keysUnder(prefix);
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const env = { REDIS_URL: redisUrl(), SUBAGENT_PREFIX: prefix, SUBAGENT_PARENT: undefined };
  return { keys, redis, env, place: { cwd: tmpdir(), env } };
}

test("what is kept behind numbers whose lines are gone is shown", async () => {
  const { keys, redis, place } = scene();
  const parent = parentNamed("planner-7");
  const [gone, here] = [newUid(), newUid()];
  await writeLines(redis, keys, parent, { uids: [gone], each: 1_200 });
  await redis.del(keys.agent(agentOf(parent, gone)).timeline);
  await writeLines(redis, keys, parent, { uids: [here], each: 700, behind: 1_200 });
  const { code, stdout } = await runHere(["logs", "--parent", "planner-7", "--json"], place);
  expect(code).toBe(0);
  expect(stdout.map((line) => JSON.parse(line).turn)).toEqual(Array.from({ length: 700 }, (_, i) => i + 1));
});

test("the lines of several parents stand in the order of their times", async () => {
  const { keys, redis, place } = scene();
  const [own, other] = [parentNamed("cli"), parentNamed("cli-run")];
  const [ownUid, otherUid] = [newUid(), newUid()];
  await redis.zadd(keys.parents, Date.now(), parentMember(own), Date.now(), parentMember(other));
  await writeLines(redis, keys, own, { uids: [ownUid], each: 1 });
  await writeLines(redis, keys, other, { uids: [otherUid], each: 1, behind: 1 });
  await writeLines(redis, keys, own, { uids: [ownUid], each: 1, behind: 2 });
  const { stdout } = await runHere(["logs", "--json"], place);
  expect(stdout.map((line) => JSON.parse(line).parent_id)).toEqual(["cli", "cli-run", "cli"]);
});

test("on a terminal lines are cut to its width, except lines of JSON", async () => {
  const { keys, redis, place } = scene();
  const [parent, uid] = [parentNamed("planner-7"), newUid()];
  const [, number] = await writeLines(redis, keys, parent, { uids: [uid], each: 2 });
  const ended = { type: "ended", turn: 0, status: "cancelled", stop_reason: "finished_by_parent" };
  const { timeline } = keys.agent(agentOf(parent, uid));
  await redis.lset(timeline, 1, `${number} 2 ${JSON.stringify(ended)}`);
  const linesOf = async (...flags: string[]) => {
    const said: string[] = [];
    const write = (text: string, passedOn?: () => void) => {
      said.push(text);
      passedOn?.();
    };
    const stdout = { isTTY: true, columns: 40, write, on: () => undefined };
    await runHere(["logs", "--parent", "planner-7", ...flags], { ...place, stdout });
    return said.join("").split("\n").filter(Boolean);
  };
  const [cut = "", ...others] = await linesOf();
  expect(others).toEqual([]);
  expect(cut).toMatch(/…$/);
  // The cut text may have ended in a space.
  expect([38, 39]).toContain(cells(cut));
  expect((await linesOf("--json")).map((line) => JSON.parse(line).stop_reason)).toEqual([
    undefined,
    "finished_by_parent",
  ]);
});

test("--follow reads over one connection, and asks which parents there are every five seconds", async () => {
  const { keys, redis, place } = scene();
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  const clock = handClock();
  let checks = 0;
  const counted = {
    ...clock,
    sleep(ms: number, signal?: AbortSignal) {
      checks += 1;
      return clock.sleep(ms, signal);
    },
  };
  let surveys = 0;
  const monitor = await openMonitor(redisUrl(), (_at, [command = "", key]) => {
    if (command.toLowerCase() === "zrange" && key === keys.parents) surveys += 1;
  });
  closeAtEnd(() => monitor.stop());
  const env = { ...place.env, REDIS_URL: `redis://127.0.0.1:${proxy.port}` };
  const logs = startHere(["logs", "--follow", "--json"], { ...place, env, clock: counted });
  await until(() => checks === 1);
  const [own, later] = [newUid(), newUid()];
  for (let check = 1; check <= 7; check++) {
    await writeLines(redis, keys, parentNamed("cli"), { uids: [own], each: 1, behind: check });
    if (check === 2) {
      await writeLines(redis, keys, parentNamed("cli-new"), { uids: [later], each: 1 });
      await redis.zadd(keys.parents, Date.now(), parentMember(parentNamed("cli-new")));
    }
    clock.advance(CHECK_EVERY_MS);
    await until(() => checks === check + 1);
    expect(linesOf(logs.stdout, own)).toBe(check);
    expect(linesOf(logs.stdout, later)).toBe(check < 5 ? 0 : 1);
  }
  await monitor.caughtUp();
  expect({ surveys, connections: proxy.counts.accepted }).toEqual({ surveys: 2, connections: 1 });
  await logs.kill("SIGTERM");
});

test("--follow prints all lines of a read that Redis did not live to finish", async () => {
  const { keys, redis, place } = scene();
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  const clock = handClock();
  let checks = 0;
  const counted = {
    ...clock,
    sleep(ms: number, signal?: AbortSignal) {
      checks += 1;
      return clock.sleep(ms, signal);
    },
  };
  let reads = 0;
  const monitor = await openMonitor(redisUrl(), (_at, [command = "", key]) => {
    if (command.toLowerCase() !== "xrange" || key !== keys.parent(parentNamed("cli")).history) return;
    reads += 1;
    // The second of three pages is under way.
    if (reads === 3) proxy.refuse();
  });
  closeAtEnd(() => monitor.stop());
  const env = { ...place.env, REDIS_URL: `redis://127.0.0.1:${proxy.port}` };
  const logs = startHere(["logs", "--follow", "--json"], { ...place, env, clock: counted });
  await until(() => checks === 1);
  proxy.setLatency(20);
  await writeLines(redis, keys, parentNamed("cli"), { uids: [newUid()], each: 1_200 });
  clock.advance(CHECK_EVERY_MS);
  await logs.waitForLine(/Trying again until it is back/);
  proxy.heal();
  await until(() => {
    clock.advance(CHECK_EVERY_MS);
    return logs.stdout.length >= 1_200;
  });
  expect(logs.stdout.map((line) => JSON.parse(line).turn)).toEqual(
    Array.from({ length: 1_200 }, (_, i) => i + 1),
  );
  await logs.kill("SIGTERM");
});

function linesOf(stdout: readonly string[], uid: string): number {
  return stdout.filter((line) => JSON.parse(line).agent_id === uid).length;
}
