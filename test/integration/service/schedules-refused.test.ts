/** Guarantee: a schedule whose task is refused tells its parent once a day for the same reason, however often it comes due. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createJobTaker } from "../../../src/service/intake/jobs.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { openStage } from "../../stage/stage.ts";

const DAY_MS = 24 * 3_600_000;
/** Midnight of the day after tomorrow: a schedule that the test writes was written before. */
const DAY_BEGINS_MS = (Math.floor(Date.now() / DAY_MS) + 2) * DAY_MS;

async function folderWith(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "definitions-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, `${name}.md`), "---\ndescription: Works.\n---\nWork.");
  return folder;
}

test("a definition that is gone is told of once a day, and again for another reason or where the schedule was made again", async () => {
  const stage = await openStage();
  const logger = createLogger({ level: "silent" });
  const parent = stage.parent("planner-7", {
    client: stage.client({ agents: [await folderWith("reporter")] }),
  });
  const wish = { schedule_id: "often", every_ms: 3_600_000, prompt: "say hello", agent: "reporter" };
  await parent.schedule(wish);
  const data = { name: "often", parent_id: "planner-7", prompt: "hi", agent: "reporter", reply: "channel" };
  /** How often the parent has been told after the schedule came due for an intake with these definitions. */
  const toldBy = (agents: readonly string[]) => {
    const client = stage.client({ agents });
    const quota = createIntakeQuota(client, handClock(), logger);
    const { take } = createJobTaker({ client, quota, logger });
    const { replies } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
    return async (intoDayMs: number) => {
      const end = await take({ id: `repeat:default/planner-7/often:${DAY_BEGINS_MS + intoDayMs}`, data });
      expect(end).toMatchObject({ status: "refused", error: { code: "unknown_definition" } });
      return stage.redis.xlen(replies);
    };
  };
  const [told, toldByOther] = [toldBy([]), toldBy([await folderWith("other")])];
  expect([await told(0), await told(1_000), await told(DAY_MS - 1), await told(DAY_MS)]).toEqual([
    1, 1, 1, 2,
  ]);
  expect([await toldByOther(0), await toldByOther(1)]).toEqual([3, 3]);
  await parent.schedule({ ...wish, every_ms: 7_200_000 });
  expect([await told(0), await told(1)]).toEqual([4, 4]);
});
