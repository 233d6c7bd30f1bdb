/** One agent, many doors: spawned through any, it is seen, answered, acked and destroyed through any other. */
import { beforeAll, expect, test } from "vitest";
import { agentProtocol } from "../../src/service/agent-protocol/router.ts";
import { createIntake } from "../../src/service/intake/intake.ts";
import { mcpMount } from "../../src/service/mcp/mount.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { startApi } from "../helpers/api.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";
import { ASKING, type Doors, READ_DOORS, SPAWN_DOORS } from "./crossing.ts";

let doors: Doors;

beforeAll(async () => {
  const asks = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which colour?" } };
  const painted = (what: string) => ({ content: [{ type: "text" as const, text: what }] });
  const stage = await openStage({
    scenario: [
      {
        match: { user: ASKING },
        turns: [{ content: [asks] }, painted("{{last_tool_result}} paint")],
      },
      { turns: [painted("grey paint")] },
    ],
  });
  await stage.startWorker();
  const client = stage.client();
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: stage.prefix, client, logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const { url } = await startApi({ client, mounts: [mcpMount(), agentProtocol()] });
  doors = { stage, api: url };
});

/** Gives work to five sub-agents of a parent, through a door each. */
function spawnAll(parentId: string) {
  return Promise.all(
    Object.entries(SPAWN_DOORS).map(async ([name, { spawn, asks }]) => ({
      agentId: await spawn(doors, parentId, name),
      asks,
    })),
  );
}

/** The command line's is a process a question: in the long form alone. */
const READERS = Object.entries(READ_DOORS).filter(
  ([name]) => name !== "command_line" || process.env.SUBAGENT_TEST_DOORS === "whole",
);

test.for(READERS)(
  "what five doors have spawned is seen, answered and acked through %s",
  async ([reader, { seesQuestion, answers, takes }]) => {
    const spawned = await spawnAll(reader);
    await Promise.all(
      spawned.map(async ({ agentId, asks }) => {
        if (asks) {
          await seesQuestion(doors, reader, agentId);
          await answers(doors, reader, agentId, "blue");
        }
        expect(await takes(doors, reader, agentId)).toContain(asks ? "blue" : "grey");
      }),
    );
    const parent = doors.stage.parent(reader);
    await until(async () => (await parent.newReplies()).entries.every(({ kind }) => kind === "question"));
  },
);

test.for(READERS)(
  "what five doors have spawned is destroyed through %s",
  async ([reader, { seesQuestion, destroys }]) => {
    const parentId = `${reader}.destroying`;
    const spawned = (await spawnAll(parentId)).filter(({ asks }) => asks);
    await Promise.all(
      spawned.map(async ({ agentId }) => {
        await seesQuestion(doors, parentId, agentId);
        await destroys(doors, parentId, agentId);
        const { status, ended_reason } = await doors.stage.parent(parentId).get(agentId);
        expect({ status, ended_reason }).toEqual({ status: "ended", ended_reason: "destroyed" });
      }),
    );
  },
);
