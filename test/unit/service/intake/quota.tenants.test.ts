/** Guarantee: spawns under way take room of their own parent alone: another tenant's parent may have the same id. */
import { expect, test } from "vitest";
import { createIntakeQuota } from "../../../../src/service/intake/quota.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { MAX_LIVE_AGENTS } from "../../../../src/shared/protocol/limits.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { latch } from "../../../helpers/latch.ts";
import { testClient } from "../../../helpers/parents.ts";

test("a tenant whose parent is full takes no room from a parent of that name of another tenant", async () => {
  const quota = createIntakeQuota(testClient(), handClock(), createLogger({ level: "silent" }));
  const end = latch();
  const spawn = (tenant: string, n: number, ends: Promise<void>) =>
    quota.spawnWithin({ tenant, parentId: "shell" }, `key-${n}`, { check: () => {}, spawn: () => ends });
  const full = Array.from({ length: MAX_LIVE_AGENTS }, (_, n) => spawn("acme", n, end.opened));
  await expect(spawn("acme", MAX_LIVE_AGENTS, end.opened)).rejects.toMatchObject({ code: "quota_exceeded" });
  // It begins while all of the other tenant's are under way.
  await spawn("globex", 0, Promise.resolve());
  end.open();
  await Promise.all(full);
});
