/** The parent in the address of the MCP server: a wrong one is refused by a sentence about the address. */
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("a sub-agent's uid is refused as nested_spawn, another form is shown", async () => {
  const api = await startApi({ client: (await openStage()).client(), mounts: [mcpMount()] });
  const ask = (parent: string) =>
    api.ask("POST", `/mcp?parent=${parent}`, { body: { jsonrpc: "2.0", id: 1, method: "tools/list" } });
  expect(await ask("sa-0123456789abcdef01234567")).toMatchObject({
    status: 403,
    body: { code: "nested_spawn", detail: expect.stringContaining("A sub-agent cannot be a parent") },
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
