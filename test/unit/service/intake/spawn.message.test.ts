/** A message to an agent is answered at the intake as at the other doors, whatever stands in the place of the agent's id. */
import { expect, test } from "vitest";
import { inputOfEntry, inputOfJob } from "../../../../src/service/intake/input.ts";
import { createIntakeQuota } from "../../../../src/service/intake/quota.ts";
import { handOver } from "../../../../src/service/intake/spawn.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { openStage } from "../../../stage/stage.ts";

const MESSAGE = { parent_id: "shell", prompt: "Go on." };

test("an agent_id that no agent can have is an unknown agent, and blanks around one are ignored", async () => {
  const stage = await openStage();
  const client = stage.client();
  const quota = createIntakeQuota(client, systemClock, createLogger({ level: "silent" }));
  const parent = stage.parent("shell");
  await parent.spawn({ name: "Reviewer" });
  const asEntry = (data: object) => inputOfEntry(Object.entries(data).flat());
  const asJob = (data: object) => inputOfJob({ data }, false);
  for (const read of [asEntry, asJob]) {
    const hand = (agent_id: string) => handOver(client, read({ ...MESSAGE, agent_id }), "1", quota);
    for (const agentId of ["Reviewer!", ""]) {
      const refusal = await parent.send(agentId, "Go on.").catch(({ code, message }) => ({ code, message }));
      expect(refusal).toMatchObject({ code: "unknown_agent" });
      await expect(hand(agentId)).rejects.toMatchObject(refusal);
    }
    expect((await hand(" reviewer\n")).receipt).toMatchObject({ agent_id: "reviewer", run: 1 });
  }
});
