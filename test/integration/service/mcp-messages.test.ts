import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };

test("what is no message of JSON-RPC is refused with a code of this API, and says what to send", async () => {
  const { ask } = await startApi({ client: (await openStage()).client(), mounts: [mcpMount()] });
  const { method: _, ...noMethod } = LIST;
  for (const body of [{ ...LIST, id: null }, { ...LIST, id: 1.5 }, { ...LIST, jsonrpc: "1.0" }, noMethod])
    expect(await ask("POST", "/mcp", { body }), JSON.stringify(body)).toMatchObject({
      status: 400,
      body: {
        id: null,
        error: {
          code: -32_600,
          message: expect.stringContaining('send jsonrpc as "2.0"'),
          data: { code: "invalid_input", retryable: false },
        },
      },
    });
  const nothing = await ask("POST", "/mcp", {});
  expect(nothing).toMatchObject({ status: 400, body: { error: { data: { code: "invalid_input" } } } });
});
