/** A client of MCP that calls a tool which its server does not have is told its name, without what a log would mask. */
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { keepSecret, MASK } from "../../../src/shared/secrets.ts";
import { startApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { openStage } from "../../stage/stage.ts";

const SECRET = "hunter2-of-the-operator";

test("an unknown tool is named in its refusal, a secret in its name is not", async () => {
  keepSecret(SECRET);
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
  const call = (name: string) => askMcp(`${api.url}/mcp?parent=planner-7`, "tools/call", { name });
  expect((await call("paint")).error).toMatchObject({ code: -32_602, message: 'There is no tool "paint".' });
  const { message } = (await call(`read ${SECRET}`)).error ?? {};
  expect(message).toBe(`There is no tool "read ${MASK}".`);
});
