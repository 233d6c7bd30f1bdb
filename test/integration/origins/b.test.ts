/** Origin B: the task tool, with a real worker. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { answerToolUse } from "../../../src/producer/model-tools.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { converse, openParentScene } from "../../helpers/parent-scene.ts";
import { testClient, testParent } from "../../helpers/parents.ts";

const text = (words: string) => ({ type: "text" as const, text: words });
const use = (name: string, input: Record<string, unknown>) => ({ type: "tool_use" as const, name, input });

const flood = defineTool({
  name: "flood",
  description: "Says a lot.",
  input: z.object({}),
  run: async () => "x".repeat(60_000),
});

test("a model hands over a task and gets the summary, nothing else; files stay, the conversation does not", async () => {
  const scene = await openParentScene({
    scenario: [
      {
        match: { user: "Ask somebody" },
        turns: [
          {
            content: [
              use("task", { prompt: "Note the framework" }),
              use("task", { prompt: "Name the linter" }),
            ],
          },
          { content: [text("{{last_tool_result}}")] },
        ],
      },
      {
        match: { user: "Note the framework" },
        turns: [
          { content: [text("Writing."), use("write_file", { file_path: "note.txt", content: "pytest" })] },
          { content: [text("pytest")] },
        ],
      },
      { match: { user: "Name the linter" }, turns: [{ content: [text("ruff")] }] },
    ],
  });
  const { installation, parent } = scene;
  const tools = parent.tools(["task"]);
  const talk = await converse(scene, tools, [{ role: "user", content: "Ask somebody." }]);
  expect(talk.results.map((result) => result.content)).toEqual(["pytest", "ruff"]);
  expect(talk.results.every((result) => result.is_error === undefined)).toBe(true);

  const own = installation.offline.ledger.filter((entry) => !entry.tools.includes("task"));
  expect(own).toHaveLength(3);
  const fresh = own.filter((entry) => entry.turn === 0);
  expect(fresh.map((entry) => entry.messages)).toEqual([1, 1]);
  expect(new Set(fresh.map((entry) => entry.conversation)).size).toBe(2);
  expect(new Set(own.map((entry) => entry.max_tokens))).toEqual(new Set([8_000]));
  expect(fresh[0]?.tools).toEqual([
    "edit_file",
    "glob",
    "grep",
    "read_file",
    "send_agent_message",
    "write_file",
  ]);
  const homes = ["task", "task_2"].map((agent) =>
    readFile(
      join(installation.workspaceRoot, "default/planner-7/agents", agent, "workspace/note.txt"),
      "utf8",
    ),
  );
  expect((await Promise.allSettled(homes)).filter((file) => file.status === "fulfilled")).toEqual([
    { status: "fulfilled", value: "pytest" },
  ]);
  expect(await parent.list()).toEqual([]);
});

test("its parent reads the files it left, once the client knows where workspaces lie", async () => {
  const { installation, parent } = await openParentScene({
    scenario: {
      turns: [
        { content: [use("write_file", { file_path: "out/note.txt", content: "pytest" })] },
        { content: [text("done")] },
      ],
    },
  });
  const { agent_id } = await parent.task({ prompt: "work" });
  await expect(parent.files(agent_id)).rejects.toMatchObject({ code: "invalid_config" });
  const { prefix, workspaceRoot } = installation;
  const reader = testParent(testClient({ prefix, workspaceRoot }));
  expect(await reader.files(agent_id)).toMatchObject([{ path: "out/note.txt", size_bytes: 6 }]);
  expect((await reader.readFile(agent_id, "out/note.txt")).toString()).toBe("pytest");
  await expect(reader.files("nobody")).rejects.toMatchObject({ code: "unknown_agent" });
});

describe("the limits of a task", () => {
  test("30 turns, the last one without tools; what was found comes back, and the reply says why", async () => {
    const { parent, installation } = await openParentScene({
      scenario: {
        repeat: true,
        turns: [{ content: [text("Still looking."), use("glob", { pattern: "*.{{turn}}" })] }],
        hand_back: { content: [text("Half of it.")] },
      },
    });
    const tools = parent.tools(["task"]);
    const result = await answerToolUse(tools, { id: "t", name: "task", input: { prompt: "work" } });
    expect(result.content).toBe("[sub-agent partial, max_turns]\nHalf of it.");
    const { ledger } = installation.offline;
    expect(ledger).toHaveLength(30);
    expect(ledger.map((entry) => entry.tool_choice)).toEqual([...Array(29).fill("auto"), "none"]);
  });

  test("each tool result is cut at 50,000 characters, and says so", async () => {
    const { parent } = await openParentScene({
      scenario: { turns: [{ content: [use("flood", {})] }, { content: [text("{{last_tool_result}}")] }] },
      worker: { tools: [flood] },
    });
    const reply = await parent.task({ prompt: "work" });
    expect(reply.truncated).toBe(true);
    const seen = (await parent.fullText(reply.reply_id)) ?? "";
    expect([...seen]).toHaveLength(50_000);
    expect(seen).toMatch(/^x{49000}.*cut here/s);
  });

  test("a run that says nothing at all comes back as (no summary)", async () => {
    const { parent } = await openParentScene({ scenario: { repeat: true, turns: [{ content: [] }] } });
    const [task] = parent.tools(["task"]);
    expect(await task?.run({ prompt: "work" })).toBe("(no summary)");
  });
});

describe("the exercises", () => {
  const CODE = `console.log("a");\n// ${"TODO"}: b\nexport const c = 1;\n`;

  async function reviewer(limits: { turns?: number; tool_calls?: number }) {
    const scene = await openParentScene({
      parent: { system: "You are a code reviewer. Answer in JSON.", alerts: limits },
    });
    // The file to review gets into the reviewer's own workspace through its first run.
    const { parent } = scene;
    await parent.spawn({ name: "reviewer", keep_alive: true });
    await parent.send("reviewer", `Write \`${CODE.split("\n")[0]}\` to a.js`);
    await parent.waitAny(["reviewer"]);
    await parent.send("reviewer", "Review a.js");
    return { ...scene, reply: await parent.waitAny(["reviewer"]) };
  }

  test("a code reviewer with a system prompt of its own returns a structured review, with its counters", async () => {
    const { reply } = await reviewer({});
    const review = JSON.parse(reply.summary);
    expect(review).toMatchObject({
      verdict: "changes_requested",
      findings: [{ file: "a.js", line: 1, severity: "warning", rule: "console-log" }],
    });
    expect(reply).toMatchObject({ run: 2, turns: 2, tools_called: { read_file: 1 }, alerts: [] });
    expect(reply.tokens).toBeGreaterThan(0);
  });

  test("what all runs used is summed up, acked or not", async () => {
    const { parent, reply } = await reviewer({});
    const sum = await parent.usage({ since: new Date(Date.now() - 86_400_000) });
    expect(sum).toMatchObject({ replies: 2, turns: 4 });
    expect(sum.tokens).toBeGreaterThan(reply.tokens);
    expect(await parent.usage({ since: "2100-01-01" })).toMatchObject({ replies: 0, tokens: 0 });
    await expect(parent.usage({ since: "yesterday" })).rejects.toMatchObject({ code: "invalid_input" });
  });

  test("a run that goes beyond a threshold is reported while it runs and in its reply", async () => {
    const { reply } = await reviewer({ turns: 1, tool_calls: 1 });
    expect(reply.alerts.map(({ kind, threshold }) => [kind, threshold])).toEqual([
      ["turns", 1],
      ["tool_calls", 1],
    ]);
  });

  test("a system prompt replaces the standard one", async () => {
    const { parent } = await openParentScene({
      scenario: [
        { match: { system: "You review code" }, turns: [{ content: [text("as reviewer")] }] },
        { match: { system: "You are a sub-agent" }, turns: [{ content: [text("as sub-agent")] }] },
      ],
    });
    const own = parent.task({ prompt: "work", system: "You review code." });
    expect((await own).summary).toBe("as reviewer");
    expect((await parent.task({ prompt: "work" })).summary).toBe("as sub-agent");
  });
});
