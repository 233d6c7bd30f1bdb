/** A parent that cannot be one is refused by each door when it is named first, by a sentence about the place where it stands. */
import { expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const NESTED = {
  status: 403,
  body: { code: "nested_spawn", detail: expect.stringContaining("A sub-agent cannot be a parent") },
};

test("a thread is not made for a parent that cannot have runs", async () => {
  const api = await startApi({ client: (await openStage()).client(), mounts: [agentProtocol()] });
  const make = (parent: string) =>
    api.ask("POST", "/agent-protocol/threads", { body: {}, headers: { "x-parent-id": parent } });
  expect(await make("sa-0123456789abcdef01234567")).toMatchObject(NESTED);
  expect(await make("-")).toMatchObject({ status: 400, body: { code: "invalid_input" } });
  expect(await make("planner-7")).toMatchObject({ status: 200, body: { status: "idle" } });
});

test("the address of the MCP server: a sub-agent's uid is nested, another form is shown", async () => {
  const api = await startApi({ client: (await openStage()).client(), mounts: [mcpMount()] });
  const ask = (parent: string) =>
    api.ask("POST", `/mcp?parent=${parent}`, { body: { jsonrpc: "2.0", id: 1, method: "tools/list" } });
  expect(await ask("sa-0123456789abcdef01234567")).toMatchObject({
    status: 403,
    body: { error: { message: NESTED.body.detail, data: { code: "nested_spawn", retryable: false } } },
  });
  for (const parent of ["-", "a&parent=b"])
    expect(await ask(parent)).toMatchObject({
      status: 400,
      body: {
        code: "invalid_input",
        detail: "The parent in the address cannot be used: write /mcp?parent=planner-7.",
      },
    });
});
