/**
 * Guarantee: a run whose conversation has become long leaves old tool results out of its requests, or has what is old summed up,
 * and goes on.
 */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import { totalTokens } from "../../../src/shared/protocol/content.ts";
import { replay } from "../../../src/worker/loop/replay.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { endLeases } from "../../helpers/leases.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const PAGE = "word ".repeat(30_000 / 5);
const TOO_LONG = { status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum" };
type Turn = Extract<Scenario, { turns: unknown }>["turns"][number];

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const turnPage = (number: number): Turn => ({
  content: [{ type: "tool_use", id: `toolu_${number}`, name: "page", input: { number } }],
});

function runOf(turns: Turn[]) {
  return runOn({ turns });
}

async function runOn(scenario: Scenario, limits: { max_turns?: number; max_cost_usd?: number } = {}) {
  const stage = await openStage({ scenario });
  const { model, heads } = recordingModel(stage.offline.url);
  const page = defineTool({
    name: "page",
    description: "One page.",
    input: z.object({ number: z.int(), short: z.boolean().optional() }),
    run: async ({ number, short }) => `page ${number}: ${short ? "done" : PAGE}`,
  });
  await stage.startWorker({ model, tools: [page] });
  const parent = stage.parent("planner-7", { model: "offline-1", keep_alive: true, limits });
  const { agent_id } = await parent.spawn({ name: "reader" });
  await parent.send(agent_id, "work");
  const [reply] = await parent.waitAll([agent_id]);
  const uid = reply?.reply_id.split(".")[0] ?? "";
  const log = await stage.redis.hgetall(
    stage.keys.agent({ tenant: "default", parentId: "planner-7", uid }).log,
  );
  const leftOut = heads.map(({ messages }) =>
    [...messages.matchAll(/the result of page \{\\"number\\":(\d)\}/g)].map(([, number]) => Number(number)),
  );
  const shown = heads.map(({ messages }) =>
    [...messages.matchAll(/page (\d): word/g)].map(([, n]) => Number(n)),
  );
  const record = await stage.store.record({ tenant: "default", parentId: "planner-7", uid });
  return { reply, log, leftOut, shown, last: heads.at(-1)?.messages ?? "", stage, parent, agent_id, record };
}

const TOO_LARGE = { status: 413, message: "Request exceeds the maximum size" };

test.each([
  ["too long", TOO_LONG],
  ["too large", TOO_LARGE],
])(
  "a request that the provider finds %s is made again without old results; the log keeps them",
  async (_, refusal) => {
    const { reply, log, leftOut, shown } = await runOf([
      ...[1, 2, 3, 4, 5].map(turnPage),
      { ...say("All read."), failures: [refusal] },
    ]);
    expect(reply).toMatchObject({
      status: "succeeded",
      stop_reason: "end_turn",
      summary: "All read.",
      turns: 6,
    });
    expect(leftOut.slice(-2)).toEqual([[], [1, 2]]);
    expect(shown.slice(-2)).toEqual([
      [1, 2, 3, 4, 5],
      [3, 4, 5],
    ]);
    expect(log["1/toolu_1/result"]).toContain(PAGE);
    expect(log["10/cleared/3"]).toBe('{"v":1,"through":3}');
  },
);

test("a request that is too large and cannot be made smaller ends the run context_window", async () => {
  const { reply } = await runOf([{ error: TOO_LARGE }]);
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "context_window",
    error: expect.any(String),
  });
});

test("where that is still too long, the other results are left out as well", async () => {
  const { reply, leftOut } = await runOf([
    ...[1, 2, 3, 4].map(turnPage),
    { ...say("All read."), failures: [TOO_LONG, TOO_LONG] },
  ]);
  expect(reply).toMatchObject({ status: "succeeded", summary: "All read.", turns: 5 });
  expect(leftOut.slice(-3)).toEqual([[], [1], [1, 2, 3, 4]]);
});

test("a call that came near to the end of the window is followed by a request without old results", async () => {
  const uncached = { output_tokens: 10, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
  const near = { ...uncached, input_tokens: 160_000 };
  const far = { ...uncached, input_tokens: 9_000 };
  const many = [1, 2, 3, 4, 5, 6].map(turnPage);
  const { reply, leftOut } = await runOf([
    ...many.map((turn) => ({ ...turn, usage: far })),
    { ...turnPage(7), usage: near },
    say("All read."),
  ]);
  expect(reply).toMatchObject({ status: "succeeded", summary: "All read." });
  expect(leftOut.slice(-2)).toEqual([[], [1, 2, 3, 4]]);
});

test("an answer that the window cut off is gone on with", async () => {
  const { reply, last } = await runOf([
    turnPage(1),
    { ...say("The first half"), stop_reason: "model_context_window_exceeded" },
    say("and the second."),
  ]);
  expect(reply).toMatchObject({ status: "succeeded", summary: "and the second.", turns: 3 });
  expect(last).toContain("The first half");
  expect(last).toMatch(/Your last message was cut off: .* Go on\."\}\]\}$/);
});

test("without anything to leave out the run ends as it came to be", async () => {
  const { reply } = await runOf([{ ...say("Half of it."), stop_reason: "model_context_window_exceeded" }]);
  expect(reply).toMatchObject({ status: "partial", stop_reason: "context_window", summary: "Half of it." });
});

describe("a conversation without results to leave out", () => {
  const write = (number: number): Turn => ({
    content: [
      { type: "text", text: `chapter ${number}: ${PAGE}` },
      { type: "tool_use", id: `toolu_${number}`, name: "page", input: { number, short: true } },
    ],
  });
  const WINDOW = 36_000;
  const chapters = [1, 2, 3, 4, 5].map(write);
  /** The first script plays once the conversation begins with a summary; its last turn follows on what was kept. */
  const playing = (after: Turn[], summary: Turn): Scenario => [
    { match: { user: "Your own summary" }, turns: after, windowTokens: WINDOW },
    { turns: [...chapters, say("never said")], hand_back: summary, windowTokens: WINDOW },
  ];

  test("is summed up by the model, and goes on from the summary", async () => {
    const scenario = playing([say("-"), say("-"), say("The end.")], say("Chapters 1 to 3 are written."));
    const { reply, log, last, stage, parent, agent_id, record } = await runOn(scenario);
    expect(reply).toMatchObject({
      status: "succeeded",
      summary: expect.stringMatching(/^The end\./),
      turns: 7,
      compactions: 1,
    });
    expect(last).toMatch(
      /^\{"role":"user","content":\[\{"type":"text","text":"work"\},\{"type":"text","text":"\[This/,
    );
    expect(last).toContain("Chapters 1 to 3 are written.");
    expect([...last.matchAll(/chapter (\d): word/g)].map(([, n]) => Number(n))).toEqual([4, 5]);
    expect(Object.keys(log)).toContain("10/compacted/7");
    const served = stage.offline.ledger.filter(({ status }) => status === "served");
    const paid = served.map(({ usage }) => (usage ? totalTokens(usage) : 0));
    expect(reply?.tokens).toBe(paid.reduce((sum, tokens) => sum + tokens, 0));
    expect(new Set(served.map(({ idempotency_key }) => idempotency_key)).size).toBe(7);
    expect((await parent.transcript(agent_id)).entries).toContainEqual(
      expect.objectContaining({
        kind: "compacted",
        message: 10,
        before: 7,
        text: "Chapters 1 to 3 are written.",
      }),
    );
    expect(await parent.timeline(agent_id)).toContainEqual(
      expect.objectContaining({ type: "compacted", turn: 6, before: 7 }),
    );
    const decisions = replay({
      run: 1,
      spec: record?.spec as never,
      log: new Map(Object.entries(log)),
      ended: "end_turn",
    });
    expect(decisions.filter(({ agrees }) => !agrees)).toEqual([]);
    expect(decisions).toContainEqual(
      expect.objectContaining({ decided: "call_model (summary of what stands before message 7)" }),
    );
  });

  test.each<[string, Turn]>([
    ["says nothing", { content: [] }],
    ["refuses", { ...say("I will not."), stop_reason: "refusal" }],
    ["says more than it is to sum up", say("x".repeat(4 * PAGE.length))],
  ])(
    "is asked for in ever smaller parts where the model %s, and only then the run ends",
    async (_, summary) => {
      const { reply, log } = await runOn(playing([say("never said")], summary));
      expect(reply).toMatchObject({ status: "partial", stop_reason: "context_window", turns: 5 });
      const inVain = Object.keys(log).filter((key) => key.startsWith("11/purchase/"));
      expect(inVain.sort().map((key) => JSON.parse(log[key] ?? "").sums_up)).toEqual([7, 5, 3]);
    },
  );

  test("ends the run by the cap that leaves no call for a summary", async () => {
    const scenario = playing([say("-")], say("never bought"));
    const { reply, log } = await runOn(scenario, { max_turns: 6 });
    expect(reply).toMatchObject({ status: "partial", stop_reason: "max_turns", turns: 5 });
    expect(Object.keys(log).some((key) => key.includes("compacted"))).toBe(false);
  });

  test("goes on with an answer that the window cut off", async () => {
    const cut: Turn = { ...say(`half ${PAGE}`), stop_reason: "model_context_window_exceeded" };
    const { reply, last } = await runOn([
      { match: { user: "Your own summary" }, turns: [say("-"), say("-"), say("and the rest.")] },
      { turns: [...chapters.slice(0, 4), cut], hand_back: say("Two chapters.") },
    ]);
    expect(reply).toMatchObject({
      status: "succeeded",
      summary: expect.stringMatching(/^and the rest\./),
      turns: 7,
      compactions: 1,
    });
    expect(last).toMatch(/half word .*Your last message was cut off: .* Go on\."\}\]\}$/);
  });
});

test("what was refused as too long is not asked once more by whoever takes the run over", async () => {
  const read = { type: "tool_use" as const, name: "read_file", input: { file_path: "page.txt" } };
  const write = {
    type: "tool_use" as const,
    name: "write_file",
    input: { file_path: "page.txt", content: PAGE },
  };
  const reads = [1, 2, 3, 4].map((n) => ({ content: [{ ...read, id: `toolu_${n}` }] }));
  // The first call is never answered, the second one is.
  const last = { ...say("All read."), failures: [{ stream: { stallAfterChunks: 0 } }] };
  const turns: Turn[] = [{ content: [write] }, ...reads, last];
  const stage = await openStage({ scenario: { turns, windowTokens: 34_000 }, timing: LONG_TIMING });
  const { offline } = stage;
  const refused = () => offline.ledger.filter(({ http_status }) => http_status === 400).length;
  const first = await stage.spawnWorker();
  const agent = await stage.task("work", { model: "offline-1" });
  await until(() => refused() === 1 && offline.inFlight === 1);
  await first.kill();
  await endLeases(stage);
  await stage.spawnWorker();
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", summary: "All read." });
  expect(refused()).toBe(1);
});
