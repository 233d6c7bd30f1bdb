/** An MCP task outlives the process that made it: API processes are killed as soon as they have handed out an id. */
import { beforeAll, expect, test } from "vitest";
import { askMcp } from "../helpers/mcp.ts";
import { seeded } from "../helpers/seeded.ts";
import { until } from "../helpers/until.ts";
import { openStage, type Stage } from "../stage/stage.ts";
import { type CommandLineApi, startCommandLineApi } from "./command-line-api.ts";

/** `npm run test:doors` kills 50 times. */
const KILLS = Number(process.env.MCP_KILLS ?? 3);
const SEED = Number(process.env.SEED ?? 12);
const PROCESSES = 3;
const AT_ONCE = 4;

let stage: Stage;
let apis: Promise<CommandLineApi>[];

beforeAll(async () => {
  stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "{{user}}" }] }] } });
  await stage.startWorker();
  apis = Array.from({ length: PROCESSES }, () => startCommandLineApi(stage));
  await Promise.all(apis);
});

const address = async (api: Promise<CommandLineApi> | undefined, parentId: string) =>
  `${(await api)?.url}/mcp?parent=${parentId}`;

/** Has the `number`th process begin tasks and kills it once it has handed out an id; resolves to the ids, with their prompts. */
async function createAndKill(number: number, parentId: string, lateMs: number): Promise<Map<string, string>> {
  const victim = await apis[number % PROCESSES];
  const url = await address(apis[number % PROCESSES], parentId);
  const ids = new Map<string, string>();
  const creating = Array.from({ length: AT_ONCE }, async (_, i) => {
    const prompt = `${parentId} task ${i}`;
    const { result } = await askMcp(url, "tools/call", { name: "task", arguments: { prompt } });
    expect(result).toMatchObject({ resultType: "task" });
    ids.set(String(result?.taskId), prompt);
  });
  await Promise.any(creating);
  await new Promise((resolve) => setTimeout(resolve, lateMs));
  await victim?.kill();
  // Nobody asks the seats of the last ones.
  if (number + PROCESSES - 1 < KILLS) apis[number % PROCESSES] = startCommandLineApi(stage);
  // The others were cut off before they had an id, or have one now.
  await Promise.allSettled(creating);
  return ids;
}

test(`${KILLS} kills between create and get: 0 ids unknown, 0 results lost`, {
  timeout: 600_000,
}, async () => {
  const random = seeded(SEED);
  const tasks: { parentId: string; taskId: string; prompt: string }[] = [];
  const begunMs = performance.now();
  for (let kill = 0; kill < KILLS; kill++) {
    const parentId = `round-${kill}`;
    const ids = await createAndKill(kill, parentId, random.between(0, 5));
    const other = await address(apis[(kill + 1) % PROCESSES], parentId);
    for (const [taskId, prompt] of ids) {
      expect(await askMcp(other, "tasks/get", { taskId })).toMatchObject({ result: { taskId } });
      tasks.push({ parentId, taskId, prompt });
    }
  }
  // The results are asked for afterwards, of a process that lives: whoever made a task, its result is there.
  const last = apis[KILLS % PROCESSES];
  await Promise.all(
    tasks.map(async ({ parentId, taskId, prompt }) => {
      const url = await address(last, parentId);
      const { result } = await until(async () => {
        const answer = await askMcp(url, "tasks/get", { taskId });
        return answer.result?.status === "completed" && answer;
      });
      expect(result).toMatchObject({
        result: { structuredContent: { status: "succeeded", summary: prompt } },
      });
    }),
  );
  if (KILLS > 5)
    console.info(
      `seed ${SEED}: ${KILLS} kills, ${tasks.length} ids handed out, ${KILLS * AT_ONCE - tasks.length} calls cut off before; ` +
        `0 unknown, 0 lost; ${Math.round(performance.now() - begunMs)} ms`,
    );
});
