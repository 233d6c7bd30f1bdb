/** Guarantee: on a host with a wrong clock the commands show the same parents, ages and sums as anywhere: they count by Redis' clock. */
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/shared/clock.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { openStage } from "../stage/stage.ts";

const DAY_MS = 86_400_000;

/** An installation whose two parents were active just now, as the commands of hosts see it. */
async function openScene() {
  const stage = await openStage();
  await stage.startWorker();
  const planner = stage.parent("cli");
  await planner.spawn({ name: "explorer" });
  const { turns } = await stage.parent("cli-1a2b3c").task({ prompt: "Say hello" });
  await stage.parent("cli-1a2b3c").spawn({ name: "finder" });
  const env = { REDIS_URL: stage.url, SUBAGENT_PREFIX: stage.prefix, SUBAGENT_PARENT: undefined };
  const on = (clock: Clock) => ({ cwd: tmpdir(), env, clock });
  const lines = async (clock: Clock, ...args: string[]) => (await runHere(args, on(clock))).stdout;
  return { stage, planner, turns, lines, on };
}

/** The clock of a host that is wrong by `days`. */
const wrongBy = (days: number): Clock => ({ ...systemClock, now: () => Date.now() + days * DAY_MS });

const AGE = /\b\d{1,2}s\b/;

test("40 days ahead, or 40 days behind", async () => {
  const { turns, lines, on } = await openScene();
  for (const clock of [wrongBy(40), wrongBy(-40)]) {
    const listed = await lines(clock, "list");
    expect(listed).toHaveLength(3);
    for (const agent of listed.slice(1)) expect(agent).toMatch(AGE);
    const [, ...parents] = await lines(clock, "ps", "--since", "1h");
    expect(parents.slice(0, 2)).toEqual([
      expect.stringMatching(/ \d{1,2}s ago$/),
      expect.stringMatching(/ \d{1,2}s ago$/),
    ]);
    const [ran] = JSON.parse((await lines(clock, "ps", "--json"))[0] ?? "").parents;
    expect(ran).toMatchObject({ parent_id: "cli-1a2b3c", today: { turns } });
    const used = JSON.parse((await lines(clock, "usage", "--since", "1d", "--json"))[0] ?? "");
    expect(used).toMatchObject({ other_parents: 1, turns });
    expect(await lines(clock, "show", "finder", "--json")).toHaveLength(1);
    expect((await lines(clock, "logs")).length).toBeGreaterThan(0);
    const watch = startHere(["watch", "--json"], on(clock));
    await watch.waitForLine('"parent_id":"cli-1a2b3c"');
    await watch.kill("SIGTERM");
  }
});

test("an hour ahead, the next attempt of a webhook was not missed", async () => {
  const { stage, planner, lines } = await openScene();
  const of = { tenant: "default", parentId: "cli" };
  await planner.webhook.set({ url: "https://example.com/hook" });
  await stage.redis.hset(stage.keys.parent(of).webhook, { failures: "1", last_problem: "It answered 500." });
  await stage.redis.zadd(stage.keys.webhooksDue, Date.now() + 60_000, "default/cli");
  const [, attempt] = await lines(wrongBy(1 / 24), "webhook", "show");
  expect(attempt).toMatch(/^the next attempt is at /);
});
