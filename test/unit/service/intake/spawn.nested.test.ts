/** A sub-agent that would be a parent is told so through every door, with the same code and sentence. */
import { expect, test } from "vitest";
import { createClient } from "../../../../src/producer/client.ts";
import { inputOfEntry, inputOfJob, senderOfEntry } from "../../../../src/service/intake/input.ts";
import { createIntakeQuota } from "../../../../src/service/intake/quota.ts";
import { handOver } from "../../../../src/service/intake/spawn.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { createLogger } from "../../../../src/shared/logger.ts";

const MEANT = { parent_id: "sa-0123456789abcdef01234567", prompt: "Go." };

test("a request in the name of a sub-agent is refused as nested_spawn, and no channel is named for it", async () => {
  const client = createClient({ redisUrl: "redis://127.0.0.1:1", model: "offline-1" });
  const quota = createIntakeQuota(client, systemClock, createLogger({ level: "silent" }));
  const refusal = {
    code: "nested_spawn",
    message: "A sub-agent cannot be a parent: let it finish, and have its parent spawn what else is needed.",
  };
  const flat = Object.entries(MEANT).flat();
  for (const request of [inputOfEntry(flat), inputOfJob({ data: MEANT }, false)])
    await expect(handOver(client, request, "1", quota)).rejects.toMatchObject(refusal);
  expect(senderOfEntry(flat)).toBeUndefined();
});
