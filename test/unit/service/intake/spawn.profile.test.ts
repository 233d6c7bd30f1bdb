/** A sender of a job is told what is wrong with its profile by the name that the field has in a job. */
import { expect, test } from "vitest";
import { createClient } from "../../../../src/producer/client.ts";
import { createIntakeQuota } from "../../../../src/service/intake/quota.ts";
import { handOver } from "../../../../src/service/intake/spawn.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { createLogger } from "../../../../src/shared/logger.ts";

test("a profile that leaves no tool is refused as the field of a job, not as the options of a program", async () => {
  const client = createClient({ redisUrl: "redis://127.0.0.1:1" });
  const quota = createIntakeQuota(client, systemClock, createLogger({ level: "silent" }));
  const profile = { tools: ["read_file"], disallowed_tools: ["read_file"] };
  const job = {
    v: 1,
    tenant: "default",
    parent_id: "shell",
    prompt: "go",
    reply: "channel",
    profile,
  } as const;
  await expect(handOver(client, job, "1", quota)).rejects.toMatchObject({
    code: "invalid_input",
    message: expect.stringMatching(
      /^intake profile refused, nothing was done: disallowed_tools has every one/,
    ),
  });
});
