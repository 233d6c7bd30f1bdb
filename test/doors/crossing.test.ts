/** One agent, many doors: spawned through any, it is seen, answered and acked through any other. */
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

/** The command line's is a process a question: in the long form alone. */
const READERS = Object.entries(READ_DOORS).filter(
  ([name]) => name !== "command_line" || process.env.SUBAGENT_TEST_DOORS === "whole",
);

test.for(READERS)(
  "what five doors have spawned is seen, answered and acked through %s",
  { timeout: 60_000 },
  async ([reader, { seesQuestion, answers, takes }]) => {
    const spawned = await Promise.all(
      Object.entries(SPAWN_DOORS).map(async ([name, { spawn, asks }]) => ({
        agentId: await spawn(doors, reader, name),
        asks,
      })),
    );
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
