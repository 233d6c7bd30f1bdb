/** Guarantee: a request that was handed over before is not checked as a new one: its agent is there already. */
import { expect, test } from "vitest";
import { createIntakeQuota } from "../../../../src/service/intake/quota.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { testClient, testParent } from "../../../helpers/parents.ts";

test("a repeated request is spawned again without a check, a new one only after it", async () => {
  const client = testClient();
  await testParent(client).spawn({ name: "a", request_key: "once" });
  const quota = createIntakeQuota(client, handClock(), createLogger({ level: "silent" }));
  const spawnWithin = (requestKey: string) =>
    quota.spawnWithin({ tenant: "default", parentId: "planner-7" }, requestKey, {
      check() {
        throw new RangeError("no such model any more");
      },
      spawn: async () => "spawned",
    });
  expect(await spawnWithin("once")).toBe("spawned");
  await expect(spawnWithin("new")).rejects.toThrow("no such model any more");
});
