/** Origin A: managed sub-agents, through their tools, with a real worker. */
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Scenario } from "../../../src/offline/server.ts";
import { answerToolUse, type ParentTool } from "../../../src/producer/model-tools.ts";
import { createParent } from "../../../src/producer/parent.ts";
import type { ChannelEntry } from "../../../src/shared/protocol/reply.ts";
import { converse, openParentScene } from "../../helpers/parent-scene.ts";
import { refusal, testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";

const ORDERS = "Fetch all orders from API endpoint /orders and save the results";
const USERS = "Query the customer database for active users and save the results";
const text = (words: string) => ({ type: "text" as const, text: words });
const use = (name: string, input: Record<string, unknown>) => ({ type: "tool_use" as const, name, input });
const says = (words: string) => [{ turns: [{ content: [text(words)] }], match: { user: "work" } }];

function collector(request: string, file: string): Exclude<Scenario, unknown[]> {
  const write = use("write_file", { file_path: file, content: "[]" });
  return { match: { user: request }, turns: [{ content: [write] }, { content: [text(`Saved ${file}.`)] }] };
}

function toolNamed(tools: readonly ParentTool[], name: string) {
  const tool = tools.find((each) => each.name === name);
  if (!tool) throw new Error(`no tool ${name}`);
  return (input: unknown) => tool.run(input);
}

test("the example workflow: a model spawns two collectors, instructs them, and their replies are forwarded", async () => {
  const scene = await openParentScene({
    scenario: [
      {
        match: { user: "Collect the data" },
        turns: [
          {
            content: [
              use("spawn_sub_agent", { name: "API Collector", description: "Collects data from API A" }),
              use("spawn_sub_agent", { name: "db_collector", description: "Queries database B" }),
            ],
          },
          {
            content: [
              use("send_agent_message", { target_agent_id: "api_collector", message: ORDERS }),
              use("send_agent_message", { target_agent_id: "db_collector", message: USERS }),
            ],
          },
          { content: [text("Both are at work.")] },
          { content: [text("Both are done.")] },
        ],
      },
      collector(ORDERS, "orders.json"),
      collector(USERS, "users.json"),
    ],
  });
  const { parent, installation } = scene;
  const tools = parent.tools();
  const first = await converse(scene, tools, [{ role: "user", content: "Collect the data." }]);
  expect(first.text).toBe("Both are at work.");
  expect(first.results.map(({ content }) => JSON.parse(content))).toEqual([
    { agent_id: "api_collector", status: "created" },
    { agent_id: "db_collector", status: "created" },
    { target_agent_id: "api_collector", status: "queued" },
    { target_agent_id: "db_collector", status: "queued" },
  ]);
  const forwarded: ChannelEntry[] = [];
  let news = "";
  while (forwarded.length < 2) {
    const { text: words, entries, ack } = await parent.newReplies({ timeout_ms: 15_000 });
    forwarded.push(...entries);
    news += words;
    await ack();
  }
  expect(news).toMatch(/\nSaved orders\.json\.\n<\/sub_agent_reply boundary="[0-9a-f]{12}">/);
  const last = await converse(scene, tools, [...first.messages, { role: "user", content: news }]);
  expect(last.text).toBe("Both are done.");
  const home = join(installation.workspaceRoot, "default/planner-7/agents");
  expect(await readFile(join(home, "api_collector/workspace/orders.json"), "utf8")).toBe("[]");
  expect(await readFile(join(home, "db_collector/workspace/users.json"), "utf8")).toBe("[]");
  expect(await parent.list()).toEqual([]);
});

describe("the tools", () => {
  test("list live agents with the origin's fields, and destroy one", async () => {
    const { parent } = await openParentScene();
    const tools = parent.tools();
    for (const name of ["Data Collector", "Data Collector", "データ"]) {
      await toolNamed(tools, "spawn_sub_agent")({ name });
    }
    // Oldest first; agents of one millisecond stand in the order of their ids.
    const listed = JSON.parse(await toolNamed(tools, "list_sub_agents")({}));
    listed.sub_agents.sort((a: { agent_id: string }, b: { agent_id: string }) =>
      a.agent_id < b.agent_id ? -1 : 1,
    );
    expect(listed).toEqual({
      sub_agents: [
        ["agent", "データ"],
        ["data_collector", "Data Collector"],
        ["data_collector_2", "Data Collector"],
      ].map(([agent_id, name]) => ({
        agent_id,
        name,
        status: "idle",
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      })),
    });
    const destroyed = await toolNamed(tools, "destroy_sub_agent")({ agent_id: "data_collector" });
    expect(JSON.parse(destroyed)).toEqual({ agent_id: "data_collector", status: "destroyed" });
    expect(JSON.parse(await toolNamed(tools, "list_sub_agents")({})).sub_agents).toHaveLength(2);
  });

  test("refuse the eleventh agent with a sentence that says what to do", async () => {
    const { parent } = await openParentScene();
    const tools = parent.tools(["spawn_sub_agent", "list_sub_agents"]);
    expect(tools.map((tool) => tool.name)).toEqual(["spawn_sub_agent", "list_sub_agents"]);
    for (let i = 0; i < 10; i++) await toolNamed(tools, "spawn_sub_agent")({ name: `n${i}` });
    const call = { id: "toolu_1", name: "spawn_sub_agent", input: { name: "one more" } };
    expect(await answerToolUse(tools, call)).toEqual({
      type: "tool_result",
      tool_use_id: "toolu_1",
      is_error: true,
      content: expect.stringMatching(/10 live sub-agents.*destroy one of n0, n1/),
    });
    expect(await toolNamed(tools, "spawn_sub_agent")({ name: "one more" })).toMatch(/10 live sub-agents/);
  });

  test("answer everything a model may get wrong", async () => {
    const { parent } = await openParentScene();
    const tools = parent.tools();
    const ask = (name: string, input: unknown) => answerToolUse(tools, { id: "t", name, input });
    for (const [name, input, sentence] of [
      ["spawn_sub_agent", {}, /name/],
      ["spawn_sub_agent", { name: "../../x" }, /no slashes/],
      ["send_agent_message", { target_agent_id: "nobody", message: "x" }, /no sub-agent "nobody"/],
      ["send_agent_message", { target_agent_id: "nobody" }, /message/],
      ["agent", { prompt: "x", max_turns: 500 }, /max_turns/],
      ["teleport", {}, /no tool "teleport".*spawn_sub_agent/],
    ] as const) {
      expect(await ask(name, input)).toMatchObject({
        is_error: true,
        content: expect.stringMatching(sentence),
      });
    }
    expect(() => parent.tools(["teleport" as "task"])).toThrow(/must be one of spawn_sub_agent/);
  });

  test("cost at most 1,200 tokens all together", async () => {
    const { parent, anthropic } = await openParentScene();
    const messages = [{ role: "user" as const, content: "x" }];
    const count = async (tools: ParentTool[]) =>
      (
        await anthropic.messages.countTokens({
          model: "offline-1",
          messages,
          ...(tools.length > 0 && { tools }),
        })
      ).input_tokens;
    const tokens = (await count(parent.tools())) - (await count([]));
    expect(tokens).toBeGreaterThan(300);
    expect(tokens).toBeLessThanOrEqual(1_200);
  });
});

describe("an agent ends", () => {
  test("on completion: it is gone from the list and takes no more messages", async () => {
    const { parent } = await openParentScene({ scenario: says("done") });
    const { agent_id } = await parent.spawn({ name: "worker" });
    await parent.send(agent_id, "work");
    expect(await parent.waitAny([agent_id])).toMatchObject({ agent_status: "ended", summary: "done" });
    const send = toolNamed(parent.tools(), "send_agent_message");
    expect(await send({ target_agent_id: agent_id, message: "more" })).toMatch(/has ended \(completed\)/);
  });

  test("after its idle time, however often it is looked at, and its parent is told", async () => {
    const { parent } = await openParentScene({ parent: { idle_ms: 400 } });
    const startedMs = performance.now();
    await parent.spawn({ name: "forgotten" });
    const ended = parent.waitAny(["forgotten"]);
    await until(async () => (await parent.list()).length === 0 && (await parent.get("forgotten")));
    expect(await ended).toMatchObject({ kind: "ended", status: "cancelled", stop_reason: "idle" });
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(400);
  });

  test("not while it runs or waits for a worker, however long that takes", async () => {
    const scene = await openParentScene({
      scenario: { turns: [{ content: [text("done")], latencyMs: 1_600 }] },
      parent: { idle_ms: 300 },
      worker: { concurrency: 1 },
    });
    const names = ["first", "second"];
    for (const name of names) await scene.parent.spawn({ name });
    for (const name of names) await scene.parent.send(name, "work");
    for (const reply of await scene.parent.waitAll(names)) {
      expect(reply).toMatchObject({ status: "succeeded", summary: "done" });
    }
  });
});

describe("there is no nesting", () => {
  test("a sub-agent has no spawning tool, and one that calls it all the same is told to do the work itself", async () => {
    const { parent, installation } = await openParentScene({
      scenario: {
        turns: [
          { content: [use("spawn_sub_agent", { name: "child of a child" })] },
          { content: [text("{{last_tool_result}}")] },
        ],
      },
    });
    const reply = await parent.task({ prompt: "work" });
    expect(reply.summary).toMatch(/sub-agent cannot start or manage other agents/);
    const offered = new Set(installation.offline.ledger.flatMap((entry) => entry.tools));
    const own = new Set<string>(parent.tools().map((tool) => tool.name));
    expect([...offered].filter((name) => own.has(name))).toEqual(["send_agent_message"]);
    expect(await parent.list()).toEqual([]);
  });

  test("nobody is a parent with the identity of a sub-agent", async () => {
    const { parent, client } = await openParentScene({ scenario: says("done") });
    const { reply_id } = await parent.task({ prompt: "work" });
    const [uid = ""] = reply_id.split(".");
    expect(() => createParent({ parentId: uid, client })).toThrow(
      expect.objectContaining(refusal("nested_spawn")),
    );
  });
});

describe("messages go between parent and child only", () => {
  test("a child reaches its parent, and no sibling", async () => {
    const { parent } = await openParentScene({
      scenario: {
        match: { user: "work" },
        turns: [
          { content: [use("send_agent_message", { target_agent_id: "sibling", message: "psst" })] },
          { content: [text("{{last_tool_result}}")] },
          { content: [text("unused")] },
        ],
      },
    });
    await parent.spawn({ name: "sibling" });
    expect((await parent.task({ prompt: "work" })).summary).toMatch(/only write to your parent/);
    expect(await parent.get("sibling")).toMatchObject({ status: "idle", run: 0 });
  });

  test("an interim message is forwarded like a reply", async () => {
    const { parent } = await openParentScene({
      scenario: {
        turns: [
          { content: [use("send_agent_message", { target_agent_id: "parent", message: "halfway" })] },
          { content: [text("done")] },
        ],
      },
    });
    await parent.spawn({ name: "worker" });
    await parent.send("worker", "work");
    await until(async () => (await parent.list()).length === 0);
    const { text: words } = await parent.newReplies();
    expect(words).toMatch(/<sub_agent_message agent_id="worker" run="1" boundary="[0-9a-f]{12}">\nhalfway\n/);
    expect(words.indexOf("halfway")).toBeLessThan(words.indexOf("<sub_agent_reply"));
  });

  test("another parent's agents look as if they did not exist", async () => {
    const { parent, client, installation } = await openParentScene();
    await parent.spawn({ name: "mine" });
    const tools = testParent(client, { parentId: "stranger" }).tools();
    for (const name of ["check_sub_agent", "destroy_sub_agent"]) {
      expect(await toolNamed(tools, name)({ agent_id: "mine" })).toMatch(/no sub-agent "mine"/);
    }
    expect(JSON.parse(await toolNamed(tools, "list_sub_agents")({}))).toEqual({ sub_agents: [] });
    expect(await parent.list()).toHaveLength(1);
    await expect(access(join(installation.workspaceRoot, "default/stranger"))).rejects.toThrow();
  });
});
