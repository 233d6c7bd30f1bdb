/** The official conformance suite of MCP: every scenario about tasks that is live, against `subagent-queue api`. */
import { beforeAll, expect, test } from "vitest";
import { replyIdOf } from "../../../src/shared/protocol/keys.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";
import { startCommandLineApi } from "../command-line-api.ts";
import { FIXTURE_SCENARIO, startFixtureTools } from "../fixture-tools.ts";
import { toolPath } from "../outside-tools.ts";

const SCENARIOS = [
  "tasks-lifecycle",
  "tasks-capability-negotiation",
  "tasks-wire-fields",
  "tasks-request-state-removal",
  "tasks-mrtr-input",
  "tasks-request-headers",
  "tasks-dispatch-and-envelope",
  "tasks-required-task-error",
  "tasks-mrtr-composition",
];

/** The suite is written for Node 22. */
const OLD_NODE = new URL("../../helpers/fixtures/fs-with-globs.mjs", import.meta.url).href;

let stage: Stage;
let apiUrl: string;

beforeAll(async () => {
  stage = await openStage({ scenario: FIXTURE_SCENARIO });
  await stage.startWorker();
  apiUrl = (await startCommandLineApi(stage)).url;
});

test.for(SCENARIOS)("%s", async (scenario) => {
  const parentId = scenario;
  const url = await startFixtureTools({
    target: new URL(`${apiUrl}/mcp?parent=${parentId}`),
    async loseReply(taskId) {
      const [uid = ""] = taskId.split(".");
      const address = { tenant: "default", parentId, uid };
      await until(async () => (await stage.store.record(address))?.status === "ended");
      expect(taskId).toBe(replyIdOf(uid, 1));
      await stage.redis.hdel(stage.keys.agent(address).record, "reply");
    },
  });
  const suite = await spawnNode(toolPath("conformance/dist/index.js"), {
    args: ["server", "--url", url, "--scenario", scenario],
    env: { NODE_OPTIONS: `--import ${OLD_NODE}` },
  });
  const { code } = await suite.closed;
  expect(code, suite.stdout.join("\n")).toBe(0);
});
