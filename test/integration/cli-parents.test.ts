/** Guarantee: what a command asks of Redis is bounded by the parents of which something is kept, however many runs there were. */
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { newUid } from "../../src/shared/protocol/ids.ts";
import { parentMember } from "../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { openMonitor } from "../helpers/monitor.ts";
import { runHere } from "../helpers/program.ts";
import { openStage } from "../stage/stage.ts";

const DAY_MS = 86_400_000;
const STALE = 2_000;

/** An installation with 2,000 parents that runs made long ago, and one of today with an agent; and what commands ask about which. */
async function scene(staleDays: number) {
  const stage = await openStage({ redis: "own" });
  const { redis, keys, prefix, url } = stage;
  const parentId = "cli-today";
  await stage.parent(parentId).spawn({ name: "explorer" });
  const atMs = Date.now() - staleDays * DAY_MS;
  const old = Array.from({ length: STALE }, (_, n) => [
    atMs,
    parentMember({ tenant: "default", parentId: `cli-stale-${n}` }),
  ]);
  await redis.zadd(keys.parents, ...old.flat());
  let [stale, all] = [0, 0];
  const monitor = await openMonitor(url, (_at, [, ...keysAndValues], source) => {
    if (source === "lua" || !keysAndValues.some((each) => each.includes(prefix))) return;
    all += 1;
    if (keysAndValues.some((each) => each.includes("cli-stale"))) stale += 1;
  });
  closeAtEnd(() => monitor.stop());
  return {
    parentId,
    async ask(...args: string[]) {
      [stale, all] = [0, 0];
      const env = { REDIS_URL: url, SUBAGENT_PREFIX: prefix, SUBAGENT_PARENT: undefined };
      const said = await runHere(args, { cwd: tmpdir(), env });
      await monitor.caughtUp();
      return { ...said, stale, all };
    },
  };
}

test("of 2,000 parents that were active last 100 days ago none is asked", async () => {
  const { ask, parentId } = await scene(100);
  const shown = await ask("show", "explorer", "--json");
  expect(shown).toMatchObject({ code: 0, stale: 0 });
  expect(JSON.parse(shown.stdout[0] ?? "")).toMatchObject({ parent_id: parentId });
  expect(await ask("list", "--json")).toMatchObject({ code: 0, stale: 0 });
  expect(await ask("usage", "--json")).toMatchObject({ code: 0, stale: 0 });
  expect(await ask("logs", "--json")).toMatchObject({ code: 0, stale: 0 });
  expect(await ask("doctor", "replay", `${newUid()}.1`)).toMatchObject({ code: 2, stale: 0 });
});

test("events are kept for a day: of parents of three days ago logs asks none, show finds what they have", async () => {
  const { ask } = await scene(3);
  const logs = await ask("logs", "--json");
  expect(logs).toMatchObject({ code: 0, stale: 0 });
  expect(logs.all).toBeLessThan(20);
  expect(await ask("show", "nobody")).toMatchObject({ code: 2, stale: STALE });
});

test("ps reads and shows the last active parents, says how many more there are, and shows all that are asked for", async () => {
  const { ask, parentId } = await scene(0.5);
  const some = await ask("ps");
  expect(some.code).toBe(0);
  expect(some.stderr.at(-1)).toBe("1,951 more parents were active in the last 24h: --limit 2001 shows all.");
  expect(some.stdout).toHaveLength(1 + 50 + 1);
  expect(some.stdout[1]).toContain(parentId);
  expect(some.all).toBeLessThan(50 * 10);
  expect((await ask("ps", "--limit", "2001")).stdout).toHaveLength(1 + 2_001 + 1);
  const { stdout } = await ask("ps", "--limit", "1", "--json");
  expect(JSON.parse(stdout[0] ?? "")).toMatchObject({ parents: [{ parent_id: parentId }], more: 2_000 });
  const whole = JSON.parse((await ask("ps", "--json")).stdout[0] ?? "");
  expect(whole.parents).toHaveLength(2_001);
  expect(whole).not.toHaveProperty("more");
});

test("ps shows parents of earlier days to those who ask for days, and counts them in days", async () => {
  const { ask } = await scene(3);
  expect(await ask("ps", "--json")).toMatchObject({ code: 0, stale: 0 });
  const { code, stdout, stderr } = await ask("ps", "--since", "30d", "--limit", "1");
  expect({ code, rows: stdout.length }).toEqual({ code: 0, rows: 2 });
  expect(stderr.at(-1)).toBe("2,000 more parents were active in the last 30d: --limit 2001 shows all.");
  const { parents } = JSON.parse((await ask("ps", "--since", "9999d", "--json")).stdout[0] ?? "");
  expect(parents).toHaveLength(2_001);
  const wrong = await ask("ps", "--since", "0d");
  expect(wrong.code).toBe(2);
  expect(wrong.stderr.at(-1)).toMatch(/Write a time like .*30d/);
});
