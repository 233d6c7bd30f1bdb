/** What an operator gives a server to authenticate is masked in every text of this process from then on. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import type { McpServer } from "../../../../../src/shared/mcp-server.ts";
import { withoutSecrets } from "../../../../../src/shared/secrets.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";

const means = { clock: systemClock, logger: createLogger({ level: "silent" }) };
const near = { command: "server", args: [], env: {}, timeout_ms: 1_000 };
const far = { url: "https://mcp.example/", headers: {}, timeout_ms: 1_000 };

it.for<[string, McpServer, string]>([
  ["an argument of its command", { ...near, args: ["--token", "t-of-arguments-71"] }, "t-of-arguments-71"],
  ["its environment", { ...near, env: { API_KEY: "k-of-environment-72" } }, "k-of-environment-72"],
  ["a header", { ...far, headers: { Authorization: "Bearer b-of-headers-73" } }, "b-of-headers-73"],
  ["its address", { ...far, url: "https://user:p-of-address-74@mcp.example/" }, "p-of-address-74"],
])("a secret in %s", ([, server, secret]) => {
  new ServerConnection("shop", server, means);
  expect(withoutSecrets(`refused: ${secret} is unknown`)).toBe("refused: [redacted] is unknown");
});
